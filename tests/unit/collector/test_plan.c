/* plan.h and manifest.h: what is read, what is refused, and what is drawn from the seed. */
#include "collector/plan.h"

#include "collector/check.h"
#include "collector/manifest.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"
#include "common/scenario.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

static char folder[64];

static void put(const char *name, const char *text)
{
	char path[256];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

static char *path_of(const char *name)
{
	static char path[256];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	return path;
}

#define MANIFEST(name)                                                                             \
	"{\"name\":\"" name "\",\"contract\":1,\"command\":[\"{prefix}/bin/" name "\"]}"

static int make_folder(void **state)
{
	(void)state;
	snprintf(folder, sizeof folder, "/tmp/test-plan-XXXXXX");
	if (!mkdtemp(folder) || mkdir(path_of("contenders"), 0700) ||
		mkdir(path_of("scenarios"), 0700))
		return -1;
	put("contenders/a.json", MANIFEST("a"));
	put("contenders/b.json", MANIFEST("b"));
	put("scenarios/short.json",
		"{\"name\":\"short\",\"description\":\"d\",\"turns\":2,\"system_prompt_bytes\":100,"
		"\"task\":\"go\","
		"\"ttft_ms\":{\"constant\":100},\"chunk_interval_ms\":{\"constant\":10},"
		"\"spread_first_ms\":0,\"chunks\":10,\"chunk_bytes\":{\"min\":1,\"max\":2},"
		"\"tools\":{\"kind\":\"tmtool\",\"calls\":{\"min\":1,\"max\":1},"
		"\"sleep_ms\":{\"min\":1,\"max\":50},\"output_bytes\":{\"min\":1,\"max\":2}}}");
	return 0;
}

static int remove_folder(void **state)
{
	(void)state;
	pid_t pid = fork();
	if (pid == 0) {
		execlp("rm", "rm", "-rf", folder, (char *)NULL);
		_exit(127);
	}
	return waitpid(pid, NULL, 0) == pid ? 0 : -1;
}

#define PLAN(more)                                                                                 \
	"{\"name\":\"p\",\"contenders\":[\"a\",\"b\"],\"sessions\":[1,10],\"scenarios\":"          \
	"[\"short\"],\"repetitions\":2,\"seed\":5,\"run_timeout_s\":9" more "}"

static const struct plan_overrides none;

static void reads_a_plan(void **state)
{
	(void)state;
	struct error err;
	put("p.json",
		PLAN(",\"limits\":{\"memory_bytes\":67108864,\"cpu_quota\":1.5},"
		     "\"placement\":\"shared\",\"track\":\"equalised\",\"bounds\":"
		     "{\"late_self_p99_us\":7,\"steal_percent\":1},\"agent\":{\"report\":false}"));
	struct plan *plan = plan_read_file(path_of("p.json"), &none, &err);
	assert_non_null(plan);
	assert_string_equal(plan->name, "p");
	assert_int_equal(plan->contender_count, 2);
	assert_string_equal(plan->contenders[1].manifest->name, "b");
	assert_string_equal(plan->contenders[1].here, path_of("contenders"));
	assert_int_equal(plan->scenario_count, 1);
	assert_string_equal(plan->scenarios[0].scenario->name, "short");
	assert_int_equal(plan->session_count, 2);
	assert_int_equal(plan->memory_bytes, 67108864);
	assert_true(plan->cpu_quota == 1.5);
	assert_false(plan->split);
	assert_false(plan->agent_report);
	assert_string_equal(plan->track, "equalised");
	assert_int_equal(plan->bounds.late_self_p99_us, 7);
	assert_int_equal(plan_cell_count(plan), 4);

	/* what was resolved reads back as the same plan, without any file */
	json_t *copy = json_deep_copy(plan->resolved);
	struct plan *again = plan_read_resolved(copy, "plan.json", &err);
	assert_non_null(again);
	assert_string_equal(again->sha256, plan->sha256);
	assert_int_equal(again->memory_bytes, 67108864);
	assert_null(again->contenders[0].here);
	plan_free(again);

	copy = json_deep_copy(plan->resolved);
	json_object_set_new(copy, "seed", json_integer(6));
	assert_null(plan_read_resolved(copy, "plan.json", &err));
	assert_string_equal(
		err.text, "plan.json: sha256: is not that of the plan: the file was changed");
	plan_free(plan);
}

static void takes_defaults(void **state)
{
	(void)state;
	struct error err;
	put("p.json", PLAN(""));
	struct plan *plan = plan_read_file(path_of("p.json"), &none, &err);
	assert_non_null(plan);
	assert_true(plan->memory_bytes == FACT_MISSING);
	assert_true(plan->cpu_quota == 0);
	assert_true(plan->split && plan->agent_report);
	assert_string_equal(plan->track, "shipped");
	plan_free(plan);
}

static void refuses_bad_plans(void **state)
{
	(void)state;
	static const struct {
		const char *text, *message;
	} rows[] = {
		{"", "line 1, column 0: not valid JSON"},
		{"{\"name\":\"p\"}", "contenders: must be an array of 1 to 64 items, is absent"},
		{PLAN(",\"color\":1"), "color: unknown field"},
		{PLAN(",\"files\":{}"), "files: unknown field"},
		{PLAN(",\"seed\":1"), "not valid JSON: duplicate object key"},
		{PLAN(",\"placement\":\"left\""),
			"placement: must be \"split\" or \"shared\", is \"left\""},
		{PLAN(",\"track\":\"fast\""),
			"track: must be \"shipped\" or \"equalised\", is \"fast\""},
		{PLAN(",\"limits\":{\"memory_bytes\":1}"),
			"limits.memory_bytes: must be an integer of 4194304 to 1125899906842624, "
			"is "
			"1"},
		{PLAN(",\"limits\":{\"cpus\":1}"), "limits.cpus: unknown field"},
		{PLAN(",\"bounds\":{\"steal_percent\":0}"),
			"bounds.steal_percent: must be a number of 0.001 to 100, is 0"},
		{PLAN(",\"agent\":{\"report\":1}"), "agent.report: must be true or false, is 1"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct error err;
		put("bad.json", rows[i].text);
		assert_null(plan_read_file(path_of("bad.json"), &none, &err));
		assert_memory_equal(err.text, path_of("bad.json"), strlen(folder));
		if (!strstr(err.text, rows[i].message))
			fail_msg("'%s' is not in '%s'", rows[i].message, err.text);
	}
}

static void refuses_bad_overrides(void **state)
{
	(void)state;
	static const struct {
		struct plan_overrides overrides;
		const char *message;
	} rows[] = {
		{{.sessions = "0"}, "--sessions: must be an integer of 1 to 10000, is '0'"},
		{{.sessions = "1,x"}, "--sessions: must be an integer of 1 to 10000, is 'x'"},
		{{.sessions = ","}, "--sessions: must be a list separated by commas without empty "
				    "items, is ','"},
		{{.sessions = "3,3"}, "sessions[1]: 3 is there twice"},
		{{.repetitions = "1,2"},
			"--repetitions: must be an integer of 1 to 1000, is '1,2'"},
		{{.repetitions = "1001"},
			"--repetitions: must be an integer of 1 to 1000, is '1001'"},
		{{.sessions = "1,,2"}, "without empty items, is '1,,2'"},
		{{.contenders = "a,"}, "without empty items, is 'a,'"},
		{{.ttft_ms = "-1"}, "--ttft-ms: must be a number of 0 to 3600000, is '-1'"},
		{{.ttft_ms = "1 "}, "--ttft-ms: must be a number of 0 to 3600000, is '1 '"},
		{{.tokens_per_s = "nan"}, "--tokens-per-s: must be a number of 0.001 to 1000000"},
		{{.memory = "-1g"}, "--memory: must be a size like 512m or 2g, or none, is '-1g'"},
		{{.memory = "g"}, "--memory: must be a size"},
		{{.memory = "2000t"}, "limits.memory_bytes: must be an integer of 4194304 to"},
		{{.cpu_quota = "2000"}, "--cpu-quota: must be a number of CPUs like 0.5, or none"},
		{{.contenders = "c"}, "contenders: there is no 'c' in "},
		{{.contenders = "a,a"}, "contenders: 'a' is there twice"},
		{{.scenarios = "long"}, "scenarios: there is no 'long' in "},
	};
	put("p.json", PLAN(""));
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct error err;
		assert_null(plan_read_file(path_of("p.json"), &rows[i].overrides, &err));
		if (!strstr(err.text, rows[i].message))
			fail_msg("'%s' is not in '%s'", rows[i].message, err.text);
	}
}

static void overrides_are_part_of_the_plan(void **state)
{
	(void)state;
	struct error err;
	put("p.json", PLAN(""));
	auto_free char *other = xasprintf("b,%s", path_of("contenders/a.json"));
	struct plan_overrides overrides = {
		.contenders = other, .sessions = "500,7", .repetitions = "1", .scenarios = ""};
	struct plan *written = plan_read_file(path_of("p.json"), &none, &err);
	struct plan *plan = plan_read_file(path_of("p.json"), &overrides, &err);
	assert_non_null(plan);
	assert_string_not_equal(plan->sha256, written->sha256);
	assert_string_equal(plan->contenders[0].manifest->name, "b");
	assert_string_equal(plan->contenders[1].manifest->name, "a");
	assert_int_equal(plan->sessions[0], 500);
	assert_int_equal(
		json_integer_value(json_array_get(json_object_get(plan->resolved, "sessions"), 1)),
		7);
	assert_int_equal(plan->repetitions, 1);
	const json_t *given = json_object_get(plan->resolved, "overrides");
	assert_int_equal(json_object_size(given), 3);
	assert_string_equal(json_string_value(json_object_get(given, "sessions")), "500,7");
	assert_null(json_object_get(written->resolved, "overrides"));
	plan_free(plan);
	plan_free(written);
}

static void overrides_of_timing_and_limits(void **state)
{
	(void)state;
	struct error err;
	put("p.json", PLAN(""));
	struct plan_overrides overrides = {
		.ttft_ms = "50", .tokens_per_s = "200", .memory = "1.5G", .cpu_quota = "0.25"};
	struct plan *plan = plan_read_file(path_of("p.json"), &overrides, &err);
	assert_non_null(plan);
	const struct scenario *scenario = plan->scenarios[0].scenario;
	assert_true(scenario->ttft_ms.base_ms == 50);
	assert_true(scenario->chunk_interval_ms.base_ms == 5);
	assert_int_equal(plan->memory_bytes, 3 << 29);
	assert_true(plan->cpu_quota == 0.25);
	plan_free(plan);
	/* "none" takes limits away, and what is as the plan has it is no change */
	overrides = (struct plan_overrides){.memory = "none", .cpu_quota = "0", .ttft_ms = "100"};
	plan = plan_read_file(path_of("p.json"), &overrides, &err);
	assert_non_null(plan);
	assert_int_equal(plan->memory_bytes, FACT_MISSING);
	assert_true(plan->cpu_quota == 0);
	assert_true(plan_results_bytes(plan) > 0);
	plan_free(plan);
}

static void blocks_hold_each_cell_once(void **state)
{
	(void)state;
	struct error err;
	struct plan_overrides overrides = {.sessions = "1,2,3,4,5,6,7,8"};
	put("p.json", PLAN(""));
	struct plan *plan = plan_read_file(path_of("p.json"), &overrides, &err);
	assert_non_null(plan);
	size_t count = plan_cell_count(plan), same = 0;
	auto_free struct plan_cell *first = plan_block(plan, 1);
	auto_free struct plan_cell *second = plan_block(plan, 2);
	auto_free struct plan_cell *first_again = plan_block(plan, 1);
	assert_int_equal(count, 16);
	assert_memory_equal(first, first_again, count * sizeof *first);
	bool seen[2][9] = {0};
	for (size_t i = 0; i < count; i++) {
		assert_false(seen[second[i].contender][second[i].sessions]);
		seen[second[i].contender][second[i].sessions] = true;
		same += first[i].contender == second[i].contender &&
			first[i].sessions == second[i].sessions;
	}
	assert_true(same < count / 2);

	/* both contenders of a block meet one schedule; other blocks and sizes have others */
	struct plan_cell a = {0, 0, 3}, b = {1, 0, 3}, more = {0, 0, 4};
	assert_true(plan_run_seed(plan, 1, &a) == plan_run_seed(plan, 1, &b));
	assert_true(plan_run_seed(plan, 1, &a) != plan_run_seed(plan, 2, &a));
	assert_true(plan_run_seed(plan, 1, &a) != plan_run_seed(plan, 1, &more));
	assert_true(plan_run_seed(plan, 1, &a) >= 0);
	/* two streams of 100 + 10 × 10 ms, a tool of at most 50 ms between them */
	assert_true(scenario_seconds(plan->scenarios[0].scenario) == 0.45);
	plan_free(plan);
}

/* ---- manifests */

static void refuses_bad_manifests(void **state)
{
	(void)state;
	static const struct {
		const char *text, *message;
	} rows[] = {
		{"{\"name\":\"A\",\"contract\":1,\"command\":[\"/x\"]}",
			"name: must be 1 to 63 lower-case letters, digits and '-', is \"A\""},
		{"{\"name\":\"../x\",\"contract\":1,\"command\":[\"/x\"]}",
			"name: must be 1 to 63"},
		{"{\"name\":\"a\",\"contract\":2,\"command\":[\"/x\"]}",
			"contract: must be an integer of 1 to 1, is 2"},
		{"{\"name\":\"a\",\"contract\":1,\"command\":[]}",
			"command: must be an array of 1 to 256 items, is an array of 0"},
		{"{\"name\":\"a\",\"contract\":1,\"command\":[\"node\"]}",
			"command[0]: must be a path that begins with '/', '{prefix}/' or "
			"'{here}/', "
			"is \"node\""},
		{"{\"name\":\"a\",\"contract\":1,\"command\":[\"/x\",3]}",
			"command[1]: must be a text of 1 to 4096 bytes without NUL, is 3"},
		{"{\"name\":\"a\",\"contract\":1,\"command\":[\"/x\"],\"ship\":[\"x\"]}",
			"ship[0]: must be a path"},
		{"{\"name\":\"a\",\"contract\":1,\"command\":[\"/x\"],\"beliefs\":[\"node\"]}",
			"beliefs[0]: must be a path"},
		{"{\"name\":\"a\",\"contract\":1,\"command\":[\"/x\"],\"environment\":{\"A=B\":"
		 "\"\"}}",
			"environment: \"A=B\" is no variable's name"},
		{"{\"name\":\"a\",\"contract\":1,\"command\":[\"/x\"],\"environment\":{\"A\":1}}",
			"environment.A: must be a text without NUL, is 1"},
		{"{\"name\":\"a\",\"contract\":1,\"command\":[\"/x\"],\"environment\":{\"AGENT_"
		 "SESSIONS\":\"1\"}}",
			"environment.AGENT_SESSIONS: variables of the contract are set by the "
			"collector"},
		{"{\"name\":\"a\",\"contract\":1,\"command\":[\"/x\"],\"tracks\":{\"fast\":{}}}",
			"tracks.fast: unknown track"},
		{"{\"name\":\"a\",\"contract\":1,\"command\":[\"/x\"],\"tracks\":{\"equalised\":"
		 "{}}}",
			"tracks.equalised.environment: must be an object, is absent"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct error err;
		put("bad.json", rows[i].text);
		assert_null(manifest_read_file(path_of("bad.json"), &err));
		if (!strstr(err.text, rows[i].message))
			fail_msg("'%s' is not in '%s'", rows[i].message, err.text);
	}
}

static void manifests_expand_and_have_tracks(void **state)
{
	(void)state;
	struct error err;
	put("m.json", "{\"name\":\"m\",\"contract\":1,\"command\":[\"{prefix}/"
		      "x\",\"{here}{here}\",\"{y}\"],"
		      "\"environment\":{\"A\":\"1\",\"B\":\"2\"},"
		      "\"tracks\":{\"equalised\":{\"environment\":{\"B\":\"3\",\"C\":\"4\"}}}}");
	struct manifest *manifest = manifest_read_file(path_of("m.json"), &err);
	assert_non_null(manifest);
	assert_string_equal(manifest->title, "m");
	assert_null(manifest->version[0]);
	char **command = manifest_expand_all(manifest->command, "/opt", "/h");
	assert_string_equal(command[0], "/opt/x");
	assert_string_equal(command[1], "/h/h");
	assert_string_equal(command[2], "{y}");
	assert_null(command[3]);
	texts_free(command);
	auto_free char *empty = manifest_expand("", "/opt", "/h");
	assert_string_equal(empty, "");
	json_auto_t *shipped = manifest_environment(manifest, "shipped");
	json_auto_t *equalised = manifest_environment(manifest, "equalised");
	assert_int_equal(json_object_size(shipped), 2);
	assert_string_equal(json_string_value(json_object_get(shipped, "B")), "2");
	assert_int_equal(json_object_size(equalised), 3);
	assert_string_equal(json_string_value(json_object_get(equalised, "B")), "3");
	manifest_free(manifest);
}

static void check_tells_what_a_file_is(void **state)
{
	(void)state;
	struct error err;
	put("p.json", PLAN(""));
	auto_free char *plan = check_file(path_of("p.json"), &err);
	assert_string_equal(plan, "plan 'p': 2 contenders, 1 scenarios, 2 numbers of sessions, 2 "
				  "repetitions: 8 runs");
	auto_free char *manifest = check_file(path_of("contenders/a.json"), &err);
	assert_string_equal(manifest, "contender 'a' (a)");
	auto_free char *scenario = check_file(path_of("scenarios/short.json"), &err);
	assert_string_equal(scenario, "scenario 'short': 2 turns, about 0.5 s");
	put("odd.json", "{\"name\":\"x\"}");
	assert_null(check_file(path_of("odd.json"), &err));
	assert_non_null(strstr(err.text, "must be a plan (with \"contenders\")"));
	assert_null(check_file(path_of("none.json"), &err));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_a_plan),
		cmocka_unit_test(takes_defaults),
		cmocka_unit_test(refuses_bad_plans),
		cmocka_unit_test(refuses_bad_overrides),
		cmocka_unit_test(overrides_are_part_of_the_plan),
		cmocka_unit_test(overrides_of_timing_and_limits),
		cmocka_unit_test(blocks_hold_each_cell_once),
		cmocka_unit_test(refuses_bad_manifests),
		cmocka_unit_test(manifests_expand_and_have_tracks),
		cmocka_unit_test(check_tells_what_a_file_is),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
