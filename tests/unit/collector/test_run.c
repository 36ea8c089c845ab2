/* run.h: the parts that need no process. */
#include "collector/run.h"

#include "common/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void cpu_use_is_interpolated(void **state)
{
	(void)state;
	const struct cpu_point points[] = {
		{1000, {0, 0, 0}}, {2000, {100, 60, 40}}, {4000, {500, 460, 40}}};
	static const struct {
		int64_t at_ns, usage_usec, user_usec, system_usec;
	} rows[] = {{0, 0, 0, 0}, {1000, 0, 0, 0}, {1500, 50, 30, 20}, {2000, 100, 60, 40},
		{3000, 300, 260, 40}, {4000, 500, 460, 40}, {9000, 500, 460, 40}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct cgroup_cpu cpu;
		assert_int_equal(cpu_points_at(points, 3, rows[i].at_ns, &cpu), 0);
		assert_int_equal(cpu.usage_usec, rows[i].usage_usec);
		assert_int_equal(cpu.user_usec, rows[i].user_usec);
		assert_int_equal(cpu.system_usec, rows[i].system_usec);
	}
	struct cgroup_cpu cpu;
	assert_int_equal(cpu_points_at(points, 0, 5, &cpu), -1);
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
			&rows[i].asked, &rows[i].found, rows[i].swaps, detail, sizeof detail);
		assert_string_equal(detail, rows[i].detail);
		assert_int_equal(match, !*rows[i].detail);
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
	struct run_facts facts = {.agent_turns = json_array(), .agent_errors = json_array()};
	stdout_lines_read(text, strlen(text), &facts);
	assert_int_equal(json_array_size(facts.agent_turns), 1);
	assert_int_equal(json_array_size(facts.agent_errors), 1);
	assert_int_equal(facts.stdout_bad_lines, 6);
	for (int i = 0; i < 30; i++)
		stdout_lines_read("{\"event\":\"error\"}\n", 18, &facts);
	assert_int_equal(json_array_size(facts.agent_errors), 20);
	assert_int_equal(facts.stdout_bad_lines, 6);
	stdout_lines_read(NULL, 0, &facts);
	run_facts_release(&facts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cpu_use_is_interpolated),
		cmocka_unit_test(cpu_points_get_rarer),
		cmocka_unit_test(limits_are_compared),
		cmocka_unit_test(stdout_is_sorted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
