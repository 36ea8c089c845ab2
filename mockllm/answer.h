/*
 * The bytes of an answer, ready for the wire from status line to terminator, cut into sends with
 * their times. Made by a worker; whoever sends them only hands them to the kernel.
 */
#ifndef MOCKLLM_ANSWER_H
#define MOCKLLM_ANSWER_H

#include "mockllm/script.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct answer_send {
	int64_t due_ns; /* after the request was fully read */
	size_t end;     /* of its bytes */
};

/* One block of memory: free() it. */
struct answer {
	struct answer *next; /* for whoever queues it */
	char *bytes;
	size_t sends; /* at least 1 */
	bool keep_alive;
	struct answer_send send[];
};

struct answer_wish {
	bool stream;
	bool include_usage;
	bool keep_alive; /* else the answer says "Connection: close" */
	int64_t prompt_tokens;
};

/* Memory that is used again from answer to answer, by one thread at a time. */
struct answer_scratch {
	struct script_turn turn;
	struct buf bytes, events, event_head;
	struct answer_send *send;
};

void answer_scratch_init(struct answer_scratch *scratch);
void answer_scratch_release(struct answer_scratch *scratch);

/* The answer to a turn: a stream of server-sent events, or one JSON object at the time at which
 * that stream would end. */
struct answer *answer_turn(const struct script *script, int64_t session, int64_t turn,
	const struct answer_wish *wish, struct answer_scratch *scratch);

/* An error in OpenAI's shape, due at once. `code` may be NULL. */
struct answer *answer_error(
	int status, const char *type, const char *code, const char *message, bool keep_alive);

/* Its body alone. malloc'ed. */
char *answer_error_body(const char *type, const char *code, const char *message);

#endif
