#include "mockllm/worker.h"

#include "common/error.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Pushed by any thread one by one, taken by one thread as a whole. */
struct job_stack {
	_Atomic(struct job *) top;
};

struct block {
	struct block *next;
};

struct worker {
	struct workers *workers;
	pthread_t thread;
	bool started;
	int wake_fd;
	atomic_bool sleeping;
	atomic_bool stopping;
	struct job_stack inbox;
	_Atomic(struct block *) discarded;
};

struct workers {
	struct loop *loop;
	struct worker_setup setup;
	struct source done_source;
	int done_fd;
	struct job_stack done;
	size_t count;
	struct worker worker[];
};

/* True if the stack was empty. */
static bool push_job(struct job_stack *stack, struct job *job)
{
	struct job *top = atomic_load_explicit(&stack->top, memory_order_relaxed);
	do
		job->next = top;
	while (!atomic_compare_exchange_weak(&stack->top, &top, job));
	return !top;
}

/* All jobs, the oldest first. */
static struct job *take_jobs(struct job_stack *stack)
{
	struct job *newest_first = atomic_exchange(&stack->top, NULL), *oldest_first = NULL;
	while (newest_first) {
		struct job *job = newest_first;
		newest_first = job->next;
		job->next = oldest_first;
		oldest_first = job;
	}
	return oldest_first;
}

/* An eventfd takes 2^64 − 2 wakings: writing cannot fail. */
static void wake(int fd)
{
	uint64_t one = 1;
	ssize_t ignored = write(fd, &one, sizeof one);
	(void)ignored;
}

static void wait_for_wake(int fd)
{
	uint64_t count;
	while (read(fd, &count, sizeof count) < 0 && errno == EINTR)
		;
}

static void free_discarded(struct worker *worker)
{
	struct block *block = atomic_exchange(&worker->discarded, NULL);
	while (block) {
		struct block *next = block->next;
		free(block);
		block = next;
	}
}

static void work_on(struct worker *worker, struct job *jobs, void *scratch)
{
	while (jobs) {
		struct job *job = jobs;
		jobs = job->next;
		job->work(job, scratch);
		if (push_job(&worker->workers->done, job))
			wake(worker->workers->done_fd);
		free_discarded(worker);
	}
}

static void *run_worker(void *argument)
{
	struct worker *worker = argument;
	/* Refused in some sandboxes: then the thread is one like any other. */
	sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0});
	void *scratch = worker->workers->setup.scratch_new();
	for (;;) {
		struct job *jobs = take_jobs(&worker->inbox);
		if (jobs) {
			work_on(worker, jobs, scratch);
			continue;
		}
		if (atomic_load(&worker->stopping))
			break;
		/* Whoever posts looks at `sleeping` after the job is in, so look once more. */
		atomic_store(&worker->sleeping, true);
		if (!atomic_load(&worker->inbox.top) && !atomic_load(&worker->stopping))
			wait_for_wake(worker->wake_fd);
		atomic_store(&worker->sleeping, false);
	}
	free_discarded(worker);
	worker->workers->setup.scratch_free(scratch);
	return NULL;
}

static void handle_done(struct source *source, uint32_t events)
{
	(void)events;
	struct workers *workers = container_of(source, struct workers, done_source);
	uint64_t count;
	if (read(workers->done_fd, &count, sizeof count) < 0)
		return;
	for (struct job *job = take_jobs(&workers->done), *next; job; job = next) {
		next = job->next;
		job->done(job);
	}
}

static int start(struct worker *worker, struct workers *workers, struct error *err)
{
	worker->workers = workers;
	worker->wake_fd = eventfd(0, EFD_CLOEXEC);
	if (worker->wake_fd < 0)
		return error_set(err, errno, "cannot create an eventfd");
	int code = pthread_create(&worker->thread, NULL, run_worker, worker);
	if (code)
		return error_set(err, code, "cannot start a worker thread");
	worker->started = true;
	return 0;
}

struct workers *workers_new(
	struct loop *loop, size_t count, const struct worker_setup *setup, struct error *err)
{
	struct workers *workers = xcalloc(1, sizeof *workers + count * sizeof *workers->worker);
	workers->loop = loop;
	workers->setup = *setup;
	workers->done_source = (struct source){.fd = -1, .ready = handle_done};
	workers->count = count;
	for (size_t i = 0; i < count; i++)
		workers->worker[i].wake_fd = -1;
	workers->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	bool failed = workers->done_fd < 0;
	if (failed)
		error_set(err, errno, "cannot create an eventfd");
	else
		failed = loop_add(loop, &workers->done_source, workers->done_fd, EPOLLIN, err);
	for (size_t i = 0; i < count && !failed; i++)
		failed = start(&workers->worker[i], workers, err);
	if (!failed)
		return workers;
	workers_free(workers);
	return NULL;
}

void workers_free(struct workers *workers)
{
	if (!workers)
		return;
	for (size_t i = 0; i < workers->count; i++) {
		struct worker *worker = &workers->worker[i];
		if (worker->started) {
			atomic_store(&worker->stopping, true);
			wake(worker->wake_fd);
			pthread_join(worker->thread, NULL);
		}
		if (worker->wake_fd >= 0)
			close(worker->wake_fd);
	}
	loop_remove(workers->loop, &workers->done_source);
	if (workers->done_fd >= 0)
		close(workers->done_fd);
	free(workers);
}

static struct worker *worker_of(struct workers *workers, size_t lane)
{
	return &workers->worker[lane % workers->count];
}

void workers_post(struct workers *workers, struct job *job, size_t lane)
{
	struct worker *worker = worker_of(workers, lane);
	push_job(&worker->inbox, job);
	if (atomic_exchange(&worker->sleeping, false))
		wake(worker->wake_fd);
}

void workers_discard(struct workers *workers, void *block, size_t lane)
{
	struct worker *worker = worker_of(workers, lane);
	struct block *discarded = block;
	struct block *top = atomic_load_explicit(&worker->discarded, memory_order_relaxed);
	do
		discarded->next = top;
	while (!atomic_compare_exchange_weak(&worker->discarded, &top, discarded));
}
