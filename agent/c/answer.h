/*
 * One turn's answer, put together from its chunks: the text goes straight into the history, calls
 * are collected beside it until the answer is complete.
 */
#ifndef AGENT_C_ANSWER_H
#define AGENT_C_ANSWER_H

#include "agent/c/escape.h"
#include "common/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct history;

/* A tool call; its texts are JSON string text as escape.h makes it. */
struct call {
	int64_t order; /* its index, or a number beyond all before it */
	struct buf id, name, arguments;
	struct escape arguments_escape;
};

struct answer {
	struct history *history;
	size_t history_length; /* of the chain, before this answer */
	bool has_text;         /* a content delta was seen */
	bool finished;         /* a finish_reason was seen */
	bool done;             /* [DONE] was seen */
	struct escape text_escape;
	struct call *calls; /* in order of arrival until answer_end, then in their order */
	size_t call_count;
	size_t current; /* the call that the last fragment belonged to */
};

/* `history` is borrowed; nothing else may be added to it until answer_end or answer_drop. */
void answer_init(struct answer *answer, struct history *history);
/* Free the calls; what was written to the history stays. */
void answer_release(struct answer *answer);

/*
 * Take an event's data. Returns -1 with *err when it is not JSON or is an error of the server,
 * whose message is then the text, shortened.
 */
int answer_take(struct answer *answer, const char *data, size_t length, struct error *err);

/* The attempt failed: take back what was written. The answer may then begin again. */
void answer_drop(struct answer *answer);
/* The answer is complete: put the calls in order and the whole message into the history. Calls
 * without an id get one made of the turn's number. */
void answer_end(struct answer *answer, int turn);

#endif
