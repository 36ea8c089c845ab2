#include "mockllm/worker.h"

#include "tests/unit/mockllm/fixture.h"

#include <pthread.h>
#include <stdatomic.h>

enum { JOBS = 2000, LANES = 7, WORKERS = 3 };

static struct loop *loop;
static struct workers *workers;
static struct error err;
static atomic_int scratches;

struct scratch {
	pthread_t thread;
	int jobs;
};

static void *scratch_new(void)
{
	struct scratch *scratch = calloc(1, sizeof *scratch);
	scratch->thread = pthread_self();
	atomic_fetch_add(&scratches, 1);
	return scratch;
}

static void scratch_free(void *scratch)
{
	atomic_fetch_sub(&scratches, 1);
	free(scratch);
}

static int setup(void **state)
{
	(void)state;
	static const struct worker_setup functions = {scratch_new, scratch_free};
	loop = loop_new(&err);
	workers = workers_new(loop, WORKERS, &functions, &err);
	return workers ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	workers_free(workers);
	loop_free(loop);
	assert_int_equal(atomic_load(&scratches), 0);
	return 0;
}

struct task {
	struct job job;
	int lane, number;
	int order;
	pthread_t worked_in;
	void *block;
};

static struct task tasks[JOBS];
static atomic_int orders[LANES];
static int done_count;

static void work(struct job *job, void *memory)
{
	struct task *task = container_of(job, struct task, job);
	struct scratch *scratch = memory;
	scratch->jobs++;
	assert_true(pthread_equal(scratch->thread, pthread_self()));
	task->worked_in = pthread_self();
	task->order = atomic_fetch_add(&orders[task->lane], 1);
	task->block = calloc(1, 64);
}

static void done(struct job *job)
{
	struct task *task = container_of(job, struct task, job);
	workers_discard(workers, task->block, (size_t)task->lane);
	if (++done_count == JOBS)
		loop_stop(loop);
}

static void post(int number)
{
	int lane = number % LANES;
	tasks[number] = (struct task){.job = {work, done, NULL}, .lane = lane, .number = number};
	workers_post(workers, &tasks[number].job, (size_t)lane);
}

static void every_job_comes_back_and_lanes_keep_their_order(void **state)
{
	(void)state;
	done_count = 0;
	for (int i = 0; i < LANES; i++)
		atomic_store(&orders[i], 0);
	for (int i = 0; i < JOBS; i++) {
		post(i);
		/* so that workers also go to sleep and are woken */
		if (i % 100 == 0)
			while (done_count < i)
				assert_int_equal(loop_once(loop, -1, &err), 0);
	}
	if (done_count < JOBS)
		assert_int_equal(loop_run(loop, &err), 0);
	for (int i = 0; i < JOBS; i++) {
		assert_int_equal(tasks[i].order, i / LANES);
		assert_true(pthread_equal(tasks[i].worked_in, tasks[tasks[i].lane].worked_in));
		assert_false(pthread_equal(tasks[i].worked_in, pthread_self()));
	}
	assert_false(pthread_equal(tasks[0].worked_in, tasks[1].worked_in));
}

static atomic_int finished;

static void count(struct job *job, void *scratch)
{
	(void)job;
	(void)scratch;
	atomic_fetch_add(&finished, 1);
}

static void never(struct job *job)
{
	(void)job;
	fail();
}

static void the_end_waits_for_what_was_posted(void **state)
{
	(void)state;
	static struct job jobs[100];
	atomic_store(&finished, 0);
	for (size_t i = 0; i < 100; i++) {
		jobs[i] = (struct job){count, never, NULL};
		workers_post(workers, &jobs[i], i);
	}
	workers_free(workers);
	workers = NULL;
	assert_int_equal(atomic_load(&finished), 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			every_job_comes_back_and_lanes_keep_their_order, setup, teardown),
		cmocka_unit_test_setup_teardown(the_end_waits_for_what_was_posted, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
