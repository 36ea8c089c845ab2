#include "mockllm/check.h"

#include "mockllm/bench/right_request.h"
#include "tests/unit/mockllm/fixture.h"

enum { SESSION = 3, TURN = 3 };

static struct scenario *scenario;
static struct script script;
static struct check_scratch scratch;
static struct right_request right;
static struct check_result result;

static int setup(void **state)
{
	(void)state;
	scenario = fixture_scenario(tool_tmtool, 20);
	fixture_script(&script, scenario, 7);
	check_scratch_init(&scratch);
	right_request_init(&right);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	right_request_release(&right);
	check_scratch_release(&scratch);
	script_release(&script);
	scenario_free(scenario);
	return 0;
}

static json_t *right_object(int64_t turn)
{
	right_request_make(&right, &script, SESSION, turn);
	json_t *object = json_loadb(right.body.data, right.body.length, 0, NULL);
	assert_non_null(object);
	return object;
}

static enum fault check_object(const json_t *object, size_t flags, struct check_known *known)
{
	char *text = json_dumps(object, flags | JSON_ENCODE_ANY);
	assert_non_null(text);
	check_request(&script, SESSION, TURN, text, strlen(text), known, &scratch, &result);
	free(text);
	return result.fault;
}

static void count_pause(void *context)
{
	++*(int *)context;
}

/* However much of a history is known already. */
static void long_scans_pause(void **state)
{
	(void)state;
	const int64_t part = 64 << 10;
	struct scenario *large = fixture_scenario(tool_tmtool, 20);
	large->system_prompt_bytes = 5 * part;
	struct script large_script;
	fixture_script(&large_script, large, 7);
	int pauses = 0;
	scratch.pause = count_pause;
	scratch.pause_context = &pauses;
	struct check_known known = {0};
	for (int64_t turn = 1; turn <= TURN; turn++) {
		right_request_make(&right, &large_script, SESSION, turn);
		int pauses_before = pauses;
		assert_true(check_scan(&large_script, SESSION, turn, right.body.data,
			right.body.length, &known, &scratch, &result));
		assert_true(pauses - pauses_before >= 5);
	}
	script_release(&large_script);
	scenario_free(large);
}

static json_t *message(json_t *request, size_t index)
{
	return json_array_get(json_object_get(request, "messages"), index);
}

static const char *role(json_t *request, size_t index)
{
	return json_string_value(json_object_get(message(request, index), "role"));
}

/* The first or last message of a role. */
static size_t find(json_t *request, const char *wanted, bool last)
{
	size_t found = 0, count = json_array_size(json_object_get(request, "messages"));
	for (size_t i = count; i-- > 0;)
		if (!strcmp(role(request, i), wanted)) {
			found = i;
			if (last)
				break;
		}
	return found;
}

static void set_text(json_t *object, const char *member, const char *text)
{
	json_object_set_new(object, member, json_string(text));
}

static json_t *first_call(json_t *request)
{
	json_t *assistant = message(request, find(request, "assistant", false));
	return json_array_get(json_object_get(assistant, "tool_calls"), 0);
}

/* ---- wrong histories */

static void drop_last_message(json_t *r)
{
	json_t *messages = json_object_get(r, "messages");
	json_array_remove(messages, json_array_size(messages) - 1);
}

static void drop_first_tool(json_t *r)
{
	json_array_remove(json_object_get(r, "messages"), find(r, "tool", false));
}

static void drop_system(json_t *r)
{
	json_array_remove(json_object_get(r, "messages"), 0);
}

static void keep_system_only(json_t *r)
{
	json_t *messages = json_object_get(r, "messages");
	while (json_array_size(messages) > 1)
		json_array_remove(messages, 1);
}

static void drop_first_turn(json_t *r)
{
	size_t second = find(r, "assistant", false) + 1;
	while (strcmp(role(r, second), "assistant"))
		second++;
	while (second-- > 2)
		json_array_remove(json_object_get(r, "messages"), 2);
}

static void add_user(json_t *r)
{
	json_array_append_new(json_object_get(r, "messages"),
		json_pack("{s:s, s:s}", "role", "user", "content", "go on"));
}

static void double_last_tool(json_t *r)
{
	json_t *messages = json_object_get(r, "messages");
	json_array_append(messages, message(r, json_array_size(messages) - 1));
}

static void change_system(json_t *r)
{
	set_text(message(r, 0), "content", "You are a helpful assistant.");
}

static void change_task(json_t *r)
{
	set_text(message(r, 1), "content", "Do it, s4: \"now\".");
}

static void change_user_role(json_t *r)
{
	set_text(message(r, 1), "role", "developer");
}

static void change_assistant_text(json_t *r)
{
	set_text(message(r, find(r, "assistant", false)), "content", "other");
}

static void null_assistant_text(json_t *r)
{
	json_object_set_new(message(r, find(r, "assistant", true)), "content", json_null());
}

static void change_call_id(json_t *r)
{
	set_text(first_call(r), "id", "call_0");
}

static void change_call_type(json_t *r)
{
	set_text(first_call(r), "type", "custom");
}

static void change_function(json_t *r)
{
	set_text(json_object_get(first_call(r), "function"), "name", "shell");
}

static void change_arguments(json_t *r)
{
	set_text(json_object_get(first_call(r), "function"), "arguments",
		"{\"argv\": [\"/opt/tools/tmtool\"]}");
}

static void break_arguments(json_t *r)
{
	set_text(json_object_get(first_call(r), "function"), "arguments", "{\"argv\"");
}

static void arguments_as_object(json_t *r)
{
	json_t *function = json_object_get(first_call(r), "function");
	const char *text = json_string_value(json_object_get(function, "arguments"));
	json_object_set_new(function, "arguments", json_loads(text, 0, NULL));
}

static void drop_calls(json_t *r)
{
	json_object_del(message(r, find(r, "assistant", true)), "tool_calls");
}

static void add_call(json_t *r)
{
	json_array_append(json_object_get(message(r, find(r, "assistant", false)), "tool_calls"),
		first_call(r));
}

static void change_tool_call_id(json_t *r)
{
	set_text(message(r, find(r, "tool", true)), "tool_call_id", "call_0");
}

static void change_output(json_t *r)
{
	set_text(message(r, find(r, "tool", true)), "content", "[exit 1]");
}

static void null_output(json_t *r)
{
	json_object_set_new(message(r, find(r, "tool", false)), "content", json_null());
}

static void output_as_parts(json_t *r)
{
	json_t *tool = message(r, find(r, "tool", false));
	json_object_set_new(tool, "content",
		json_pack(
			"[{s:s, s:O}]", "type", "text", "text", json_object_get(tool, "content")));
}

static void output_without_last_byte(json_t *r)
{
	json_t *tool = message(r, find(r, "tool", true));
	json_t *content = json_object_get(tool, "content");
	json_object_set_new(tool, "content",
		json_stringn(json_string_value(content), json_string_length(content) - 1));
}

static void output_with_nul(json_t *r)
{
	json_t *tool = message(r, find(r, "tool", true));
	json_t *content = json_object_get(tool, "content");
	size_t length = json_string_length(content);
	char *text = calloc(1, length + 1);
	memcpy(text, json_string_value(content), length);
	json_object_set_new(tool, "content", json_stringn(text, length + 1));
	free(text);
}

static void swap_tools(json_t *r)
{
	size_t at = find(r, "tool", true);
	json_t *messages = json_object_get(r, "messages");
	json_t *tool = json_incref(message(r, at));
	json_array_remove(messages, at);
	json_array_insert_new(messages, at - 1, tool);
}

static void message_is_text(json_t *r)
{
	json_array_set_new(json_object_get(r, "messages"), 2, json_string("assistant"));
}

static void no_messages(json_t *r)
{
	json_object_del(r, "messages");
}

static void empty_messages(json_t *r)
{
	json_array_clear(json_object_get(r, "messages"));
}

static void messages_is_object(json_t *r)
{
	json_object_set_new(r, "messages", json_object());
}

static void other_model(json_t *r)
{
	set_text(r, "model", "gpt-4");
}

static void no_model(json_t *r)
{
	json_object_del(r, "model");
}

static void stream_is_text(json_t *r)
{
	set_text(r, "stream", "yes");
}

static const struct {
	const char *name;
	void (*change)(json_t *request);
	enum fault fault;
} wrong_rows[] = {
	{"the last message missing", drop_last_message, FAULT_HISTORY},
	{"a tool message missing", drop_first_tool, FAULT_HISTORY},
	{"no system message", drop_system, FAULT_HISTORY},
	{"system message only", keep_system_only, FAULT_HISTORY},
	{"a turn dropped", drop_first_turn, FAULT_HISTORY},
	{"a further message", add_user, FAULT_HISTORY},
	{"a tool message twice", double_last_tool, FAULT_HISTORY},
	{"another system text", change_system, FAULT_HISTORY},
	{"another session's task", change_task, FAULT_HISTORY},
	{"another role", change_user_role, FAULT_HISTORY},
	{"another assistant text", change_assistant_text, FAULT_HISTORY},
	{"assistant text null", null_assistant_text, FAULT_HISTORY},
	{"another call id", change_call_id, FAULT_HISTORY},
	{"another call type", change_call_type, FAULT_HISTORY},
	{"another function", change_function, FAULT_HISTORY},
	{"other arguments", change_arguments, FAULT_HISTORY},
	{"arguments no JSON", break_arguments, FAULT_HISTORY},
	{"arguments as an object", arguments_as_object, FAULT_HISTORY},
	{"no tool calls", drop_calls, FAULT_HISTORY},
	{"a further call", add_call, FAULT_HISTORY},
	{"another tool_call_id", change_tool_call_id, FAULT_HISTORY},
	{"messages exchanged", swap_tools, FAULT_HISTORY},
	{"a message is a text", message_is_text, FAULT_HISTORY},
	{"another output", change_output, FAULT_TOOL_OUTPUT},
	{"output null", null_output, FAULT_TOOL_OUTPUT},
	{"output as parts", output_as_parts, FAULT_TOOL_OUTPUT},
	{"output a byte short", output_without_last_byte, FAULT_TOOL_OUTPUT},
	{"output with a NUL more", output_with_nul, FAULT_TOOL_OUTPUT},
	{"no messages", no_messages, FAULT_MALFORMED},
	{"empty messages", empty_messages, FAULT_MALFORMED},
	{"messages an object", messages_is_object, FAULT_MALFORMED},
	{"another model", other_model, FAULT_MALFORMED},
	{"no model", no_model, FAULT_MALFORMED},
	{"stream a text", stream_is_text, FAULT_MALFORMED},
};

/* What is known when the request for `turn` was right. */
static struct check_known known_of(int64_t turn, size_t flags)
{
	struct check_known known = {0};
	json_t *object = right_object(turn);
	char *text = json_dumps(object, flags);
	check_request(&script, SESSION, turn, text, strlen(text), &known, &scratch, &result);
	assert_int_equal(result.fault, FAULT_NONE);
	assert_int_equal(known.turn, turn);
	free(text);
	json_decref(object);
	return known;
}

static void assert_same_known(const struct check_known *a, const struct check_known *b)
{
	assert_int_equal(a->turn, b->turn);
	assert_int_equal(a->length, b->length);
	assert_true(hash_equal(a->hash, b->hash));
	assert_int_equal(a->text_bytes, b->text_bytes);
	assert_int_equal(a->members, b->members);
}

static void wrong_requests_are_told_apart(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof wrong_rows / sizeof *wrong_rows; i++) {
		for (int64_t turn = 0; turn <= TURN; turn++) {
			struct check_known known = {0};
			if (turn)
				known = known_of(turn, JSON_COMPACT);
			struct check_known before = known;
			json_t *object = right_object(TURN);
			wrong_rows[i].change(object);
			enum fault fault = check_object(object, JSON_COMPACT, &known);
			if (fault != wrong_rows[i].fault)
				fail_msg("%s: %s, '%s'", wrong_rows[i].name, fault_name(fault),
					result.detail);
			assert_true(*result.detail);
			assert_same_known(&known, &before);
			json_decref(object);
		}
	}
}

static const struct {
	const char *name;
	size_t flags;
	bool is_scanned;
} forms[] = {
	{"compact", JSON_COMPACT, true},
	{"blanks", 0, true},
	{"lines", JSON_INDENT(2), true},
	{"ASCII", JSON_ENSURE_ASCII, true},
	{"slashes escaped", JSON_ESCAPE_SLASH, true},
	{"sorted", JSON_SORT_KEYS | JSON_COMPACT, true},
};

static void right_requests_are_right_in_every_form(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
		for (int64_t turn = 0; turn <= TURN; turn++) {
			struct check_known known = {0};
			if (turn)
				known = known_of(turn, forms[i].flags);
			json_t *object = right_object(TURN);
			if (check_object(object, forms[i].flags, &known) != FAULT_NONE)
				fail_msg("%s: %s", forms[i].name, result.detail);
			assert_int_equal(result.was_scanned, forms[i].is_scanned);
			assert_int_equal(known.turn, TURN);
			assert_true(result.stream);
			assert_true(result.include_usage);
			json_decref(object);
		}
	}
}

/* Right, but not as plain as the scanner wants it: judged by the full parse, with the same end. */
static void put_arguments(json_t *r, const char *format)
{
	json_t *function = json_object_get(first_call(r), "function");
	const char *text = json_string_value(json_object_get(function, "arguments"));
	json_t *value = json_loads(text, 0, NULL);
	char *other = json_dumps(value, !strcmp(format, "compact") ? JSON_COMPACT : JSON_INDENT(4));
	set_text(function, "arguments", other);
	free(other);
	json_decref(value);
}

static void compact_arguments(json_t *r)
{
	put_arguments(r, "compact");
}

static void indented_arguments(json_t *r)
{
	put_arguments(r, "indented");
}

static void stream_is_null(json_t *r)
{
	json_object_set_new(r, "stream", json_null());
}

static void options_are_null(json_t *r)
{
	json_object_set_new(r, "stream_options", json_null());
}

static void further_members(json_t *r)
{
	json_object_set_new(r, "temperature", json_real(0.5));
	json_object_set_new(r, "caf\u00e9", json_integer(1));
	set_text(message(r, 0), "name", "x");
	set_text(first_call(r), "extra", "y");
	json_object_set_new(message(r, find(r, "assistant", true)), "refusal", json_null());
}

static void plain_further_members(json_t *r)
{
	json_object_set_new(r, "tools", json_pack("[{s:s, s:[]}]", "type", "function", "x"));
	json_object_set_new(r, "n", json_integer(1));
	set_text(message(r, 0), "name", "x");
	json_object_set_new(message(r, find(r, "assistant", true)), "refusal", json_null());
}

static const struct {
	const char *name;
	void (*change)(json_t *request);
	bool is_scanned, stream, include_usage;
} odd_rows[] = {
	{"compact arguments", compact_arguments, false, true, true},
	{"indented arguments", indented_arguments, false, true, true},
	{"stream null", stream_is_null, false, false, true},
	{"options null", options_are_null, false, true, false},
	{"further members", further_members, false, true, true},
	{"plain further members", plain_further_members, true, true, true},
};

static void odd_requests_are_right(void **state)
{
	(void)state;
	right_request_make(&right, &script, SESSION, TURN);
	for (size_t i = 0; i < sizeof odd_rows / sizeof *odd_rows; i++) {
		for (int64_t turn = 0; turn <= TURN; turn++) {
			struct check_known known = {0};
			if (turn)
				known = known_of(turn, JSON_COMPACT);
			json_t *object = right_object(TURN);
			odd_rows[i].change(object);
			if (check_object(object, JSON_COMPACT, &known) != FAULT_NONE)
				fail_msg("%s: %s", odd_rows[i].name, result.detail);
			assert_int_equal(result.was_scanned, odd_rows[i].is_scanned);
			assert_int_equal(result.stream, odd_rows[i].stream);
			assert_int_equal(result.include_usage, odd_rows[i].include_usage);
			json_decref(object);
		}
	}
}

/* An old request of whole turns. */
static void an_answered_turn_is_a_repeat(void **state)
{
	(void)state;
	for (int64_t turn = 1; turn < TURN; turn++) {
		for (int64_t known_turn = 0; known_turn <= TURN; known_turn++) {
			struct check_known known = {0};
			if (known_turn)
				known = known_of(known_turn, JSON_COMPACT);
			json_t *object = right_object(turn);
			assert_int_equal(check_object(object, JSON_COMPACT, &known), FAULT_REPEAT);
			json_decref(object);
		}
	}
}

static void the_due_turn_may_be_asked_again(void **state)
{
	(void)state;
	struct check_known known = known_of(TURN, JSON_COMPACT), before = known;
	json_t *object = right_object(TURN);
	assert_int_equal(check_object(object, JSON_COMPACT, &known), FAULT_NONE);
	assert_true(result.was_scanned);
	assert_same_known(&known, &before);
	json_decref(object);
}

static void bodies_that_are_no_requests(void **state)
{
	(void)state;
	static const char *const bodies[] = {"", "x", "{", "[]", "null", "\"text\"", "{}",
		"{\"model\":\"fixture\"}", "{\"model\":\"fixture\",\"messages\":[1,]}",
		"{\"model\":\"fixture\",\"messages\":[]} x",
		"{\"model\":\"\xff\",\"messages\":[{}]}"};
	for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
		struct check_known known = {0};
		check_request(&script, SESSION, TURN, bodies[i], strlen(bodies[i]), &known,
			&scratch, &result);
		if (result.fault != FAULT_MALFORMED)
			fail_msg("'%s' is %s", bodies[i], fault_name(result.fault));
		assert_true(*result.detail);
	}
}

/* Cut anywhere, or with any byte changed, a request is no longer right. */
static void damage_is_noticed(void **state)
{
	(void)state;
	struct check_known known = known_of(TURN - 1, JSON_COMPACT);
	right_request_make(&right, &script, SESSION, TURN);
	char *body = right.body.data;
	for (size_t i = 0; i < right.body.length; i += 7) {
		struct check_known copy = known;
		check_request(&script, SESSION, TURN, body, i, &copy, &scratch, &result);
		assert_int_equal(result.fault, FAULT_MALFORMED);
		char kept = body[i];
		body[i] = kept == '~' ? '^' : '~';
		copy = known;
		check_request(
			&script, SESSION, TURN, body, right.body.length, &copy, &scratch, &result);
		/* a stream option by another name is none */
		if (result.fault == FAULT_NONE)
			assert_true(i < 80);
		body[i] = kept;
	}
}

static void details_are_ascii(void **state)
{
	(void)state;
	json_t *object = right_object(TURN);
	set_text(object, "model", "caf\u00e9\n\x7f");
	struct check_known known = {0};
	assert_int_equal(check_object(object, JSON_COMPACT, &known), FAULT_MALFORMED);
	for (const char *c = result.detail; *c; c++)
		assert_in_range(*c, 0x20, 0x7e);
	json_decref(object);
}

/* Of a history: the task, then of each turn the text, the arguments, the outputs. */
static void texts_are_counted(void **state)
{
	(void)state;
	json_t *object = right_object(TURN);
	int64_t bytes = 0;
	size_t i;
	json_t *item;
	json_array_foreach(json_object_get(object, "messages"), i, item)
	{
		if (i)
			bytes += (int64_t)json_string_length(json_object_get(item, "content"));
		size_t j;
		json_t *call;
		json_array_foreach(json_object_get(item, "tool_calls"), j, call) bytes +=
			(int64_t)json_string_length(
				json_object_get(json_object_get(call, "function"), "arguments"));
	}
	struct check_known known = {0};
	assert_int_equal(check_object(object, JSON_COMPACT, &known), FAULT_NONE);
	assert_true(result.was_scanned);
	assert_int_equal(result.text_bytes, bytes);
	known = known_of(TURN - 1, JSON_COMPACT);
	assert_int_equal(check_object(object, JSON_COMPACT, &known), FAULT_NONE);
	assert_int_equal(result.text_bytes, bytes);
	compact_arguments(object);
	assert_int_equal(check_object(object, JSON_COMPACT, &known), FAULT_NONE);
	assert_false(result.was_scanned);
	assert_int_equal(result.text_bytes, bytes);
	json_decref(object);
}

static void free_play_wants_an_outline(void **state)
{
	(void)state;
	static const struct {
		const char *body, *model;
		int64_t answers;
		enum fault fault;
		bool stream, include_usage;
	} rows[] = {
		{"{\"model\":\"a\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}", "a", 0,
			FAULT_NONE, false, false},
		{"{\"model\":\"a\",\"stream\":true,\"stream_options\":{\"include_usage\":true},"
		 "\"messages\":[{\"role\":\"user\"},{\"role\":\"assistant\"},{\"role\":\"tool\"},"
		 "{\"role\":\"assistant\"}]}",
			"a", 2, FAULT_NONE, true, true},
		{"{\"model\":\"a\",\"messages\":[{\"role\":\"assistant\"},{\"role\":\"user\"},5]}",
			"a", 0, FAULT_NONE, false, false},
		{"{\"model\":\"a\",\"messages\":[]}", "", 0, FAULT_MALFORMED, false, false},
		{"{\"model\":1,\"messages\":[{}]}", "", 0, FAULT_MALFORMED, false, false},
		{"nonsense", "", 0, FAULT_MALFORMED, false, false},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct check_outline outline;
		check_outline(rows[i].body, strlen(rows[i].body), &outline);
		assert_int_equal(outline.fault, rows[i].fault);
		assert_string_equal(outline.model, rows[i].model);
		assert_int_equal(outline.stream, rows[i].stream);
		assert_int_equal(outline.include_usage, rows[i].include_usage);
		assert_int_equal(outline.answers, rows[i].answers);
	}
}

static void the_user_names_the_session(void **state)
{
	(void)state;
	static const struct {
		const char *body, *user;
	} rows[] = {{"{\"user\":\"s7\"}", "s7"}, {"{\"user\":7}", ""}, {"{}", ""}, {"x", ""},
		{"{\"user\":\"0123456789\"}", ""}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char user[8];
		check_user(rows[i].body, strlen(rows[i].body), user, sizeof user);
		assert_string_equal(user, rows[i].user);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(wrong_requests_are_told_apart, setup, teardown),
		cmocka_unit_test_setup_teardown(
			right_requests_are_right_in_every_form, setup, teardown),
		cmocka_unit_test_setup_teardown(odd_requests_are_right, setup, teardown),
		cmocka_unit_test_setup_teardown(an_answered_turn_is_a_repeat, setup, teardown),
		cmocka_unit_test_setup_teardown(the_due_turn_may_be_asked_again, setup, teardown),
		cmocka_unit_test_setup_teardown(bodies_that_are_no_requests, setup, teardown),
		cmocka_unit_test_setup_teardown(damage_is_noticed, setup, teardown),
		cmocka_unit_test_setup_teardown(details_are_ascii, setup, teardown),
		cmocka_unit_test_setup_teardown(texts_are_counted, setup, teardown),
		cmocka_unit_test_setup_teardown(long_scans_pause, setup, teardown),
		cmocka_unit_test(free_play_wants_an_outline),
		cmocka_unit_test(the_user_names_the_session),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
