#include "collector/results.h"

#include "tests/unit/collector/results_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void expect_error(const struct folder *folder, const char *message)
{
	struct error err;
	struct results results;
	assert_int_equal(results_read(folder->fd, &results, &err), -1);
	assert_string_equal(err.text, message);
}

static void records_are_read(void **state)
{
	(void)state;
	struct folder folder = folder_make(NULL);
	json_auto_t *records = json_array();
	json_array_append_new(records, folder_record(&folder, 1, "c"));
	json_array_append_new(records, folder_record(&folder, 3, "node"));
	json_object_set_new(json_array_get(records, 1), "something_new", json_true());
	folder_write_runs(&folder, records, "");
	struct error err;
	struct results auto_results results;
	assert_int_equal(results_read(folder.fd, &results, &err), 0);
	assert_int_equal(results.run_count, 2);
	const struct run_record *run = &results.runs[1];
	assert_int_equal(run->run, 3);
	assert_string_equal(run->contender, "node");
	assert_string_equal(run->backend, "v2");
	assert_int_equal(run->outcome, OUTCOME_OK);
	assert_true(run->valid && run->timed && run->suite_tool && !run->warm_up);
	assert_null(run_record_figure(run, "startup_ms"));
	assert_string_equal(
		run_record_missing(run, "startup_ms"), "measured in runs of one session");
	assert_string_equal(run_record_missing(run, "resident_ms"), "not in the record");
	assert_non_null(run_record_figure(run, "overhead_ms"));
	assert_int_equal(json_array_size(results.notes), 0);
	folder_remove(&folder);
}

static void a_torn_last_line_is_left_out_and_said(void **state)
{
	(void)state;
	struct folder folder = folder_make(NULL);
	json_auto_t *records = json_array();
	json_array_append_new(records, folder_record(&folder, 1, "c"));
	static const char *const torn[] = {"{\"schema\":1,\"plan_sh", "{", "{\"schema\":1}x"};
	for (size_t i = 0; i < sizeof torn / sizeof *torn; i++) {
		folder_write_runs(&folder, records, torn[i]);
		struct error err = {0, ""};
		struct results auto_results results;
		assert_int_equal(results_read(folder.fd, &results, &err), 0);
		assert_string_equal(err.text, ""); /* untouched on success */
		assert_int_equal(results.run_count, 1);
		assert_string_equal(json_string_value(json_array_get(results.notes, 0)),
			"the last line of runs.jsonl (line 2) was torn off and is left out: the "
			"collector was killed");
	}
	/* the same in the middle is no torn line */
	folder_write_runs(&folder, records, "{\"schema\":1,\"plan_sh\n");
	struct error err;
	struct results results;
	assert_int_equal(results_read(folder.fd, &results, &err), -1);
	assert_non_null(strstr(err.text, "runs.jsonl:2: "));
	/* whole but for its line end: taken */
	auto_free char *line = json_dumps(json_array_get(records, 0), RECORD_DUMP_FLAGS);
	json_auto_t *none = json_array();
	folder_write_runs(&folder, none, line);
	struct results auto_results whole;
	assert_int_equal(results_read(folder.fd, &whole, &err), 0);
	assert_int_equal(whole.run_count, 1);
	folder_remove(&folder);
}

static void wrong_records_are_named_with_their_line(void **state)
{
	(void)state;
	static const struct {
		const char *member, *value, *message;
	} rows[] = {
		{"schema", "2", "runs.jsonl:2: schema: must be an integer of 1 to 1, is 2"},
		{"schema", "null", "runs.jsonl:2: schema: must be an integer of 1 to 1, is null"},
		{"run", "0", "runs.jsonl:2: run: must be an integer of 1 to 1073741824, is 0"},
		{"run", "1", "runs.jsonl:2: run: 1 is there already, in line 1"},
		{"sessions", "\"x\"",
			"runs.jsonl:2: sessions: must be an integer of 1 to 10000, is \"x\""},
		{"contender", "[]",
			"runs.jsonl:2: contender: must be a text of 1 to 200 bytes without NUL, is "
			"an "
			"array of 0"},
		{"outcome", "\"good\"",
			"runs.jsonl:2: outcome: must be ok, oom, timeout, wrong, crashed or "
			"incomplete, "
			"is \"good\""},
		{"valid", "1", "runs.jsonl:2: valid: must be true or false, is 1"},
		{"plan_sha256",
			"\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"",
			"runs.jsonl:2: plan_sha256: is not that of plan.json"},
		{"invalid_reasons", "[1]",
			"runs.jsonl:2: invalid_reasons[0]: must be a text, is 1"},
		{"memory_peak_bytes", "\"8\"",
			"runs.jsonl:2: memory_peak_bytes: must be a number of at most 1e18 in "
			"size, is "
			"\"8\""},
		{"memory_peak_bytes", "1e300",
			"runs.jsonl:2: memory_peak_bytes: must be a number of at most 1e18 in "
			"size, is "
			"1e+300"},
		{"overhead_ms", "3", "runs.jsonl:2: overhead_ms: must be an object, is 3"},
		{"overhead_ms", "{\"p50\":true,\"n\":1}",
			"runs.jsonl:2: overhead_ms.p50: must be a number of at most 1e18 in size, "
			"is "
			"true"},
		{"overhead_ms", "{\"p50\":1}",
			"runs.jsonl:2: overhead_ms.n: must be an integer of at least 1, is absent"},
		{"memory_at_peak", "[]",
			"runs.jsonl:2: memory_at_peak: must be an object, is an array of 0"},
		{"memory_at_peak", "{\"anon\":{}}",
			"runs.jsonl:2: memory_at_peak.anon: must be a number of at most 1e18 in "
			"size, is "
			"an object"},
		{"limits", "3", "runs.jsonl:2: limits: must be an object, is 3"},
	};
	struct folder folder = folder_make(NULL);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		json_auto_t *records = json_array();
		json_array_append_new(records, folder_record(&folder, 1, "c"));
		json_t *bad = folder_record(&folder, 2, "c");
		json_object_set_new(
			bad, rows[i].member, json_loads(rows[i].value, JSON_DECODE_ANY, NULL));
		json_array_append_new(records, bad);
		folder_write_runs(&folder, records, "");
		expect_error(&folder, rows[i].message);
	}
	json_auto_t *records = json_array();
	json_array_append_new(records, folder_record(&folder, 1, "c"));
	folder_write_runs(&folder, records, "[1]\n");
	expect_error(&folder, "runs.jsonl:2: must be a JSON object, is an array of 1");
	folder_write_runs(&folder, records, "\n");
	struct error err;
	struct results results;
	assert_int_equal(results_read(folder.fd, &results, &err), -1);
	assert_non_null(strstr(err.text, "runs.jsonl:2: line 1, column 0: not valid JSON"));
	folder_remove(&folder);
}

static void folders_without_results(void **state)
{
	(void)state;
	struct folder folder = folder_make(NULL);
	expect_error(&folder, "cannot open 'runs.jsonl': No such file or directory");
	json_auto_t *none = json_array();
	folder_write_runs(&folder, none, "");
	expect_error(&folder, "runs.jsonl: holds no run");
	folder_write_runs(&folder, none, "{\"torn");
	expect_error(&folder, "runs.jsonl: holds no run");

	/* the plan cannot be changed after the runs */
	struct error err;
	auto_free char *changed =
		xasprintf("{\"name\":\"other\",\"sha256\":\"%s\"}", folder.sha256);
	assert_int_equal(file_write(folder.fd, "plan.json", changed, strlen(changed), &err), 0);
	expect_error(&folder, "plan.json: sha256: is not that of the plan: the file was changed");
	assert_int_equal(file_write(folder.fd, "plan.json", "{}", 2, &err), 0);
	expect_error(&folder,
		"plan.json: sha256: must be a text of 64 to 64 bytes without NUL, is absent");
	unlinkat(folder.fd, "plan.json", 0);
	expect_error(&folder, "cannot open 'plan.json': No such file or directory");
	folder_remove(&folder);
}

static void an_environment_may_be_absent_but_not_malformed(void **state)
{
	(void)state;
	struct folder folder = folder_make(NULL);
	json_auto_t *records = json_array();
	json_array_append_new(records, folder_record(&folder, 1, "c"));
	folder_write_runs(&folder, records, "");
	struct error err;
	assert_int_equal(file_write(folder.fd, "environment.json", "[]", 2, &err), 0);
	expect_error(&folder, "environment.json: must be a JSON object, is an array of 0");
	unlinkat(folder.fd, "environment.json", 0);
	struct results auto_results results;
	assert_int_equal(results_read(folder.fd, &results, &err), 0);
	assert_null(results.environment);
	assert_int_equal(json_array_size(results.notes), 1);
	folder_remove(&folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_are_read),
		cmocka_unit_test(a_torn_last_line_is_left_out_and_said),
		cmocka_unit_test(wrong_records_are_named_with_their_line),
		cmocka_unit_test(folders_without_results),
		cmocka_unit_test(an_environment_may_be_absent_but_not_malformed),
	};
	return cmocka_run_group_tests_name("results", tests, NULL, NULL);
}
