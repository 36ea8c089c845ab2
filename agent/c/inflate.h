/*
 * Undoes the compression of an answer's body: gzip, x-gzip and deflate, where the program was built
 * with zlib.
 */
#ifndef AGENT_C_INFLATE_H
#define AGENT_C_INFLATE_H

#include "agent/c/chunk.h"

#include <stdbool.h>

struct error;
struct inflater;

/* A Content-Encoding that leaves bytes as they are. */
bool inflate_is_none(struct span coding);
/* NULL with *err: not a coding that is known. */
struct inflater *inflater_new(struct span coding, struct error *err);
void inflater_free(struct inflater *inflater); /* accepts NULL */

/* Hands the bytes that `bytes` stand for to `data`, whose result other than 0 ends it. Returns
 * that, or -1 with *err for bytes that are not compressed. */
int inflater_feed(struct inflater *inflater, const char *bytes, size_t length,
	int (*data)(void *client, const char *bytes, size_t length, struct error *err),
	void *client, struct error *err);
/* The body has ended. Returns 0, or -1 with *err if what was compressed has not; no bytes at all
 * are no text. */
int inflater_end(const struct inflater *inflater, struct error *err);

#endif
