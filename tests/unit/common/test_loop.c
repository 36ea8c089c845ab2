#include "common/loop.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/rng.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <cmocka.h>

static struct loop *loop;
static struct error err;

static int setup(void **state)
{
	(void)state;
	loop = loop_new(&err);
	return loop ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	loop_free(loop);
	return 0;
}

struct recorder {
	struct timer timer;
	int id;
};

static int order[64];
static size_t order_length;

static void record(struct timer *timer)
{
	assert_int_equal(timer->slot, 0);
	order[order_length++] = container_of(timer, struct recorder, timer)->id;
}

static void timers_expire_in_deadline_order(void **state)
{
	(void)state;
	order_length = 0;
	struct recorder recorders[50];
	int64_t start_ns = now_ns() - 1000;
	uint64_t seed = 7;
	int64_t deadlines[50];
	for (int i = 0; i < 50; i++) {
		deadlines[i] = start_ns - rng_between(&seed, 0, 1000000);
		recorders[i] = (struct recorder){.timer.expired = record, .id = i};
		loop_timer_set(loop, &recorders[i].timer, start_ns + NS_PER_S);
	}
	for (int i = 0; i < 50; i++) /* move every one, then clear every fifth */
		loop_timer_set(loop, &recorders[i].timer, deadlines[i]);
	for (int i = 0; i < 50; i += 5)
		loop_timer_clear(loop, &recorders[i].timer);
	assert_int_equal(loop_once(loop, 0, &err), 0);
	assert_int_equal(order_length, 40);
	for (size_t i = 1; i < order_length; i++)
		assert_true(deadlines[order[i - 1]] <= deadlines[order[i]]);
}

static void cleared_timer_never_expires(void **state)
{
	(void)state;
	order_length = 0;
	struct recorder one = {.timer.expired = record};
	loop_timer_clear(loop, &one.timer); /* not set: no-op */
	loop_timer_set(loop, &one.timer, now_ns());
	loop_timer_clear(loop, &one.timer);
	assert_int_equal(loop_once(loop, 0, &err), 0);
	assert_int_equal(order_length, 0);
}

static void wait_ends_at_the_next_deadline(void **state)
{
	(void)state;
	order_length = 0;
	struct recorder one = {.timer.expired = record};
	int64_t deadline_ns = now_ns() + 3 * NS_PER_MS;
	loop_timer_set(loop, &one.timer, deadline_ns);
	while (!order_length)
		assert_int_equal(loop_once(loop, -1, &err), 0);
	assert_true(now_ns() >= deadline_ns);
}

/* Near the deadline it neither sleeps nor returns early; a bound that ends before holds. */
static void a_near_deadline_is_waited_for_awake(void **state)
{
	(void)state;
	loop_spin(loop, 2 * NS_PER_S);
	struct recorder one = {.timer.expired = record};
	order_length = 0;
	loop_timer_set(loop, &one.timer, now_ns() + NS_PER_S);
	assert_int_equal(loop_once(loop, 0, &err), 0);
	assert_int_equal(order_length, 0);

	/* a page fault may put the thread to sleep too */
	bool slept = true;
	for (int tries = 0; slept && tries < 5; tries++) {
		struct rusage before, after;
		order_length = 0;
		int64_t deadline_ns = now_ns() + 5 * NS_PER_MS;
		loop_timer_set(loop, &one.timer, deadline_ns);
		getrusage(RUSAGE_THREAD, &before);
		assert_int_equal(loop_once(loop, -1, &err), 0);
		getrusage(RUSAGE_THREAD, &after);
		assert_int_equal(order_length, 1);
		assert_true(now_ns() >= deadline_ns);
		slept = after.ru_nvcsw != before.ru_nvcsw;
	}
	assert_false(slept);
}

struct pair {
	struct source source;
	struct pair *other;
	int calls;
};

static void remove_other(struct source *source, uint32_t events)
{
	struct pair *pair = container_of(source, struct pair, source);
	assert_true(events & EPOLLIN);
	pair->calls++;
	if (pair->other) {
		loop_remove(loop, &pair->other->source);
		loop_free_later(loop, pair->other);
		pair->other = NULL;
	}
}

static void removed_source_gets_no_event_of_the_batch(void **state)
{
	(void)state;
	int pipes[2][2];
	struct pair *pairs[2];
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pipe2(pipes[i], O_CLOEXEC), 0);
		assert_int_equal(write(pipes[i][1], "x", 1), 1);
		pairs[i] = calloc(1, sizeof *pairs[i]);
		pairs[i]->source.ready = remove_other;
		assert_int_equal(loop_add(loop, &pairs[i]->source, pipes[i][0], EPOLLIN, &err), 0);
	}
	pairs[0]->other = pairs[1];
	pairs[1]->other = pairs[0];
	assert_int_equal(loop_once(loop, -1, &err), 0);
	/* whichever came first has removed, and freed, the other */
	struct pair *left = NULL;
	for (int i = 0; i < 2; i++) {
		struct source probe = {.fd = -1};
		if (loop_add(loop, &probe, pipes[i][0], EPOLLIN, &err))
			left = pairs[i];
		else
			loop_remove(loop, &probe);
	}
	assert_non_null(left);
	assert_int_equal(left->calls, 1);
	loop_remove(loop, &left->source);
	free(left);
	for (int i = 0; i < 2; i++) {
		close(pipes[i][0]);
		close(pipes[i][1]);
	}
}

static void slot_taken_anew_does_not_get_old_events(void **state)
{
	(void)state;
	int pipes[2];
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	assert_int_equal(write(pipes[1], "x", 1), 1);
	struct pair first = {.source.ready = remove_other}, second = {.source.ready = remove_other};
	assert_int_equal(loop_add(loop, &first.source, pipes[0], EPOLLIN, &err), 0);
	loop_remove(loop, &first.source);
	assert_int_equal(loop_add(loop, &second.source, pipes[0], EPOLLIN, &err), 0);
	assert_int_equal(second.source.slot, first.source.slot);
	assert_int_not_equal(second.source.serial, first.source.serial);
	assert_int_equal(loop_once(loop, 0, &err), 0);
	assert_int_equal(first.calls, 0);
	assert_int_equal(second.calls, 1);
	loop_remove(loop, &second.source);
	close(pipes[0]);
	close(pipes[1]);
}

static void bad_descriptor_is_told(void **state)
{
	(void)state;
	struct source source = {.ready = remove_other};
	assert_int_equal(loop_add(loop, &source, 1 << 20, EPOLLIN, &err), -1);
	assert_string_equal(err.text, "cannot watch descriptor 1048576: Bad file descriptor");
	assert_int_equal(source.fd, -1);
	loop_remove(loop, &source);
}

static void stop_from_timer(struct timer *timer)
{
	(void)timer;
	loop_stop(loop);
}

static void run_ends_by_stop(void **state)
{
	(void)state;
	struct timer timer = {.expired = stop_from_timer};
	loop_timer_set(loop, &timer, now_ns());
	assert_int_equal(loop_run(loop, &err), 0);
}

static void record_and_set_again(struct timer *timer)
{
	record(timer);
	loop_timer_set(loop, timer, now_ns());
}

/* From within a long callback: what is due is run once, a timer that sets itself anew not twice. */
static void due_timers_are_run_at_once(void **state)
{
	(void)state;
	order_length = 0;
	struct recorder due = {.timer.expired = record_and_set_again, .id = 1};
	struct recorder later = {.timer.expired = record, .id = 2};
	loop_timer_set(loop, &due.timer, now_ns());
	loop_timer_set(loop, &later.timer, now_ns() + 3600 * NS_PER_S);
	loop_run_due(loop);
	assert_int_equal(order_length, 1);
	assert_int_equal(order[0], 1);
	loop_run_due(loop);
	assert_int_equal(order_length, 2);
	loop_timer_clear(loop, &due.timer);
	loop_run_due(loop);
	assert_int_equal(order_length, 2);
	loop_timer_clear(loop, &later.timer);
}

struct counted {
	struct source source;
	int calls;
};

static void count_ready(struct source *source, uint32_t events)
{
	(void)events;
	container_of(source, struct counted, source)->calls++;
}

/* A forgotten source is out of the loop, and its place may be taken, before its descriptor closes.
 */
static void forgotten_source_gets_no_event(void **state)
{
	(void)state;
	struct counted first = {.source.ready = count_ready};
	struct counted second = {.source.ready = count_ready};
	int pipes[2][2];
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pipe2(pipes[i], O_CLOEXEC), 0);
		assert_int_equal(write(pipes[i][1], "x", 1), 1);
	}
	assert_int_equal(loop_add(loop, &first.source, pipes[0][0], EPOLLIN, &err), 0);
	loop_forget(loop, &first.source);
	assert_int_equal(first.source.fd, -1);
	assert_int_equal(loop_add(loop, &second.source, pipes[1][0], EPOLLIN, &err), 0);
	assert_int_equal(loop_once(loop, 0, &err), 0);
	assert_int_equal(first.calls, 0);
	assert_int_equal(second.calls, 1);
	close(pipes[0][0]);
	loop_forget(loop, &first.source); /* no-op */
	assert_int_equal(loop_once(loop, 0, &err), 0);
	assert_int_equal(second.calls, 2);
	loop_remove(loop, &second.source);
	close(pipes[0][1]);
	close(pipes[1][0]);
	close(pipes[1][1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(timers_expire_in_deadline_order, setup, teardown),
		cmocka_unit_test_setup_teardown(cleared_timer_never_expires, setup, teardown),
		cmocka_unit_test_setup_teardown(wait_ends_at_the_next_deadline, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_near_deadline_is_waited_for_awake, setup, teardown),
		cmocka_unit_test_setup_teardown(
			removed_source_gets_no_event_of_the_batch, setup, teardown),
		cmocka_unit_test_setup_teardown(
			slot_taken_anew_does_not_get_old_events, setup, teardown),
		cmocka_unit_test_setup_teardown(forgotten_source_gets_no_event, setup, teardown),
		cmocka_unit_test_setup_teardown(bad_descriptor_is_told, setup, teardown),
		cmocka_unit_test_setup_teardown(run_ends_by_stop, setup, teardown),
		cmocka_unit_test_setup_teardown(due_timers_are_run_at_once, setup, teardown),
	};
	return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}
