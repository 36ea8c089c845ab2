#include "mockllm/stream.h"

#include "common/clock.h"
#include "tests/unit/mockllm/fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static struct loop *loop;
static struct stream stream;
static struct stream_totals *totals;
static struct answer *answer;
static int peer, own;
static int completions, departures, endings;
static struct error err;

static void ending(struct stream *begun)
{
	assert_ptr_equal(begun, &stream);
	assert_true(begun->end_before_ns);
	assert_false(begun->end_after_ns);
	endings++;
}

static void completed(struct stream *ended)
{
	assert_ptr_equal(ended, &stream);
	completions++;
	loop_stop(loop);
}

static void left(struct stream *ended)
{
	assert_ptr_equal(ended, &stream);
	departures++;
	loop_stop(loop);
}

static int setup(void **state)
{
	(void)state;
	int pair[2];
	loop = loop_new(&err);
	totals = calloc(1, sizeof *totals);
	completions = departures = endings = 0;
	answer = NULL;
	if (!loop || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return -1;
	own = pair[0];
	peer = pair[1];
	fcntl(own, F_SETFL, O_NONBLOCK);
	stream = (struct stream){
		.loop = loop, .ending = ending, .completed = completed, .left = left};
	return stream_watch(&stream, own, &err);
}

static int teardown(void **state)
{
	(void)state;
	close(stream_stop(&stream));
	if (peer >= 0)
		close(peer);
	free(answer);
	free(totals);
	loop_free(loop);
	return 0;
}

/* An answer of these sends: due in ms, and a size each. */
static void make_answer(const int64_t *due_ms, const size_t *sizes, size_t count)
{
	size_t total = 0, head = sizeof *answer + count * sizeof answer->send[0];
	for (size_t i = 0; i < count; i++)
		total += sizes[i];
	answer = malloc(head + total);
	*answer = (struct answer){.bytes = (char *)answer + head, .sends = count};
	size_t end = 0;
	for (size_t i = 0; i < count; i++) {
		memset(answer->bytes + end, 'a' + (int)i, sizes[i]);
		end += sizes[i];
		answer->send[i] = (struct answer_send){due_ms[i] * NS_PER_MS, end};
	}
}

static size_t read_peer(char *into, size_t size)
{
	ssize_t length = recv(peer, into, size, MSG_DONTWAIT);
	return length > 0 ? (size_t)length : 0;
}

static void sends_leave_at_their_times(void **state)
{
	(void)state;
	const int64_t due_ms[] = {5, 10, 10, 30};
	const size_t sizes[] = {3, 4, 5, 6};
	char got[64];
	make_answer(due_ms, sizes, 4);
	int64_t base_ns = now_ns();
	stream_start(&stream, answer, base_ns, totals);
	const size_t ends[] = {3, 12, 18};
	const int64_t after_ms[] = {5, 10, 30};
	size_t seen = 0;
	for (int i = 0; i < 3; i++) {
		size_t before = seen;
		while (seen == before) {
			assert_int_equal(loop_once(loop, -1, &err), 0);
			seen += read_peer(got + seen, sizeof got - seen);
		}
		assert_true(now_ns() >= base_ns + after_ms[i] * NS_PER_MS);
		/* a machine that is busy may be late, never early */
		assert_true(seen >= ends[i]);
		if (seen == 18)
			break;
	}
	assert_int_equal(completions, 1);
	assert_memory_equal(got, "aaabbbbcccccdddddd", 18);
	assert_true(stream.first_ns >= base_ns + 5 * NS_PER_MS);
	assert_true(stream.end_before_ns >= base_ns + 30 * NS_PER_MS);
	assert_true(stream.end_after_ns >= stream.end_before_ns);
	assert_int_equal(stream.bytes_out, 18);
	assert_int_equal(totals->events, 4);
	assert_int_equal(totals->bytes, 18);
	assert_int_equal(totals->late_self.n, 4);
	assert_int_equal(totals->late_peer.n, 4);
	assert_int_equal(stream.late_peer_ns, 0);
}

static void a_late_start_is_ones_own(void **state)
{
	(void)state;
	const int64_t due_ms[] = {0, 1, 2};
	const size_t sizes[] = {1, 1, 1};
	make_answer(due_ms, sizes, 3);
	stream_start(&stream, answer, now_ns() - 50 * NS_PER_MS, totals);
	assert_int_equal(loop_run(loop, &err), 0);
	assert_int_equal(completions, 1);
	assert_true(stream.late_self_ns >= 50 * NS_PER_MS);
	assert_int_equal(stream.late_peer_ns, 0);
	assert_true(totals->late_self.max_ns >= 50 * NS_PER_MS);
}

struct reader {
	struct timer timer;
	size_t seen;
	int64_t began_ns;
};

/* Reads slowly once it has begun. */
static void read_some(struct timer *timer)
{
	struct reader *reader = container_of(timer, struct reader, timer);
	static char got[300000];
	reader->seen += read_peer(got, sizeof got);
	loop_timer_set(loop, timer, now_ns() + NS_PER_MS);
}

/* The socket is full until the peer reads: its lateness, also that of what came due meanwhile. */
static void a_peer_that_does_not_read_is_to_blame(void **state)
{
	(void)state;
	const int64_t due_ms[] = {0, 1, 2};
	const size_t sizes[] = {1000000, 10, 10};
	make_answer(due_ms, sizes, 3);
	struct reader reader = {.timer.expired = read_some};
	int64_t base_ns = now_ns();
	stream_start(&stream, answer, base_ns, totals);
	reader.began_ns = base_ns + 40 * NS_PER_MS;
	loop_timer_set(loop, &reader.timer, reader.began_ns);
	assert_int_equal(loop_run(loop, &err), 0);
	loop_timer_clear(loop, &reader.timer);
	static char rest[2000000];
	reader.seen += read_peer(rest, sizeof rest);
	assert_int_equal(completions, 1);
	assert_int_equal(reader.seen, 1000020);
	assert_int_equal(totals->events, 3);
	/* the first was blocked from its start, the others from when they were due */
	assert_true(stream.late_peer_ns >= 38 * NS_PER_MS);
	assert_true(histogram_percentile(&totals->late_peer, 0) >= 38 * NS_PER_MS);
	/* whatever the peer's part, both parts are the whole */
	assert_true(stream.late_self_ns < stream.end_after_ns - base_ns - 38 * NS_PER_MS);
}

/* A peer that has the beginning of the last send may act on it, however long the rest waits. */
static void the_end_is_told_once_when_it_begins(void **state)
{
	(void)state;
	const int64_t due_ms[] = {0, 1};
	const size_t sizes[] = {10, 1000000};
	make_answer(due_ms, sizes, 2);
	stream_start(&stream, answer, now_ns(), totals);
	while (!stream.blocked)
		assert_int_equal(loop_once(loop, -1, &err), 0);
	assert_int_equal(endings, 1);
	assert_int_equal(completions, 0);
	struct reader reader = {.timer.expired = read_some};
	loop_timer_set(loop, &reader.timer, now_ns());
	assert_int_equal(loop_run(loop, &err), 0);
	loop_timer_clear(loop, &reader.timer);
	assert_int_equal(endings, 1);
	assert_int_equal(completions, 1);
}

static void a_peer_that_leaves_early_is_noticed(void **state)
{
	(void)state;
	close(peer);
	peer = -1;
	assert_int_equal(loop_run(loop, &err), 0);
	assert_int_equal(departures, 1);
	assert_int_equal(completions, 0);
}

static void a_peer_that_leaves_in_the_middle_is_noticed(void **state)
{
	(void)state;
	const int64_t due_ms[] = {0, 60000};
	const size_t sizes[] = {5, 5};
	char got[8];
	make_answer(due_ms, sizes, 2);
	stream_start(&stream, answer, now_ns(), totals);
	while (!read_peer(got, sizeof got))
		assert_int_equal(loop_once(loop, -1, &err), 0);
	close(peer);
	peer = -1;
	assert_int_equal(loop_run(loop, &err), 0);
	assert_int_equal(departures, 1);
	assert_true(stream.first_ns > 0);
	assert_int_equal(stream.end_before_ns, 0);
	assert_int_equal(stream.bytes_out, 5);
}

static void a_peer_that_shuts_its_side_has_left(void **state)
{
	(void)state;
	const int64_t due_ms[] = {60000};
	const size_t sizes[] = {5};
	make_answer(due_ms, sizes, 1);
	stream_start(&stream, answer, now_ns(), totals);
	shutdown(peer, SHUT_WR);
	assert_int_equal(loop_run(loop, &err), 0);
	assert_int_equal(departures, 1);
}

static void after_stop_nothing_comes(void **state)
{
	(void)state;
	const int64_t due_ms[] = {0};
	const size_t sizes[] = {5};
	char got[8];
	make_answer(due_ms, sizes, 1);
	stream_start(&stream, answer, now_ns(), totals);
	assert_int_equal(stream_stop(&stream), own);
	assert_int_equal(loop_once(loop, 0, &err), 0);
	assert_int_equal(read_peer(got, sizeof got), 0);
	assert_int_equal(completions + departures, 0);
	assert_int_equal(stream_watch(&stream, own, &err), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(sends_leave_at_their_times, setup, teardown),
		cmocka_unit_test_setup_teardown(a_late_start_is_ones_own, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_peer_that_does_not_read_is_to_blame, setup, teardown),
		cmocka_unit_test_setup_teardown(
			the_end_is_told_once_when_it_begins, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_peer_that_leaves_early_is_noticed, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_peer_that_leaves_in_the_middle_is_noticed, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_peer_that_shuts_its_side_has_left, setup, teardown),
		cmocka_unit_test_setup_teardown(after_stop_nothing_comes, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
