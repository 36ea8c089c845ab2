/* What a run is made of, without a process: cpu_points.h, limits.h, output.h. */
#include "collector/cpu_points.h"
#include "collector/limits.h"
#include "collector/output.h"
#include "collector/run_facts.h"
#include "common/error.h"

#include "common/clock.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void cpu_use_is_interpolated(void **state)
{
	(void)state;
	struct cpu_points points = {0};
	struct cgroup_cpu cpu;
	assert_int_equal(cpu_points_at(&points, 5, &cpu), -1);
	cpu_points_add(&points, 1000, &(struct cgroup_cpu){0, 0, 0});
	cpu_points_add(&points, 2000, &(struct cgroup_cpu){100, 60, 40});
	cpu_points_add(&points, 4000, &(struct cgroup_cpu){500, 460, 40});
	static const struct {
		int64_t at_ns, usage_usec, user_usec, system_usec;
	} rows[] = {{0, 0, 0, 0}, {1000, 0, 0, 0}, {1500, 50, 30, 20}, {2000, 100, 60, 40},
		{3000, 300, 260, 40}, {4000, 500, 460, 40}, {9000, 500, 460, 40}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		assert_int_equal(cpu_points_at(&points, rows[i].at_ns, &cpu), 0);
		assert_int_equal(cpu.usage_usec, rows[i].usage_usec);
		assert_int_equal(cpu.user_usec, rows[i].user_usec);
		assert_int_equal(cpu.system_usec, rows[i].system_usec);
	}
	cpu_points_release(&points);
}

static void cpu_points_get_rarer(void **state)
{
	(void)state;
	assert_int_equal(cpu_point_next_ns(0, 0), NS_PER_MS);
	assert_int_equal(cpu_point_next_ns(0, 64 * NS_PER_MS), 65 * NS_PER_MS);
	assert_int_equal(cpu_point_next_ns(0, 640 * NS_PER_MS), 650 * NS_PER_MS);
	assert_int_equal(cpu_point_next_ns(0, 60 * NS_PER_S), 60 * NS_PER_S + 100 * NS_PER_MS);
}

static void limits_are_compared(void **state)
{
	(void)state;
	static const struct {
		struct cgroup_limits asked, found;
		bool swaps;
		const char *detail;
	} rows[] = {
		{{FACT_MISSING, FACT_MISSING, 0, ""}, {5 << 20, FACT_MISSING, 0, "0-3"}, true, ""},
		{{1 << 20, FACT_MISSING, 1.5, "1"}, {1 << 20, 0, 1.5, "1"}, true, ""},
		/* the kernel keeps whole pages */
		{{(1 << 20) + 5, FACT_MISSING, 0, ""}, {1 << 20, 0, 0, "1"}, true, ""},
		{{(1 << 20) + 5000, FACT_MISSING, 0, ""}, {1 << 20, 0, 0, "1"}, true,
			"memory: asked 1053576 bytes, in force 1048576"},
		{{1 << 20, FACT_MISSING, 0, ""}, {FACT_MISSING, 0, 0, ""}, false,
			"memory: asked 1048576 bytes, in force -1"},
		{{1 << 20, FACT_MISSING, 0, ""}, {2 << 20, 0, 0, ""}, false,
			"memory: asked 1048576 bytes, in force 2097152"},
		{{1 << 20, FACT_MISSING, 0, ""}, {1 << 20, FACT_MISSING, 0, ""}, true,
			"swap: asked none, in force no limit"},
		{{1 << 20, FACT_MISSING, 0, ""}, {1 << 20, FACT_MISSING, 0, ""}, false, ""},
		{{FACT_MISSING, FACT_MISSING, 0, ""}, {FACT_MISSING, 0, 2, ""}, false,
			"CPU quota: asked 0 CPUs, in force 2 (0: none)"},
		{{FACT_MISSING, FACT_MISSING, 0, "1"}, {FACT_MISSING, 0, 0, "0-1"}, false,
			"CPUs: asked 1, in force 0-1"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char detail[160];
		bool match = limits_match(
			&rows[i].asked, &rows[i].found, rows[i].swaps, 4096, detail, sizeof detail);
		assert_string_equal(detail, rows[i].detail);
		assert_int_equal(match, !*rows[i].detail);
	}
}

/* A limit that is no multiple of the page is kept smaller; how much smaller, the page says. */
static void limits_are_kept_in_pages(void **state)
{
	(void)state;
	static const int64_t pages[] = {4096, 16384, 65536};
	const int64_t asked_bytes = (1 << 20) + 65535;
	for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
		struct cgroup_limits asked = {asked_bytes, FACT_MISSING, 0, ""};
		struct cgroup_limits found = {asked_bytes / pages[i] * pages[i], 0, 0, ""};
		char detail[160];
		assert_true(limits_match(&asked, &found, false, pages[i], detail, sizeof detail));
		found.memory_bytes -= pages[i];
		assert_false(limits_match(&asked, &found, false, pages[i], detail, sizeof detail));
	}
}

static void stdout_is_sorted(void **state)
{
	(void)state;
	char text[4096] = "{\"event\":\"turn\",\"session\":\"s1\",\"turn\":1}\n"
			  "not json\n"
			  "\n"
			  "{\"event\":\"other\"}\n"
			  "[1]\n"
			  "{\"event\":\"error\",\"session\":\"s1\",\"turn\":2,\"message\":\"m\"}\n"
			  "{\"event\":\"done\"}\n";
	/* one line too long, one without its end */
	size_t length = strlen(text);
	memset(text + length, 'x', 600);
	snprintf(text + length + 600, sizeof text - length - 600, "\n{\"event\":\"turn\"}");
	struct run_facts facts;
	run_facts_init(&facts);
	output_lines_read(text, strlen(text), &facts);
	assert_int_equal(json_array_size(facts.agent_turns), 1);
	assert_int_equal(json_array_size(facts.agent_errors), 1);
	assert_int_equal(facts.stdout_bad_lines, 6);
	for (int i = 0; i < 30; i++)
		output_lines_read("{\"event\":\"error\"}\n", 18, &facts);
	assert_int_equal(json_array_size(facts.agent_errors), 20);
	assert_int_equal(facts.stdout_bad_lines, 6);
	output_lines_read(NULL, 0, &facts);
	run_facts_release(&facts);
}

static void write_all(int fd, const char *bytes, size_t length)
{
	assert_int_equal(write(fd, bytes, length), length);
}

static void output_is_read_in_pieces(void **state)
{
	(void)state;
	struct output output;
	int out[2], err_out[2];
	char spaces[3000];
	assert_int_equal(pipe2(out, O_NONBLOCK | O_CLOEXEC), 0);
	assert_int_equal(pipe2(err_out, O_NONBLOCK | O_CLOEXEC), 0);
	output_init(&output, 2);
	assert_false(output_has_done(&output));
	assert_int_equal(output_read_stdout(&output, out[0]), DRAINED_EMPTY);
	write_all(out[1], "{\"event\":\"do", 12);
	assert_int_equal(output_read_stdout(&output, out[0]), DRAINED_MORE);
	assert_false(output_has_done(&output));
	write_all(out[1], "ne\"}\n\"done\"\n", 13);
	assert_int_equal(output_read_stdout(&output, out[0]), DRAINED_MORE);
	assert_true(output_has_done(&output));
	assert_false(output_has_done(&output));
	/* of stderr the end is kept */
	memset(spaces, ' ', sizeof spaces);
	for (int i = 0; i < 100; i++) {
		write_all(err_out[1], spaces, sizeof spaces);
		assert_int_equal(output_read_stderr(&output, err_out[0]), DRAINED_MORE);
	}
	write_all(err_out[1], "last\033[1m words\n", 15);
	assert_int_equal(output_read_stderr(&output, err_out[0]), DRAINED_MORE);
	close(err_out[1]);
	assert_int_equal(output_read_stderr(&output, err_out[0]), DRAINED_END);
	/* more lines than there can be */
	write_all(out[1], spaces, 1000);
	assert_int_equal(output_read_stdout(&output, out[0]), DRAINED_END);
	assert_true(output.flooded);
	close(out[1]);

	struct run_facts facts;
	run_facts_init(&facts);
	output_take(&output, &facts);
	assert_true(facts.stdout_flooded);
	assert_int_equal(facts.stdout_bytes, 1025);
	assert_string_equal(facts.stderr_tail + strlen(facts.stderr_tail) - 15, "last?[1m words\n");
	run_facts_release(&facts);
	output_release(&output);
	close(out[0]);
	close(err_out[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cpu_use_is_interpolated),
		cmocka_unit_test(cpu_points_get_rarer),
		cmocka_unit_test(limits_are_compared),
		cmocka_unit_test(limits_are_kept_in_pages),
		cmocka_unit_test(stdout_is_sorted),
		cmocka_unit_test(output_is_read_in_pieces),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
