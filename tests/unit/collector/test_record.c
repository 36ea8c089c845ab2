#include "collector/record.h"

#include "collector/figures.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"
#include "common/buf.h"
#include "tests/unit/collector/run_fixture.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#define CLOSE(a, b) assert_true(fabs((a) - (b)) < 1e-9)

static double number(const json_t *record, const char *name)
{
	const json_t *value = json_object_get(record, name);
	assert_true(json_is_number(value));
	return json_number_value(value);
}

static double in(const json_t *record, const char *name, const char *member)
{
	return number(json_object_get(record, name), member);
}

static const char *reason(const json_t *record, const char *name)
{
	assert_true(json_is_null(json_object_get(record, name)));
	const char *text =
		json_string_value(json_object_get(json_object_get(record, "missing"), name));
	assert_non_null(text);
	return text;
}

static void every_figure_is_as_worked_out_by_hand(void **state)
{
	(void)state;
	struct run_identity identity = fixture_identity();
	struct run_facts facts = fixture_facts();
	json_auto_t *record = record_make(&identity, &facts);
	assert_string_equal(json_string_value(json_object_get(record, "outcome")), "ok");
	assert_true(json_is_true(json_object_get(record, "valid")));
	assert_true(json_is_true(json_object_get(record, "timed")));

	/* overheads 2, 3, 3, 4; gaps 7, 8, 8, 9; the agent's own 1.5 in turn 2 of both */
	CLOSE(in(record, "overhead_ms", "p50"), 3);
	CLOSE(in(record, "overhead_ms", "p90"), 3.7);
	CLOSE(in(record, "overhead_ms", "mean"), 3);
	CLOSE(in(record, "overhead_ms", "max"), 4);
	CLOSE(in(record, "overhead_ms", "n"), 4);
	CLOSE(in(record, "overhead_ms", "negative"), 0);
	CLOSE(in(record, "turn_gap_ms", "p50"), 8);
	CLOSE(in(record, "turn_overhead_agent_ms", "p50"), 1.5);
	CLOSE(in(record, "turn_overhead_agent_ms", "n"), 2);
	CLOSE(in(record, "first_request_ms", "p50"), 15);
	CLOSE(number(record, "correct_turns"), 6);
	CLOSE(number(record, "achieved_sessions"), 2);
	CLOSE(number(record, "connections"), 2);

	CLOSE(number(record, "memory_peak_bytes"), 8 << 20);
	CLOSE(number(record, "memory_over_history_bytes"), (8 << 20) - 300000);
	CLOSE(number(record, "sessions_per_gib"), 256);
	CLOSE(in(record, "memory_at_peak", "anon"), 4 << 20);
	/* 8 MiB less 4 + 1 + 1 MiB and 4096; shmem is a part of file */
	CLOSE(in(record, "memory_at_peak", "remainder"), (2 << 20) - 4096);
	CLOSE(number(record, "rss_peak_bytes"), 6 << 20);
	CLOSE(number(record, "cpu_startup_usec"), 1000);
	CLOSE(number(record, "cpu_usec_per_turn"), 2000);
	CLOSE(number(record, "cpu_user_usec_per_turn"), 1400);
	CLOSE(number(record, "cpu_system_usec_per_turn"), 600);
	/* six streams of 100 ms and four demands of 5 ms in 12 ms of CPU time */
	CLOSE(number(record, "sessions_per_core"), 620.0 / 12);
	CLOSE(in(record, "mock", "late_self_p99_us"), 90);
	CLOSE(in(record, "mock", "loop_p99_us"), 60);
	CLOSE(in(record, "mock", "events"), 240);
	CLOSE(in(record, "exit", "status"), 0);
	assert_string_equal(
		json_string_value(json_object_get(record, "samples")), "samples/12.csv");
	assert_string_equal(reason(record, "startup_ms"), "measured in runs of one session");
	assert_string_equal(reason(record, "memory_peak_cold_bytes"), "a warm run");
	fixture_release(&facts);
}

static void startup_is_of_one_session(void **state)
{
	(void)state;
	struct run_identity identity = fixture_identity();
	identity.sessions = 1;
	struct run_facts facts = fixture_facts();
	json_auto_t *record = record_make(&identity, &facts);
	CLOSE(number(record, "startup_ms"), 9);
	fixture_release(&facts);
}

static void cold_runs_and_emulation(void **state)
{
	(void)state;
	struct run_identity identity = fixture_identity();
	identity.cold = identity.emulated = true;
	struct run_facts facts = fixture_facts();
	json_auto_t *record = record_make(&identity, &facts);
	CLOSE(number(record, "memory_peak_cold_bytes"), 8 << 20);
	assert_string_equal(reason(record, "memory_peak_bytes"), "a cold run");
	assert_true(json_is_false(json_object_get(record, "timed")));
	fixture_release(&facts);
}

/* Every number that can be missing is null with its reason, never zero. */
static void missing_is_null_with_its_reason(void **state)
{
	(void)state;
	struct run_identity identity = fixture_identity();
	struct run_facts facts = fixture_facts();
	json_decref(facts.ledger);
	facts.ledger = NULL;
	json_object_set_new(facts.missing, "ledger", json_string("the mock is gone"));
	json_object_set_new(facts.missing, "memory_peak_bytes", json_string("no such file"));
	int64_t *const fields[] = {&facts.memory_peak_bytes, &facts.cpu_usage_usec,
		&facts.cpu_user_usec, &facts.cpu_system_usec, &facts.cpu_at_first_request_usec,
		&facts.cpu_user_at_first_request_usec, &facts.cpu_system_at_first_request_usec,
		&facts.rss_peak_bytes, &facts.pss_bytes, &facts.throttled_usec, &facts.nr_throttled,
		&facts.pressure_cpu_usec, &facts.pressure_memory_usec, &facts.pressure_io_usec,
		&facts.steal_usec, &facts.at_peak.total_bytes, &facts.done_ns, &facts.wall_usec,
		&facts.other_load_usec};
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
		*fields[i] = FACT_MISSING;
	json_auto_t *record = record_make(&identity, &facts);
	for (size_t i = 0; i < figures_count; i++)
		assert_true(strlen(reason(record, figures[i].name)) > 3);
	assert_string_equal(reason(record, "memory_peak_bytes"), "no such file");
	assert_string_equal(reason(record, "overhead_ms"), "no ledger");
	assert_string_equal(reason(record, "mock"), "the mock is gone");
	reason(record, "memory_at_peak");
	reason(record, "steal_usec");
	assert_true(json_is_null(json_object_get(record, "connections")));
	assert_true(json_is_false(json_object_get(json_object_get(record, "exit"), "barrier")));
	fixture_release(&facts);
}

static void a_ledger_that_is_not_one_makes_the_run_invalid(void **state)
{
	(void)state;
	struct run_identity identity = fixture_identity();
	struct run_facts facts = fixture_facts();
	json_array_append_new(json_object_get(facts.ledger, "rows"), json_pack("[i]", 1));
	json_auto_t *record = record_make(&identity, &facts);
	assert_true(json_is_false(json_object_get(record, "valid")));
	assert_string_equal(
		json_string_value(json_array_get(json_object_get(record, "invalid_reasons"), 0)),
		"ledger: ledger: rows[6]: must be an array of 16");
	fixture_release(&facts);
}

static void other_tools_and_unknown_parts(void **state)
{
	(void)state;
	struct run_identity identity = fixture_identity();
	identity.suite_tool = false;
	struct run_facts facts = fixture_facts();
	facts.at_peak.kernel_bytes = FACT_MISSING;
	facts.backend = CGROUP_V1;
	json_auto_t *record = record_make(&identity, &facts);
	assert_string_equal(
		reason(record, "overhead_ms"), "these tools tell no demand: see turn_gap_ms");
	CLOSE(in(record, "turn_gap_ms", "p50"), 8);
	const json_t *parts = json_object_get(record, "memory_at_peak");
	assert_true(json_is_null(json_object_get(parts, "kernel")));
	CLOSE(number(parts, "remainder"), (3 << 20) - 4096);
	assert_string_equal(json_string_value(json_object_get(record, "cgroup_backend")), "v1");
	fixture_release(&facts);
}

static void samples_are_written_below_the_results(void **state)
{
	(void)state;
	char folder[] = "/tmp/test_record.XXXXXX";
	assert_non_null(mkdtemp(folder));
	int dir_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct run_identity identity = fixture_identity();
	struct run_facts facts = fixture_facts();
	struct error err;
	assert_int_equal(record_write_samples(dir_fd, &identity, &facts, &err), 0);
	/* a second run finds the folder there; without a ledger the file has its header only */
	identity.run = 13;
	json_decref(facts.ledger);
	facts.ledger = NULL;
	assert_int_equal(record_write_samples(dir_fd, &identity, &facts, &err), 0);
	auto_buf struct buf first, second;
	assert_int_equal(file_read(dir_fd, "samples/12.csv", 1 << 20, &first, &err), 0);
	assert_non_null(strstr(first.data,
		"\n1,1,1,1,9000000,10000000,30000000,110000000,110010000,20,0,2,5000000,6000000,"
		"1000,500,106500000\n"));
	assert_non_null(strstr(first.data, ",0,,,3000,500,106500000\n"));
	assert_int_equal(file_read(dir_fd, "samples/13.csv", 1 << 20, &second, &err), 0);
	assert_ptr_equal(strchr(second.data, '\n'), second.data + second.length - 1);
	unlinkat(dir_fd, "samples/12.csv", 0);
	unlinkat(dir_fd, "samples/13.csv", 0);
	assert_int_equal(unlinkat(dir_fd, "samples", AT_REMOVEDIR), 0);
	close(dir_fd);
	rmdir(folder);
	fixture_release(&facts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_figure_is_as_worked_out_by_hand),
		cmocka_unit_test(startup_is_of_one_session),
		cmocka_unit_test(cold_runs_and_emulation),
		cmocka_unit_test(missing_is_null_with_its_reason),
		cmocka_unit_test(a_ledger_that_is_not_one_makes_the_run_invalid),
		cmocka_unit_test(other_tools_and_unknown_parts),
		cmocka_unit_test(samples_are_written_below_the_results),
	};
	return cmocka_run_group_tests_name("record", tests, NULL, NULL);
}
