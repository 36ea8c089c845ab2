/* progress.h and terminal.h: what people see while a plan is played, on a terminal and elsewhere.
 */
#include "collector/progress.h"

#include "collector/terminal.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cmocka.h>

static void times_in_words(void **state)
{
	(void)state;
	static const struct {
		double seconds;
		const char *text;
	} rows[] = {{0, "0 s"}, {0.6, "1 s"}, {59.4, "59 s"}, {59.6, "1 min 00 s"},
		{200, "3 min 20 s"}, {3599.6, "1 h 00 min"}, {7500, "2 h 05 min"}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char text[64];
		progress_format_time(rows[i].seconds, text, sizeof text);
		assert_string_equal(text, rows[i].text);
	}
}

static void time_left_follows_what_was_measured(void **state)
{
	(void)state;
	struct progress progress;
	progress_begin(&progress, NULL, 4, 40);
	/* by schedule, and half a second a run */
	assert_true(progress_left_s(&progress) == 42);
	progress_run(&progress, "a", 10, false);
	progress.begun_ns -= 21 * INT64_C(1000000000); /* it took twice as long */
	progress_ran(&progress, "ok", true, true);
	assert_true(progress_left_s(&progress) > 62.9 && progress_left_s(&progress) < 63.5);
	/* a warm-up tells how fast it goes, and is not one of the runs */
	progress_run(&progress, "b", 10, true);
	progress.begun_ns -= 21 * INT64_C(1000000000);
	progress_ran(&progress, "ok", true, true);
	assert_int_equal(progress.finished, 1);
	assert_true(progress_left_s(&progress) > 62.9 && progress_left_s(&progress) < 63.5);
	/* one that is not valid comes again */
	/* while a run is played the time goes down, at most by what was expected of it */
	progress_run(&progress, "c", 10, false);
	progress.begun_ns -= 5 * INT64_C(1000000000);
	assert_true(progress_left_s(&progress) > 57 && progress_left_s(&progress) < 58.5);
	progress.begun_ns -= 500 * INT64_C(1000000000);
	assert_true(progress_left_s(&progress) > 41 && progress_left_s(&progress) < 43);
	progress.begun_ns += 505 * INT64_C(1000000000);
	progress_ran(&progress, "ok", true, false);
	progress_more(&progress, 10);
	assert_int_equal(progress.total, 5);
	assert_int_equal(progress.invalid, 1);
}

/* All that was written to a terminal of so many columns. */
static char *on_terminal(unsigned short columns, void (*show)(FILE *out))
{
	static char text[8192];
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	assert_true(master >= 0);
	assert_int_equal(grantpt(master) || unlockpt(master), 0);
	int slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
	assert_true(slave >= 0);
	struct winsize size = {.ws_row = 24, .ws_col = columns};
	struct termios raw;
	assert_int_equal(ioctl(slave, TIOCSWINSZ, &size), 0);
	assert_int_equal(tcgetattr(slave, &raw), 0);
	cfmakeraw(&raw);
	assert_int_equal(tcsetattr(slave, TCSANOW, &raw), 0);
	FILE *out = fdopen(slave, "w");
	show(out);
	fputs("\n~", out);
	fflush(out);
	size_t length = 0;
	while (!length || text[length - 1] != '~') {
		ssize_t got = read(master, text + length, sizeof text - 1 - length);
		assert_true(got > 0);
		length += (size_t)got;
	}
	text[length - 2] = '\0';
	fclose(out);
	close(master);
	return text;
}

static void two_runs(FILE *out)
{
	struct progress progress;
	progress_begin(&progress, out, 3, 3);
	progress_run(&progress, "node, 1 session", 1, false);
	progress_ran(&progress, "oom: ran out of memory", false, true);
	progress_run(&progress, "a contender with a name that is long, 100 sessions", 1, false);
	progress.spent_s = progress.planned_s = 0; /* so that the time is the schedule's */
	progress_run(&progress, "a contender with a name that is long, 100 sessions", 1, false);
	progress_end(&progress);
}

/* The last line that was shown before it was taken away. */
static const char *last_line(char *text)
{
	static const char erase[] = "\r\033[K";
	char *end = strstr(text, erase), *line = text;
	assert_non_null(end);
	for (char *next; (next = strstr(end + 1, erase)); end = next)
		line = end + strlen(erase);
	*end = '\0';
	return line;
}

static void on_a_terminal(void **state)
{
	(void)state;
	unsetenv("NO_COLOR");
	setenv("TERM", "xterm", 1);
	char *wide = on_terminal(120, two_runs);
	/* a failure stays, a line of its own */
	assert_non_null(strstr(wide, "1/3  node, 1 session: oom: ran out of memory ("));
	assert_string_equal(last_line(wide), "1/3  a contender with a name that is long, 100 "
					     "sessions\033[31m  1 not ok\033[0m  3 s left");
	/* nothing is wrapped: the name is cut, counts and time are not */
	char *narrow = on_terminal(40, two_runs);
	assert_string_equal(
		last_line(narrow), "1/3  a contender wi\033[31m  1 not ok\033[0m  3 s left");
	setenv("NO_COLOR", "1", 1);
	assert_string_equal(
		last_line(on_terminal(40, two_runs)), "1/3  a contender wi  1 not ok  3 s left");
	setenv("NO_COLOR", "", 1); /* empty is not set */
	assert_non_null(strstr(on_terminal(40, two_runs), "\033[31m"));
	setenv("TERM", "dumb", 1);
	assert_null(strstr(on_terminal(40, two_runs), "\033[31m"));
}

static void progress_is_a_line_a_run(void **state)
{
	(void)state;
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);
	struct progress progress;
	progress_begin(&progress, out, 2, 20);
	assert_false(progress.terminal);
	assert_true(progress_left_s(&progress) == 21);
	progress_run(&progress, "a", 10, true);
	progress_ran(&progress, "ok", true, true); /* warm-up: no line, nothing done */
	assert_true(progress.left_s == 21);
	progress_run(&progress, "b", 10, false);
	progress_ran(&progress, "ok", true, true);
	progress_more(&progress, 10);
	progress_run(&progress, "c", 10, false);
	progress_ran(&progress, "oom: detail", false, true);
	progress_end(&progress);
	fclose(out);
	assert_non_null(strstr(text, "1/2  b: ok (0.0 s), "));
	assert_non_null(strstr(text, "2/3  c: oom: detail (0.0 s), "));
	assert_null(strstr(text, "\033"));
	assert_null(strstr(text, "  a: "));
	free(text);
	assert_int_equal(progress.not_ok, 1);
	/* quick runs bring the estimate down */
	assert_true(progress_left_s(&progress) < 1);
}

static void elsewhere(void **state)
{
	(void)state;
	int pipes[2];
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	FILE *out = fdopen(pipes[1], "w");
	assert_false(terminal_has_colour(out));
	assert_true(terminal_width(out) == SIZE_MAX);
	two_runs(out);
	fclose(out);
	char read_back[1024];
	ssize_t got = read(pipes[0], read_back, sizeof read_back - 1);
	close(pipes[0]);
	assert_true(got > 0);
	read_back[got] = '\0';
	assert_memory_equal(
		read_back, "1/3  node, 1 session: oom: ran out of memory (0.0 s), ", 54);
	assert_null(strchr(read_back, '\033'));
	assert_null(strchr(read_back, '\r'));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times_in_words),
		cmocka_unit_test(time_left_follows_what_was_measured),
		cmocka_unit_test(on_a_terminal),
		cmocka_unit_test(progress_is_a_line_a_run),
		cmocka_unit_test(elsewhere),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
