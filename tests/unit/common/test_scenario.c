#include "common/scenario.h"

#include "common/error.h"
#include "common/json.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static const char good[] =
	"{\"name\":\"a-1\",\"description\":\"d\",\"turns\":3,\"system_prompt_bytes\":100,"
	"\"task\":\"t\",\"ttft_ms\":{\"uniform\":400,\"spread\":0.3},"
	"\"chunk_interval_ms\":{\"constant\":30},\"spread_first_ms\":1570.5,\"chunks\":40,"
	"\"chunk_bytes\":{\"min\":2,\"max\":4},\"tools\":{\"kind\":\"tmtool\","
	"\"calls\":{\"min\":1,\"max\":16},\"sleep_ms\":{\"min\":5,\"max\":20},"
	"\"output_bytes\":{\"min\":0,\"max\":8192}}}";

static struct scenario *parse(json_t *object, struct error *err)
{
	struct scenario *scenario = scenario_read(object, "f.json", err);
	json_decref(object);
	return scenario;
}

static void every_field_is_read(void **state)
{
	(void)state;
	struct error err;
	struct scenario *scenario = parse(json_loads(good, 0, NULL), &err);
	assert_non_null(scenario);
	assert_string_equal(scenario->name, "a-1");
	assert_string_equal(scenario->description, "d");
	assert_string_equal(scenario->task, "t");
	assert_int_equal(scenario->turns, 3);
	assert_int_equal(scenario->system_prompt_bytes, 100);
	assert_true(scenario->ttft_ms.base_ms == 400 && scenario->ttft_ms.spread == 0.3);
	assert_true(scenario->chunk_interval_ms.base_ms == 30);
	assert_true(scenario->chunk_interval_ms.spread == 0);
	assert_true(scenario->spread_first_ms == 1570.5);
	assert_int_equal(scenario->chunks, 40);
	assert_int_equal(scenario->chunk_bytes.min, 2);
	assert_int_equal(scenario->chunk_bytes.max, 4);
	assert_int_equal(scenario->tool_kind, SCENARIO_TOOLS_TMTOOL);
	assert_int_equal(scenario->tool_calls.max, 16);
	assert_int_equal(scenario->tool_sleep_ms.min, 5);
	assert_int_equal(scenario->tool_output_bytes.max, 8192);
	scenario_free(scenario);
}

/* `value` NULL: the member is removed. `inside`: of this object. */
struct bad_row {
	const char *inside, *member, *value;
	const char *message;
};

static const struct bad_row bad_rows[] = {
	{NULL, "name", NULL, "f.json: name: must be a text"},
	{NULL, "name", "\"\"", "f.json: name: must be a text"},
	{NULL, "name", "\"A\"", "f.json: name: must be of a-z, 0-9 and '-', is \"A\""},
	{NULL, "name", "\"../x\"", "f.json: name: must be of a-z"},
	{NULL, "turns", "0", "f.json: turns: must be an integer of 1 to 10000, is 0"},
	{NULL, "turns", "2.5", "f.json: turns: must be an integer of 1 to 10000, is 2.5"},
	{NULL, "turns", NULL, "f.json: turns: must be an integer of 1 to 10000, is absent"},
	{NULL, "system_prompt_bytes", "0", "f.json: system_prompt_bytes: must be an integer"},
	{NULL, "system_prompt_bytes", "99999999", "f.json: system_prompt_bytes: must be"},
	{NULL, "task", "7", "f.json: task: must be a text"},
	{NULL, "ttft_ms", "400", "f.json: ttft_ms: must be an object, is 400"},
	{NULL, "ttft_ms", "{}", "f.json: ttft_ms: must be {\"constant\":MS} or"},
	{NULL, "ttft_ms", "{\"uniform\":4}", "f.json: ttft_ms: must be {\"constant\":MS} or"},
	{NULL, "ttft_ms", "{\"spread\":0.1}", "f.json: ttft_ms: must be {\"constant\":MS} or"},
	{NULL, "ttft_ms", "{\"constant\":1,\"spread\":0.1}", "f.json: ttft_ms: must be"},
	{NULL, "ttft_ms", "{\"uniform\":4,\"spread\":1.5}",
		"f.json: ttft_ms.spread: must be a number of 0 to 1, is 1.5"},
	{NULL, "ttft_ms", "{\"constant\":-1}", "f.json: ttft_ms.constant: must be a number"},
	{NULL, "ttft_ms", "{\"constant\":1,\"x\":2}", "f.json: ttft_ms.x: unknown field"},
	{NULL, "chunk_interval_ms", "{}", "f.json: chunk_interval_ms: must be"},
	{NULL, "spread_first_ms", "-1", "f.json: spread_first_ms: must be a number"},
	{NULL, "chunks", "0", "f.json: chunks: must be an integer of 1 to 100000, is 0"},
	{NULL, "chunk_bytes", "{\"min\":0,\"max\":1}", "f.json: chunk_bytes.min: must be"},
	{NULL, "chunk_bytes", "{\"min\":5,\"max\":4}",
		"f.json: chunk_bytes: min must not be above max, is 5 above 4"},
	{NULL, "chunk_bytes", "{\"min\":5}", "f.json: chunk_bytes.max: must be an integer"},
	{NULL, "chunk_bytes", "{\"min\":1,\"max\":65536}", NULL},
	{NULL, "tools", NULL, "f.json: tools: must be given when turns is above 1"},
	{NULL, "tools", "[]", "f.json: tools: must be an object, is an array of 0"},
	{NULL, "history_turns_max", "3", "f.json: history_turns_max: unknown field"},
	{"tools", "kind", "\"curl\"",
		"f.json: tools.kind: must be \"tmtool\" or \"bin\", is \"curl\""},
	{"tools", "kind", "\"bin\"", "f.json: tools.sleep_ms: belongs to kind \"tmtool\" only"},
	{"tools", "sleep_ms", NULL, "f.json: tools.sleep_ms: must be given for kind \"tmtool\""},
	{"tools", "calls", "{\"min\":0,\"max\":1}",
		"f.json: tools.calls.min: must be an integer of 1 to 16"},
	{"tools", "calls", "{\"min\":1,\"max\":17}",
		"f.json: tools.calls.max: must be an integer of 1 to 16"},
	{"tools", "output_bytes", "{\"min\":0,\"max\":1048577}",
		"f.json: tools.output_bytes.max: must be"},
	{"tools", "more", "1", "f.json: tools.more: unknown field"},
};

static void what_is_wrong_is_named(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof bad_rows / sizeof *bad_rows; i++) {
		const struct bad_row *row = &bad_rows[i];
		json_t *object = json_loads(good, 0, NULL);
		json_t *target = row->inside ? json_object_get(object, row->inside) : object;
		if (row->value)
			json_object_set_new(
				target, row->member, json_loads(row->value, JSON_DECODE_ANY, NULL));
		else
			json_object_del(target, row->member);
		struct error err = {0};
		struct scenario *scenario = parse(object, &err);
		if (!scenario != (row->message != NULL) ||
			(row->message && strncmp(err.text, row->message, strlen(row->message))))
			fail_msg("row %zu: '%s'", i, err.text);
		scenario_free(scenario);
	}
}

static struct scenario *read_with(const char *member, const char *value, struct error *err)
{
	json_t *object = json_loads(good, 0, NULL);
	json_object_set_new(object, "tools",
		json_loads("{\"kind\":\"bin\",\"calls\":{\"min\":1,\"max\":1},"
			   "\"output_bytes\":{\"min\":64,\"max\":100}}",
			0, NULL));
	json_object_set_new(object, member, json_loads(value, JSON_DECODE_ANY, NULL));
	return parse(object, err);
}

/* The bin tools print parts of the prompt, so they are bounded by it. */
static void bin_tools_need_a_prompt(void **state)
{
	(void)state;
	struct error err;
	struct scenario *scenario = read_with("turns", "3", &err);
	assert_non_null(scenario);
	assert_int_equal(scenario->tool_kind, SCENARIO_TOOLS_BIN);
	scenario_free(scenario);
	assert_null(read_with("system_prompt_bytes", "99", &err));
	assert_string_equal(
		err.text, "f.json: tools.output_bytes.max: must be an integer of 64 to 99, is 100");
	assert_null(read_with("system_prompt_bytes", "63", &err));
	assert_string_equal(err.text, "f.json: system_prompt_bytes: must be at least 64 for tools "
				      "of kind \"bin\", is 63");
}

static void one_turn_needs_no_tools(void **state)
{
	(void)state;
	struct error err;
	json_t *object = json_loads(good, 0, NULL);
	json_object_del(object, "tools");
	json_object_set_new(object, "turns", json_integer(1));
	struct scenario *scenario = parse(object, &err);
	assert_non_null(scenario);
	assert_int_equal(scenario->tool_kind, SCENARIO_TOOLS_NONE);
	scenario_free(scenario);
}

static void a_turn_must_not_be_too_long(void **state)
{
	(void)state;
	struct error err;
	json_t *object = json_loads(good, 0, NULL);
	json_object_set_new(object, "chunks", json_integer(100000));
	json_object_set_new(object, "chunk_bytes", json_pack("{s:i, s:i}", "min", 1, "max", 84));
	assert_null(parse(object, &err));
	assert_string_equal(err.text,
		"f.json: chunks: chunks times chunk_bytes.max must be at most 8388608, is 8400000");
}

static void the_name_is_the_files(void **state)
{
	(void)state;
	struct error err;
	char directory[] = "/tmp/test-scenario-XXXXXX", path[64];
	assert_non_null(mkdtemp(directory));
	static const struct {
		const char *file;
		int good;
	} rows[] = {{"a-1.json", 1}, {"a-12.json", 0}, {"b.json", 0}, {"a-1", 0}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		snprintf(path, sizeof path, "%s/%s", directory, rows[i].file);
		FILE *file = fopen(path, "w");
		assert_non_null(file);
		fputs(good, file);
		fclose(file);
		struct scenario *scenario = scenario_read_file(path, &err);
		assert_int_equal(scenario != NULL, rows[i].good);
		if (!rows[i].good)
			assert_non_null(strstr(err.text,
				": name: must be the file's name without .json, is \"a-1\""));
		scenario_free(scenario);
		unlink(path);
	}
	rmdir(directory);
	assert_null(scenario_read_file("/nonexistent/a-1.json", &err));
}

/* The files we ship. The tests run in the project's folder. */
static void our_own_are_good(void **state)
{
	(void)state;
	DIR *dir = opendir("configs/scenarios");
	assert_non_null(dir);
	int count = 0;
	struct dirent *entry;
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		char path[400];
		snprintf(path, sizeof path, "configs/scenarios/%s", entry->d_name);
		struct error err;
		struct scenario *scenario = scenario_read_file(path, &err);
		if (!scenario)
			fail_msg("%s", err.text);
		scenario_free(scenario);
		count++;
	}
	closedir(dir);
	assert_true(count >= 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_field_is_read),
		cmocka_unit_test(what_is_wrong_is_named),
		cmocka_unit_test(bin_tools_need_a_prompt),
		cmocka_unit_test(one_turn_needs_no_tools),
		cmocka_unit_test(a_turn_must_not_be_too_long),
		cmocka_unit_test(the_name_is_the_files),
		cmocka_unit_test(our_own_are_good),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
