#include "mockllm/script.h"

#include "common/clock.h"
#include "common/rng.h"
#include "common/toolgen.h"
#include "tests/unit/mockllm/fixture.h"

#include <inttypes.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct scenario *scenario, *bin_scenario;
static struct script script;
static struct script_turn turn, other;
static struct buf scratch;

static int setup(void **state)
{
	(void)state;
	scenario = fixture_scenario(tool_tmtool, 20);
	bin_scenario = fixture_scenario(tool_bin, 20);
	fixture_script(&script, scenario, 7);
	turn = (struct script_turn){0};
	other = (struct script_turn){0};
	buf_init(&scratch, 1 << 24);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	script_release(&script);
	scenario_free(scenario);
	scenario_free(bin_scenario);
	script_turn_release(&turn);
	script_turn_release(&other);
	buf_release(&scratch);
	return 0;
}

static bool same_turn(const struct script_turn *a, const struct script_turn *b)
{
	if (a->calls != b->calls || a->text.length != b->text.length ||
		memcmp(a->text.data, b->text.data, a->text.length))
		return false;
	for (size_t i = 0; i < a->calls; i++)
		if (strcmp(a->call[i].id, b->call[i].id) ||
			strcmp(a->call[i].arguments.data, b->call[i].arguments.data))
			return false;
	return true;
}

static void a_turn_depends_on_its_place_alone(void **state)
{
	(void)state;
	script_turn_make(&script, 5, 2, &turn);
	script_turn_make(&script, 9, 1, &other);
	assert_false(same_turn(&turn, &other));
	script_turn_make(&script, 5, 2, &other);
	assert_true(same_turn(&turn, &other));

	struct script again;
	fixture_script(&again, scenario, 7);
	script_turn_make(&again, 5, 2, &other);
	assert_true(same_turn(&turn, &other));
	assert_string_equal(again.system_prompt.data, script.system_prompt.data);
	script_release(&again);

	fixture_script(&again, scenario, 8);
	script_turn_make(&again, 5, 2, &other);
	assert_false(same_turn(&turn, &other));
	assert_string_not_equal(again.system_prompt.data, script.system_prompt.data);
	script_release(&again);
}

static void the_last_turn_calls_nothing(void **state)
{
	(void)state;
	for (int64_t t = 1; t <= 4; t++) {
		script_turn_make(&script, 1, t, &turn);
		assert_int_equal(turn.calls == 0, t == 4);
	}
}

/* UTF-8, by the table of RFC 3629. */
static bool is_utf8(const char *text, size_t length)
{
	json_t *string = json_stringn(text, length);
	json_decref(string);
	return string;
}

static void pieces_have_their_sizes_and_whole_characters(void **state)
{
	(void)state;
	for (int64_t session = 1; session <= 50; session++) {
		script_turn_make(&script, session, 3, &turn);
		assert_int_equal(turn.deltas, 20 - SCRIPT_FRAGMENTS * turn.calls);
		size_t start = 0;
		for (size_t i = 0; i < turn.deltas; i++) {
			size_t size = turn.delta_ends[i] - start;
			assert_in_range(size, 3, 30);
			assert_true(is_utf8(turn.text.data + start, size));
			start = turn.delta_ends[i];
		}
		assert_int_equal(start, turn.text.length);
	}
}

static void few_sends_still_have_text(void **state)
{
	(void)state;
	struct scenario *tight = fixture_scenario(tool_tmtool, 1);
	struct script one;
	fixture_script(&one, tight, 7);
	script_turn_make(&one, 1, 1, &turn);
	assert_int_equal(turn.deltas, 1);
	assert_in_range(turn.text.length, 3, 30);
	script_release(&one);
	scenario_free(tight);
}

static void the_task_names_the_session(void **state)
{
	(void)state;
	script_task(&script, 12, &scratch);
	assert_string_equal(scratch.data, "Do it, s12: \"now\".");
}

static void the_prompt_has_its_size_and_is_utf8(void **state)
{
	(void)state;
	assert_int_equal(script.system_prompt.length, 700);
	assert_true(is_utf8(script.system_prompt.data, 700));
	/* head -c of the bin tools cuts it anywhere from here on */
	for (size_t i = SCENARIO_BIN_OUTPUT_MIN; i < 700; i++)
		assert_true((unsigned char)script.system_prompt.data[i] < 0x80);
}

static void times_are_in_their_bounds_and_in_order(void **state)
{
	(void)state;
	bool was_spread = false;
	for (int64_t session = 1; session <= 200; session++) {
		for (int64_t t = 1; t <= 2; t++) {
			int64_t due_ns[20];
			script_schedule(&script, session, t, due_ns);
			int64_t spread_ns = t == 1 ? 10 * NS_PER_MS : 0;
			assert_in_range(due_ns[0], 10 * NS_PER_MS, 30 * NS_PER_MS + spread_ns);
			assert_int_equal(due_ns[0], script_ttft(&script, session, t));
			was_spread |= due_ns[0] > 30 * NS_PER_MS;
			for (int i = 1; i < 20; i++)
				assert_int_equal(due_ns[i], due_ns[i - 1] + 2 * NS_PER_MS);
		}
	}
	assert_true(was_spread);
}

static void keys_lead_back_to_their_place(void **state)
{
	(void)state;
	uint64_t random = 1;
	for (int i = 0; i < 1000; i++) {
		int64_t session = rng_between(&random, 1, 10000),
			t = rng_between(&random, 1, 10000);
		size_t call = (size_t)rng_between(&random, 0, 15);
		uint64_t key = script_key(99, session, t, call);
		int64_t found_session, found_turn;
		size_t found_call;
		script_key_place(99, key, &found_session, &found_turn, &found_call);
		assert_int_equal(found_session, session);
		assert_int_equal(found_turn, t);
		assert_int_equal(found_call, call);
		script_key_place(98, key, &found_session, &found_turn, &found_call);
		assert_true(found_session != session || found_turn != t);
	}
}

static void arguments_of_the_suites_tool(void **state)
{
	(void)state;
	script_turn_make(&script, 3, 2, &turn);
	for (size_t i = 0; i < turn.calls; i++) {
		const struct script_call *call = &turn.call[i];
		char expected[256];
		snprintf(expected, sizeof expected,
			"{\"argv\": [\"/opt/tools/tmtool\", \"turnmeter-08080\", \"%016" PRIx64
			"\", \"%" PRId64 "\", \"%" PRId64 "\"]}",
			script_key(7, 3, 2, i), call->sleep_ms, call->output_bytes);
		assert_string_equal(call->arguments.data, expected);
		assert_string_equal(call->name, "exec");
		assert_in_range(call->sleep_ms, 1, 9);
		size_t length;
		const char *output = script_output(&script, call, &scratch, &length);
		assert_int_equal(length, call->output_bytes);
		char *printed = malloc(length + 1);
		toolgen_fill(call->key, printed, length);
		assert_memory_equal(output, printed, length);
		free(printed);
	}
}

/* Output beyond the contract's cap: the cut, a line end if there is none, the line. */
static void long_output_is_cut(void **state)
{
	(void)state;
	static const struct {
		int64_t bytes;
		size_t length;
		const char *end;
	} rows[] = {
		{0, 0, ""},
		{1, 1, "\n"},
		{65536, 65536, "\n"},
		{65537, 65536 + 1 + 11, "\n[truncated]"},
		{1048576, 65536 + 1 + 11, "\n[truncated]"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct script_call call = {
			.kind = SCRIPT_CALL_TMTOOL, .key = 5, .output_bytes = rows[i].bytes};
		size_t length, end = strlen(rows[i].end);
		const char *output = script_output(&script, &call, &scratch, &length);
		assert_int_equal(length, rows[i].length);
		assert_int_equal(script_output_length(&script, &call), length);
		assert_memory_equal(output + length - end, rows[i].end, end);
	}
}

/* The tool message of the contract, by really running a call in `directory`. */
static void run_call(const struct script_call *call, const char *directory, struct buf *out)
{
	json_t *arguments = json_loads(call->arguments.data, 0, NULL);
	const char *argv[16] = {"/bin/sh", "-c", NULL};
	json_t *list = json_object_get(arguments, "argv"), *item;
	size_t i;
	if (list)
		json_array_foreach(list, i, item) argv[i] = json_string_value(item);
	else
		argv[2] = json_string_value(json_object_get(arguments, "command"));
	/* stderr after stdout: the calls are too small to fill a pipe */
	int pipes[2][2], status;
	assert_int_equal(pipe(pipes[0]) | pipe(pipes[1]), 0);
	pid_t pid = fork();
	if (!pid) {
		dup2(pipes[0][1], 1);
		dup2(pipes[1][1], 2);
		if (!chdir(directory))
			execv(argv[0], (char *const *)argv);
		_exit(127);
	}
	for (i = 0; i < 2; i++) {
		close(pipes[i][1]);
		char part[4096];
		ssize_t length;
		while ((length = read(pipes[i][0], part, sizeof part)) > 0)
			buf_add(out, part, (size_t)length);
		close(pipes[i][0]);
	}
	waitpid(pid, &status, 0);
	if (WEXITSTATUS(status)) {
		if (out->length && out->data[out->length - 1] != '\n')
			buf_add_char(out, '\n');
		buf_addf(out, "[exit %d]", WEXITSTATUS(status));
	}
	json_decref(arguments);
}

static void bin_tools_print_what_is_expected(void **state)
{
	(void)state;
	char directory[] = "/tmp/test-script-XXXXXX";
	assert_non_null(mkdtemp(directory));
	char path[64];
	snprintf(path, sizeof path, "%s/" SCRIPT_PROMPT_FILE, directory);
	struct script bin;
	fixture_script(&bin, bin_scenario, 7);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fwrite(bin.system_prompt.data, 1, bin.system_prompt.length, file);
	fclose(file);

	unsigned kinds = 0, exits = 0;
	for (int64_t session = 1; session <= 20; session++) {
		script_turn_make(&bin, session, 1, &turn);
		for (size_t i = 0; i < turn.calls; i++) {
			struct buf printed;
			buf_init(&printed, 1 << 20);
			run_call(&turn.call[i], directory, &printed);
			size_t length;
			const char *expected =
				script_output(&bin, &turn.call[i], &scratch, &length);
			assert_int_equal(printed.length, length);
			assert_memory_equal(printed.data, expected, length);
			assert_int_equal(script_output_length(&bin, &turn.call[i]), length);
			kinds |= 1u << turn.call[i].kind;
			exits += strstr(printed.data, "[exit ") != NULL;
			buf_release(&printed);
		}
	}
	assert_int_equal(kinds, 1u << SCRIPT_CALL_ECHO | 1u << SCRIPT_CALL_CAT |
					1u << SCRIPT_CALL_HEAD | 1u << SCRIPT_CALL_PRINTF);
	assert_true(exits > 0);
	script_release(&bin);
	unlink(path);
	rmdir(directory);
}

/* toolgen's bytes are part of the contract between the tool and the mock: they never change. */
static void toolgen_is_what_it_was(void **state)
{
	(void)state;
	char text[400];
	toolgen_fill(UINT64_C(0x0123456789abcdef), text, sizeof text);
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	for (size_t i = 0; i < sizeof text; i++)
		hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
	assert_int_equal(hash, UINT64_C(0x293bed4ca07941db));
	for (size_t i = 79; i < sizeof text; i += 80)
		assert_int_equal(text[i], '\n');
	assert_int_equal(text[sizeof text - 1], '\n');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_turn_depends_on_its_place_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(the_last_turn_calls_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(
			pieces_have_their_sizes_and_whole_characters, setup, teardown),
		cmocka_unit_test_setup_teardown(few_sends_still_have_text, setup, teardown),
		cmocka_unit_test_setup_teardown(the_task_names_the_session, setup, teardown),
		cmocka_unit_test_setup_teardown(
			the_prompt_has_its_size_and_is_utf8, setup, teardown),
		cmocka_unit_test_setup_teardown(
			times_are_in_their_bounds_and_in_order, setup, teardown),
		cmocka_unit_test_setup_teardown(keys_lead_back_to_their_place, setup, teardown),
		cmocka_unit_test_setup_teardown(arguments_of_the_suites_tool, setup, teardown),
		cmocka_unit_test_setup_teardown(long_output_is_cut, setup, teardown),
		cmocka_unit_test_setup_teardown(bin_tools_print_what_is_expected, setup, teardown),
		cmocka_unit_test(toolgen_is_what_it_was),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
