/* POST /v1/chat/completions: from the request read to the answer's last byte. */
#ifndef MOCKLLM_CHAT_H
#define MOCKLLM_CHAT_H

#include "mockllm/mock.h"

/* Scratch of the main thread, in mock->chat_scratch. */
void chat_setup(struct mock *mock);

/* A chat completion came; takes the request and the descriptor. */
void chat_begin(struct mock *mock, struct request *request, int fd);

/* Close every open exchange of the run (NULL: every one). Those whose check a worker still has in
 * hand are released when it is done. */
void chat_cut(struct mock *mock, const struct run *run);

/* Release what is left at the very end, after the workers have stopped. */
void chat_release(struct mock *mock);

/* What the workers need for this. */
extern const struct worker_setup chat_worker_setup;

#endif
