/*
 * A session's history as the JSON text that is sent: each message is written once, escaped once,
 * and never copied again. What all sessions send alike (model, tools, system message) is one text,
 * the prologue; a request is the prologue, the session's own chain and the epilogue.
 */
#ifndef AGENT_C_HISTORY_H
#define AGENT_C_HISTORY_H

#include "agent/c/chain.h"
#include "common/buf.h"

#include <stdbool.h>
#include <stdint.h>

/* `system_prompt` is bytes of UTF-8 (escape.h says what becomes of others). */
void prologue_init(struct buf *prologue, const char *model, const char *system_prompt,
	size_t system_prompt_length);

struct history {
	const struct buf *prologue;
	struct chain chain;
};

/* Begin with the user message: `task`, with every "{session}" replaced by `session`. */
void history_init(struct history *history, const struct buf *prologue, struct store *store,
	const char *task, const char *session);
void history_release(struct history *history);

/* Append JSON text: whole messages with a comma before each, in parts as it suits. */
void history_add(struct history *history, const char *json);
void history_add_bytes(struct history *history, const void *json, size_t length);

/* The request's body: size in bytes, parts of it. */
size_t history_size(const struct history *history);
size_t history_vectors(
	const struct history *history, size_t offset, struct iovec *vectors, size_t count);

#endif
