#include "collector/output.h"

#include "common/clock.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const int64_t LONG_NS = 20 * NS_PER_S;

/* Each piece is read by itself: the pipe is in packet mode. */
static void write_pieces(int fds[2], const size_t *lengths, size_t count)
{
	char piece[4096];
	assert_int_equal(pipe2(fds, O_CLOEXEC | O_NONBLOCK | O_DIRECT), 0);
	for (size_t i = 0; i < count; i++) {
		memset(piece, 'a' + (int)i, lengths[i]);
		assert_int_equal(write(fds[1], piece, lengths[i]), lengths[i]);
	}
}

static void test_start_is_kept(void **state)
{
	(void)state;
	static const struct {
		size_t lengths[4];
		const char *kept;
	} rows[] = {
		{{3}, "aaa"},
		{{10}, "aaaaaaaaaa"},
		{{11}, "aaaaaaaaaa"},
		{{4096, 1}, "aaaaaaaaaa"},
		/* what did not fit whole is not left out for what follows it */
		{{4, 9, 2}, "aaaabbbbbb"},
		{{9, 2, 1, 1}, "aaaaaaaaab"},
		{{4, 6, 1}, "aaaabbbbbb"},
		{{0}, ""},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		int fds[2];
		size_t count = 0;
		struct buf text auto_buf;
		buf_init(&text, 10);
		while (count < 4 && rows[i].lengths[count])
			count++;
		write_pieces(fds, rows[i].lengths, count);
		close(fds[1]);
		assert_int_equal(output_read_start(fds[0], &text, now_ns() + LONG_NS), 0);
		assert_string_equal(text.data ? text.data : "", rows[i].kept);
		close(fds[0]);
	}
}

static void test_time_is_up(void **state)
{
	(void)state;
	int fds[2];
	struct buf text auto_buf;
	buf_init(&text, 10);
	write_pieces(fds, (const size_t[]){3}, 1);
	assert_int_equal(output_read_start(fds[0], &text, now_ns() + 30 * NS_PER_MS), -1);
	assert_string_equal(text.data, "aaa");
	close(fds[0]);
	close(fds[1]);
}

static void test_what_cannot_be_read(void **state)
{
	(void)state;
	struct buf text auto_buf;
	buf_init(&text, 10);
	int fd = open("/", O_RDONLY | O_CLOEXEC);
	assert_int_equal(output_read_start(fd, &text, now_ns() + LONG_NS), -1);
	assert_int_equal(text.length, 0);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_start_is_kept),
		cmocka_unit_test(test_time_is_up),
		cmocka_unit_test(test_what_cannot_be_read),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
