/*
 * Splits a text/event-stream, in pieces of any size, into the data of its events.
 *
 * Lines end by LF, CRLF or CR; a byte order mark at the start is dropped; comments and the fields
 * event, id and retry are ignored; data lines of one event are joined by LF; an event without data
 * is skipped; the last event may lack its blank line. An event that stands whole in the piece given
 * is handed on from there, without a copy; only what a piece cuts off is kept.
 *
 * Lines that belong to no event stream (a server's error page under status 200) are kept aside in
 * `stray`, shortened, for a message.
 */
#ifndef AGENT_C_SSE_H
#define AGENT_C_SSE_H

#include "common/buf.h"

#include <stdbool.h>
#include <stdint.h>

struct error;

enum {
	SSE_LINE_MAX = 16 << 20,  /* bytes of one line, without its end */
	SSE_EVENT_MAX = 32 << 20, /* bytes of one event's data, its lines joined */
	SSE_STRAY_MAX = 4096,
};

struct sse {
	/* An event's data, not empty, valid during the call. Returns 0, or -1 with *err to stop. */
	int (*event)(struct sse *sse, const char *data, size_t length, struct error *err);
	struct buf kept; /* data lines of the unfinished event, then the start of its next line */
	size_t data_length; /* of the former */
	bool has_data;
	bool skip_lf;        /* the last piece ended in CR */
	uint8_t mark_length; /* bytes of a byte order mark seen; 3: no longer looked for */
	struct buf stray;
};

void sse_init(struct sse *sse,
	int (*event)(struct sse *sse, const char *data, size_t length, struct error *err));
void sse_release(struct sse *sse);

/* Returns -1 when an event's callback did, or when a line or an event is too long (err->code is
 * EMSGSIZE then). */
int sse_feed(struct sse *sse, const char *bytes, size_t length, struct error *err);
/* The stream has ended: hand on the last event if it has no blank line. */
int sse_end(struct sse *sse, struct error *err);

#endif
