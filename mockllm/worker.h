/*
 * Threads of the lowest priority for work that must not delay the main thread: it posts jobs, and
 * gets each back through its loop when done. Neither side ever waits for a lock of the other:
 * queues are lock-free, and memory is freed by the side that allocated it.
 */
#ifndef MOCKLLM_WORKER_H
#define MOCKLLM_WORKER_H

#include "common/loop.h"

#include <stddef.h>

struct error;
struct workers;

/* Embedded in what the work is about. */
struct job {
	void (*work)(struct job *job, void *scratch); /* in a worker */
	void (*done)(struct job *job);                /* in the main thread, afterwards */
	struct job *next;
};

/* Each worker has a scratch of its own for all its jobs. */
struct worker_setup {
	void *(*scratch_new)(void);
	void (*scratch_free)(void *scratch);
};

struct workers *workers_new(
	struct loop *loop, size_t count, const struct worker_setup *setup, struct error *err);

/* Ends the threads; jobs not yet done are finished, but their done is not called. NULL is
 * accepted. */
void workers_free(struct workers *workers);

/* `lane` chooses the worker: jobs of one lane are worked on one after the other. */
void workers_post(struct workers *workers, struct job *job, size_t lane);

/* Have a worker free() a block that a job of this lane allocated. Its first member is a pointer
 * that is used as the link. */
void workers_discard(struct workers *workers, void *block, size_t lane);

#endif
