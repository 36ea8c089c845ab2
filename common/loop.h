/*
 * A small epoll loop with a heap of absolute deadlines, for one thread.
 *
 * Each object embeds a `struct source` and finds itself with container_of. A source that is
 * removed while a batch of events is being handled gets no further event of that batch; memory
 * that holds a source is freed with loop_free_later, after the batch. A descriptor that another
 * process may share (a pipe, a pidfd in a vforked child) must be removed before it is closed.
 */
#ifndef COMMON_LOOP_H
#define COMMON_LOOP_H

#include <stddef.h>
#include <stdint.h>

#define container_of(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

struct error;
struct loop;

struct source {
	int fd;                                                /* -1 while not in a loop */
	void (*ready)(struct source *source, uint32_t events); /* events as of epoll(7) */
	uint32_t serial;                                       /* the loop's own */
	uint32_t slot;                                         /* the loop's own */
};

struct timer {
	int64_t deadline_ns; /* CLOCK_MONOTONIC */
	void (*expired)(struct timer *timer);
	size_t slot; /* 0 while not set; the loop's own */
};

struct loop *loop_new(struct error *err);
void loop_free(struct loop *loop); /* accepts NULL; sources and timers stay the caller's */

/* Keep the CPU when the next deadline is at most this near: to sleep and wake takes about as long,
 * and what becomes ready meanwhile can wait that long. 0, as at first: always sleep. */
void loop_spin(struct loop *loop, int64_t spin_ns);

/* Watch fd for `events` (level-triggered unless EPOLLET is among them). source->ready must be set.
 */
int loop_add(struct loop *loop, struct source *source, int fd, uint32_t events, struct error *err);
int loop_change(struct loop *loop, struct source *source, uint32_t events, struct error *err);
/* Stop watching; does not close the descriptor. No-op for a source not in the loop. */
void loop_remove(struct loop *loop, struct source *source);
/* The same for a descriptor that is closed next and that no other process shares: the kernel then
 * stops watching by itself, which saves a system call. */
void loop_forget(struct loop *loop, struct source *source);

/* Set, move or clear a timer. An expired timer is no longer set when its callback runs. */
void loop_timer_set(struct loop *loop, struct timer *timer, int64_t deadline_ns);
void loop_timer_clear(struct loop *loop, struct timer *timer);

/* free() the memory when the current batch has been handled (at once outside of one). */
void loop_free_later(struct loop *loop, void *memory);

/*
 * Wait for events, at most until the next deadline or max_wait_ns (-1: no bound, 0: do not wait),
 * and handle one batch: timers due when it began, then ready sources. A timer that a callback sets
 * to now waits for the next batch, so that neither starves the other.
 */
int loop_once(struct loop *loop, int64_t max_wait_ns, struct error *err);

/* loop_once until loop_stop. */
int loop_run(struct loop *loop, struct error *err);
void loop_stop(struct loop *loop);

/* Run the timers due by now, from within a source's callback that is long at work. The callback
 * must be ready for whatever those timers do; not for use in a timer's callback. */
void loop_run_due(struct loop *loop);

/* When the current batch began to be handled, ns: the loop's own lateness is measured from here. */
int64_t loop_batch_ns(const struct loop *loop);

#endif
