/* Receives the stamps that the suite's tool sends, on an abstract Unix datagram socket. */
#ifndef MOCKLLM_STAMPS_H
#define MOCKLLM_STAMPS_H

#include "mockllm/mock.h"

struct error;
struct stamps;

/* `name` without the leading NUL. */
struct stamps *stamps_new(struct mock *mock, const char *name, struct error *err);
void stamps_free(struct stamps *stamps); /* accepts NULL */

/* Handle what has arrived by now: a tool's stamp comes before the request it leads to. */
void stamps_drain(struct stamps *stamps);

#endif
