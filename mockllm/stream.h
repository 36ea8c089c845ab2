/*
 * Sends an answer's bytes to a peer at their times, and keeps account of lateness.
 *
 * The descriptor is the stream's own: nothing else reads or writes it. A send is late by
 *   peer: the part of its wait during which the peer's socket was full;
 *   self: the rest, until it was handed to the kernel.
 * A peer that leaves is noticed at any time, also before the first send.
 */
#ifndef MOCKLLM_STREAM_H
#define MOCKLLM_STREAM_H

#include "common/loop.h"
#include "mockllm/answer.h"
#include "mockllm/histogram.h"

#include <stdbool.h>
#include <stdint.h>

struct error;

/* Of all streams together. */
struct stream_totals {
	int64_t events; /* sends */
	int64_t bytes;
	struct histogram late_self, late_peer;
};

struct stream {
	/* set by the user before stream_watch */
	struct loop *loop;
	void (*ending)(struct stream *stream);    /* the last send begins; may be NULL */
	void (*completed)(struct stream *stream); /* the last byte is with the kernel */
	void (*left)(struct stream *stream);      /* the peer has gone */

	/* what came of it, for the user to read; 0 where it did not come to it */
	int64_t first_ns;                   /* stamped just before the first send */
	int64_t end_before_ns;              /* just before the last send's first byte */
	int64_t end_after_ns;               /* just after its last byte */
	int64_t late_self_ns, late_peer_ns; /* the worst send */
	int64_t bytes_out;

	/* the stream's own */
	struct source source;
	struct timer timer;
	const struct answer *answer;
	struct stream_totals *totals;
	int64_t base_ns;
	size_t next; /* first send that has not gone out in full */
	size_t written;
	bool blocked;
	int64_t blocked_ns; /* when the socket was found full, first since all was sent in time */
	int64_t free_ns;    /* when it was last found to have room again; 0: it was not full */
};

/* Begin to look whether the peer leaves. On failure the descriptor is still the caller's. */
int stream_watch(struct stream *stream, int fd, struct error *err);

/* Begin to send: times count from base_ns. Sends go to *totals. Both pointers are borrowed. */
void stream_start(struct stream *stream, const struct answer *answer, int64_t base_ns,
	struct stream_totals *totals);

/* Has the peer gone, though the loop has not told yet? */
bool stream_is_left(const struct stream *stream);

/* No callback comes any more. Returns the descriptor. */
int stream_stop(struct stream *stream);

#endif
