#include "mockllm/answer.h"

#include "tests/unit/mockllm/fixture.h"

#include <stdio.h>

static struct scenario *scenario;
static struct script script;
static struct answer_scratch scratch;
static struct script_turn turn;

static int setup_with(int chunks)
{
	scenario = fixture_scenario(tool_tmtool, chunks);
	fixture_script(&script, scenario, 7);
	answer_scratch_init(&scratch);
	turn = (struct script_turn){0};
	return 0;
}

static int setup(void **state)
{
	(void)state;
	return setup_with(20);
}

/* Fewer sends than there are fragments. */
static int setup_tight(void **state)
{
	(void)state;
	return setup_with(3);
}

static int teardown(void **state)
{
	(void)state;
	script_turn_release(&turn);
	answer_scratch_release(&scratch);
	script_release(&script);
	scenario_free(scenario);
	return 0;
}

/* What a client makes of a stream. */
struct heard {
	struct buf text;
	struct buf arguments[SCENARIO_CALLS_MAX];
	char ids[SCENARIO_CALLS_MAX][SCRIPT_ID_SIZE];
	char names[SCENARIO_CALLS_MAX][16];
	size_t calls, events, usages, chunks;
	char finish[16];
	bool done, terminated;
};

static void hear_call(struct heard *heard, const json_t *call)
{
	json_t *index = json_object_get(call, "index");
	assert_true(json_is_integer(index));
	size_t i = (size_t)json_integer_value(index);
	const json_t *function = json_object_get(call, "function");
	if (i == heard->calls) {
		/* strict clients want it all in the first fragment */
		assert_string_equal(json_string_value(json_object_get(call, "type")), "function");
		snprintf(heard->ids[i], sizeof heard->ids[i], "%s",
			json_string_value(json_object_get(call, "id")));
		snprintf(heard->names[i], sizeof heard->names[i], "%s",
			json_string_value(json_object_get(function, "name")));
		buf_init(&heard->arguments[i], 1 << 20);
		heard->calls++;
	} else {
		assert_true(i + 1 == heard->calls);
		assert_null(json_object_get(call, "id"));
		assert_null(json_object_get(function, "name"));
	}
	buf_add_text(
		&heard->arguments[i], json_string_value(json_object_get(function, "arguments")));
}

static void hear_event(struct heard *heard, const char *data, size_t length)
{
	assert_false(heard->done);
	if (length == 6 && !memcmp(data, "[DONE]", 6)) {
		heard->done = true;
		return;
	}
	json_t *event = json_loadb(data, length, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(event);
	assert_string_equal(
		json_string_value(json_object_get(event, "object")), "chat.completion.chunk");
	assert_string_equal(json_string_value(json_object_get(event, "model")), "fixture");
	assert_true(json_is_integer(json_object_get(event, "created")));
	assert_non_null(json_string_value(json_object_get(event, "id")));
	const json_t *choices = json_object_get(event, "choices");
	const json_t *choice = json_array_get(choices, 0);
	const json_t *delta = json_object_get(choice, "delta");
	if (!choice) {
		assert_true(*heard->finish);
		const json_t *usage = json_object_get(event, "usage");
		assert_int_equal(json_integer_value(json_object_get(usage, "prompt_tokens")), 42);
		assert_true(json_integer_value(json_object_get(usage, "completion_tokens")) > 0);
		heard->usages++;
	} else if (json_is_string(json_object_get(choice, "finish_reason"))) {
		/* a chunk of its own */
		assert_int_equal(json_object_size(delta), 0);
		assert_false(*heard->finish);
		snprintf(heard->finish, sizeof heard->finish, "%s",
			json_string_value(json_object_get(choice, "finish_reason")));
	} else {
		assert_false(*heard->finish);
		const char *role = json_string_value(json_object_get(delta, "role"));
		assert_int_equal(role != NULL, heard->events == 0);
		json_t *content = json_object_get(delta, "content");
		if (content)
			buf_add(&heard->text, json_string_value(content),
				json_string_length(content));
		size_t i;
		json_t *call;
		json_array_foreach(json_object_get(delta, "tool_calls"), i, call)
			hear_call(heard, call);
		heard->events++;
	}
	json_decref(event);
}

/* One HTTP chunk: whole events. */
static void hear_chunk(struct heard *heard, const char *bytes, size_t length)
{
	const char *end = bytes + length;
	while (bytes < end) {
		const char *stop = memmem(bytes, (size_t)(end - bytes), "\n\n", 2);
		assert_non_null(stop);
		assert_memory_equal(bytes, "data: ", 6);
		hear_event(heard, bytes + 6, (size_t)(stop - bytes) - 6);
		bytes = stop + 2;
	}
}

/* The bytes of one send: whole chunks, or the terminator. */
static void hear_send(struct heard *heard, const char *bytes, size_t length)
{
	const char *end = bytes + length;
	while (bytes < end) {
		char *after;
		unsigned long size = strtoul(bytes, &after, 16);
		assert_memory_equal(after, "\r\n", 2);
		bytes = after + 2;
		assert_true(size + 2 <= (size_t)(end - bytes));
		assert_memory_equal(bytes + size, "\r\n", 2);
		if (!size)
			heard->terminated = true;
		else
			heard->chunks++;
		hear_chunk(heard, bytes, size);
		bytes += size + 2;
	}
}

static struct heard hear(const struct answer *answer)
{
	struct heard heard = {0};
	buf_init(&heard.text, 1 << 20);
	const char *head_end = memmem(answer->bytes, answer->send[0].end, "\r\n\r\n", 4);
	assert_non_null(head_end);
	size_t start = (size_t)(head_end - answer->bytes) + 4;
	for (size_t i = 0; i < answer->sends; i++) {
		assert_false(heard.done || heard.terminated);
		hear_send(&heard, answer->bytes + start, answer->send[i].end - start);
		start = answer->send[i].end;
	}
	return heard;
}

static void forget(struct heard *heard)
{
	buf_release(&heard->text);
	for (size_t i = 0; i < heard->calls; i++)
		buf_release(&heard->arguments[i]);
}

static struct answer *make(int64_t session, int64_t t, bool usage)
{
	const struct answer_wish wish = {
		.stream = true, .include_usage = usage, .keep_alive = true, .prompt_tokens = 42};
	return answer_turn(&script, session, t, &wish, &scratch);
}

static void a_stream_says_what_the_script_says(void **state)
{
	(void)state;
	for (int64_t session = 1; session <= 30; session++) {
		for (int64_t t = 1; t <= 4; t++) {
			struct answer *answer = make(session, t, session % 2);
			struct heard heard = hear(answer);
			script_turn_make(&script, session, t, &turn);
			assert_int_equal(answer->sends, scenario->chunks);
			assert_int_equal(heard.chunks, answer->sends);
			assert_int_equal(heard.text.length, turn.text.length);
			assert_memory_equal(heard.text.data, turn.text.data, turn.text.length);
			assert_int_equal(heard.calls, turn.calls);
			for (size_t i = 0; i < turn.calls; i++) {
				assert_string_equal(heard.ids[i], turn.call[i].id);
				assert_string_equal(heard.names[i], turn.call[i].name);
				assert_string_equal(
					heard.arguments[i].data, turn.call[i].arguments.data);
			}
			assert_string_equal(heard.finish, t < 4 ? "tool_calls" : "stop");
			assert_int_equal(heard.usages, session % 2);
			assert_true(heard.done && heard.terminated);
			forget(&heard);
			free(answer);
		}
	}
}

/* A tool call is whole only when the last send is there, which is the turn's end. */
static void the_last_fragment_leaves_with_the_end(void **state)
{
	(void)state;
	for (int64_t session = 1; session <= 30; session++) {
		struct answer *answer = make(session, 1, true);
		script_turn_make(&script, session, 1, &turn);
		answer->sends--;
		struct heard heard = hear(answer);
		assert_false(*heard.finish || heard.done);
		const struct script_call *last = &turn.call[turn.calls - 1];
		if (heard.calls == turn.calls)
			assert_string_not_equal(
				heard.arguments[turn.calls - 1].data, last->arguments.data);
		forget(&heard);
		free(answer);
	}
}

static void the_same_place_has_the_same_bytes(void **state)
{
	(void)state;
	struct answer *first = make(5, 2, true), *other = make(6, 2, true),
		      *again = make(5, 2, true);
	size_t length = first->send[first->sends - 1].end;
	assert_int_equal(again->send[again->sends - 1].end, length);
	assert_memory_equal(first->bytes, again->bytes, length);
	assert_memory_equal(first->send, again->send, first->sends * sizeof *first->send);
	assert_true(other->send[other->sends - 1].end != length ||
		    memcmp(first->bytes, other->bytes, length));
	free(first);
	free(other);
	free(again);
}

static void times_are_the_scripts(void **state)
{
	(void)state;
	int64_t due_ns[20];
	script_schedule(&script, 5, 2, due_ns);
	struct answer *answer = make(5, 2, true);
	for (size_t i = 0; i < answer->sends; i++)
		assert_int_equal(answer->send[i].due_ns, due_ns[i]);
	free(answer);
}

static void headers_are_a_streams(void **state)
{
	(void)state;
	struct answer *answer = make(1, 1, false);
	static const char *const lines[] = {"HTTP/1.1 200 OK\r\n",
		"\r\nContent-Type: text/event-stream; charset=utf-8\r\n",
		"\r\nCache-Control: no-cache\r\n", "\r\nX-Accel-Buffering: no\r\n",
		"\r\nTransfer-Encoding: chunked\r\n"};
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
		assert_non_null(
			memmem(answer->bytes, answer->send[0].end, lines[i], strlen(lines[i])));
	assert_null(memmem(answer->bytes, answer->send[0].end, "Connection:", 11));
	free(answer);
	const struct answer_wish wish = {.stream = true, .prompt_tokens = 42};
	answer = answer_turn(&script, 1, 1, &wish, &scratch);
	assert_non_null(
		memmem(answer->bytes, answer->send[0].end, "\r\nConnection: close\r\n", 21));
	assert_false(answer->keep_alive);
	free(answer);
}

/* Splits a response that is not chunked; checks Content-Length. */
static json_t *body_of(const struct answer *answer, const char *status_line)
{
	assert_int_equal(answer->sends, 1);
	size_t length = answer->send[0].end;
	assert_memory_equal(answer->bytes, status_line, strlen(status_line));
	const char *body = memmem(answer->bytes, length, "\r\n\r\n", 4);
	const char *announced = memmem(answer->bytes, length, "Content-Length: ", 16);
	assert_non_null(body);
	assert_non_null(announced);
	body += 4;
	size_t body_length = length - (size_t)(body - answer->bytes);
	assert_int_equal(strtoul(announced + 16, NULL, 10), body_length);
	json_t *object = json_loadb(body, body_length, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(object);
	return object;
}

static void without_a_stream_it_is_one_object(void **state)
{
	(void)state;
	int64_t due_ns[20];
	script_schedule(&script, 5, 2, due_ns);
	script_turn_make(&script, 5, 2, &turn);
	const struct answer_wish wish = {.keep_alive = true, .prompt_tokens = 42};
	struct answer *answer = answer_turn(&script, 5, 2, &wish, &scratch);
	assert_int_equal(answer->send[0].due_ns, due_ns[19]);
	json_t *object = body_of(answer, "HTTP/1.1 200 OK\r\n");
	const json_t *choice = json_array_get(json_object_get(object, "choices"), 0);
	const json_t *message = json_object_get(choice, "message");
	const json_t *calls = json_object_get(message, "tool_calls");
	assert_string_equal(
		json_string_value(json_object_get(object, "object")), "chat.completion");
	assert_string_equal(json_string_value(json_object_get(message, "content")), turn.text.data);
	assert_string_equal(
		json_string_value(json_object_get(choice, "finish_reason")), "tool_calls");
	assert_int_equal(json_array_size(calls), turn.calls);
	for (size_t i = 0; i < turn.calls; i++) {
		const json_t *call = json_array_get(calls, i);
		const json_t *function = json_object_get(call, "function");
		assert_string_equal(
			json_string_value(json_object_get(call, "id")), turn.call[i].id);
		assert_string_equal(json_string_value(json_object_get(function, "arguments")),
			turn.call[i].arguments.data);
	}
	assert_int_equal(json_integer_value(json_object_get(
				 json_object_get(object, "usage"), "prompt_tokens")),
		42);
	json_decref(object);
	free(answer);
}

static void errors_have_openais_shape(void **state)
{
	(void)state;
	struct answer *answer =
		answer_error(400, "invalid_request_error", "history", "a \"message\"", true);
	assert_int_equal(answer->send[0].due_ns, 0);
	json_t *object = body_of(answer, "HTTP/1.1 400 Bad Request\r\n");
	const json_t *error = json_object_get(object, "error");
	assert_string_equal(json_string_value(json_object_get(error, "message")), "a \"message\"");
	assert_string_equal(
		json_string_value(json_object_get(error, "type")), "invalid_request_error");
	assert_string_equal(json_string_value(json_object_get(error, "code")), "history");
	assert_true(json_is_null(json_object_get(error, "param")));
	json_decref(object);
	free(answer);
	answer = answer_error(404, "invalid_request_error", NULL, "m", true);
	object = body_of(answer, "HTTP/1.1 404 Not Found\r\n");
	assert_true(json_is_null(json_object_get(json_object_get(object, "error"), "code")));
	json_decref(object);
	free(answer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_stream_says_what_the_script_says, setup, teardown),
		cmocka_unit_test_setup_teardown(
			the_last_fragment_leaves_with_the_end, setup, teardown),
		{"a_stream_says_it_in_few_sends", a_stream_says_what_the_script_says, setup_tight,
			teardown, NULL},
		{"the_last_fragment_leaves_with_the_end_of_few",
			the_last_fragment_leaves_with_the_end, setup_tight, teardown, NULL},
		cmocka_unit_test_setup_teardown(the_same_place_has_the_same_bytes, setup, teardown),
		cmocka_unit_test_setup_teardown(times_are_the_scripts, setup, teardown),
		cmocka_unit_test_setup_teardown(headers_are_a_streams, setup, teardown),
		cmocka_unit_test_setup_teardown(without_a_stream_it_is_one_object, setup, teardown),
		cmocka_unit_test_setup_teardown(errors_have_openais_shape, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
