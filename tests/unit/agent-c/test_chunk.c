#include "agent/c/chunk.h"

#include "common/error.h"
#include "tests/unit/agent-c/fixture.h"

#include <jansson.h>
#include <stdio.h>

static int read_copy(const char *text, size_t length, struct chunk *chunk, char **copy)
{
	*copy = xmalloc(length);
	memcpy(*copy, text, length);
	return chunk_read(*copy, length, chunk);
}

static void assert_span(struct span span, const char *want)
{
	if (!want) {
		assert_null(span.at);
		return;
	}
	assert_non_null(span.at);
	assert_int_equal(span.length, strlen(want));
	assert_memory_equal(span.at, want, span.length);
}

struct row {
	const char *json, *content, *finish_reason, *tool_calls, *error;
};

static const struct row rows[] = {
	{"{}", NULL, NULL, NULL, NULL},
	{"{\"choices\":[]}", NULL, NULL, NULL, NULL},
	{"{\"choices\":[],\"usage\":{\"total_tokens\":7}}", NULL, NULL, NULL, NULL},
	{"{\"choices\":null}", NULL, NULL, NULL, NULL},
	{"{\"choices\":{}}", NULL, NULL, NULL, NULL},
	{"{\"choices\":[null]}", NULL, NULL, NULL, NULL},
	{"{\"choices\":[{}]}", NULL, NULL, NULL, NULL},
	{"{\"choices\":[{\"delta\":{}}]}", NULL, NULL, NULL, NULL},
	{"{\"choices\":[{\"delta\":null,\"finish_reason\":\"stop\"}]}", NULL, "stop", NULL, NULL},
	{"{\"choices\":[{\"delta\":{\"content\":null}}]}", NULL, NULL, NULL, NULL},
	{"{\"choices\":[{\"delta\":{\"content\":7}}]}", NULL, NULL, NULL, NULL},
	{"{\"choices\":[{\"delta\":{\"content\":\"\"}}]}", "", NULL, NULL, NULL},
	{"{\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}", "hi", NULL, NULL, NULL},
	{"{\"choices\":[{\"delta\":{\"content\":\"a\\n\\\"\\u00e9\\\\\"}}]}", "a\\n\\\"\\u00e9\\\\",
		NULL, NULL, NULL},
	{"{\"choices\":[{\"delta\":{\"content\":\"\\ud83d\"}}]}", "\\ud83d", NULL, NULL, NULL},
	{"{\"choices\":[{\"delta\":{\"reasoning_content\":\"no\"}}]}", NULL, NULL, NULL, NULL},
	{"{\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}", NULL, NULL, NULL, NULL},
	{" {\n\t\"choices\" :\r[ { \"delta\" : { \"content\" : \"hi\" } } ] } ", "hi", NULL, NULL,
		NULL},
	{"{\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":"
	 "\"m\","
	 "\"system_fingerprint\":null,\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},"
	 "\"logprobs\":null,\"finish_reason\":null}]}",
		"hi", NULL, NULL, NULL},
	{"{\"choices\":[{\"finish_reason\":\"\"}]}", NULL, NULL, NULL, NULL},
	{"{\"choices\":[{\"finish_reason\":false}]}", NULL, NULL, NULL, NULL},
	{"{\"choices\":[{\"finish_reason\":\"tool_calls\",\"delta\":{\"tool_calls\":[{}]}}]}", NULL,
		"tool_calls", "[{}]", NULL},
	{"{\"choices\":[{\"delta\":{\"tool_calls\":null}}]}", NULL, NULL, NULL, NULL},
	{"{\"choices\":[{\"delta\":{\"tool_calls\":[]}}]}", NULL, NULL, "[]", NULL},
	/* the first choice counts */
	{"{\"choices\":[{\"delta\":{\"content\":\"a\"}},{\"delta\":{\"content\":\"b\"}}]}", "a",
		NULL, NULL, NULL},
	/* of duplicate keys the last */
	{"{\"choices\":[{\"delta\":{\"content\":\"a\",\"content\":\"b\"}}]}", "b", NULL, NULL,
		NULL},
	{"{\"choices\":[{\"delta\":{\"content\":\"a\"},\"delta\":{}}]}", NULL, NULL, NULL, NULL},
	{"{\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"choices\":[]}", NULL, NULL, NULL, NULL},
	{"{\"choices\":[{\"finish_reason\":\"stop\",\"finish_reason\":null}]}", NULL, NULL, NULL,
		NULL},
	/* keys spelled with escapes, keys that only look alike */
	{"{\"cho\\u0069ces\":[{\"d\\u0065lta\":{\"\\u0063ontent\":\"a\"}}]}", "a", NULL, NULL,
		NULL},
	{"{\"choices\\u0000\":[{\"delta\":{\"content\":\"a\"}}]}", NULL, NULL, NULL, NULL},
	{"{\"choice\":[{\"delta\":{\"content\":\"a\"}}]}", NULL, NULL, NULL, NULL},
	{"{\"choices\":[{\"delta\":{\"content2\":\"a\",\"conten\":\"b\",\"c\\nntent\":\"c\"}}]}",
		NULL, NULL, NULL, NULL},
	/* errors */
	{"{\"error\":{\"message\":\"m\"}}", NULL, NULL, NULL, "{\"message\":\"m\"}"},
	{"{\"error\":\"m\"}", NULL, NULL, NULL, "\"m\""},
	{"{\"error\": {} }", NULL, NULL, NULL, "{}"},
	{"{\"error\":null}", NULL, NULL, NULL, NULL},
	{"{\"error\":false}", NULL, NULL, NULL, NULL},
	{"{\"error\":\"\"}", NULL, NULL, NULL, NULL},
	{"{\"error\":0}", NULL, NULL, NULL, NULL},
	{"{\"error\":true}", NULL, NULL, NULL, "true"},
	{"{\"error\":1,\"choices\":[]}", NULL, NULL, NULL, "1"},
	/* JSON that is no chunk */
	{"null", NULL, NULL, NULL, NULL},
	{"7", NULL, NULL, NULL, NULL},
	{"\"x\"", NULL, NULL, NULL, NULL},
	{"[{\"choices\":1}]", NULL, NULL, NULL, NULL},
};

static void reads_every_shape(void **state)
{
	(void)state;
	for (size_t i = 0; i < ROWS(rows); i++) {
		struct chunk chunk;
		char *copy;
		assert_int_equal(read_copy(rows[i].json, strlen(rows[i].json), &chunk, &copy), 0);
		assert_span(chunk.content, rows[i].content);
		assert_span(chunk.finish_reason, rows[i].finish_reason);
		assert_span(chunk.tool_calls, rows[i].tool_calls);
		assert_span(chunk.error, rows[i].error);
		free(copy);
	}
}

static const char *const values[] = {"null", "true", "false", "0", "-0", "10", "-1.5", "1e5",
	"1E+5", "0.25e-7", "\"\"", "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00Af\"", "[]", "{}", "[1,2]",
	"{\"a\":{\"b\":[{}]}}", " [ ] ", "01", "1.", ".5", "-", "+1", "1e", "1e+", "nul", "nulll",
	"True", "\"", "\"\\", "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"", "\"a\nb\"", "\"a\tb\"", "[",
	"[1", "[1,", "[1,]", "[,1]", "[1 2]", "{", "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":1,",
	"{\"a\":1,}", "{,}", "{a:1}", "{\"a\" 1}", "{1:2}", "[1}", "{\"a\":1]", "1 2", "{} {}", "",
	" ", "'a'", "NaN", "Infinity", "\x7f", "]", "}", ",", ":", "/* */ 1", "[1]x"};

/* The same texts are JSON to us and to jansson, alone and as members on each level. */
static void agrees_with_jansson_on_what_is_json(void **state)
{
	(void)state;
	static const char *const places[] = {"%s", "{\"x\":%s}", "{\"choices\":%s}",
		"{\"choices\":[%s]}", "{\"choices\":[1,%s]}", "{\"choices\":[{\"delta\":%s}]}",
		"{\"choices\":[{\"x\":%s}]}", "{\"choices\":[{\"finish_reason\":%s}]}",
		"{\"choices\":[{\"delta\":{\"content\":%s}}]}",
		"{\"choices\":[{\"delta\":{\"tool_calls\":%s}}]}",
		"{\"choices\":[{\"delta\":{\"x\":%s}}]}", "{\"error\":%s}"};
	for (size_t i = 0; i < ROWS(values); i++)
		for (size_t k = 0; k < ROWS(places); k++) {
			char text[256];
			struct chunk chunk;
			char *copy;
			size_t length = (size_t)snprintf(text, sizeof text, places[k], values[i]);
			json_t *value = json_loadb(text, length, JSON_DECODE_ANY, NULL);
			assert_int_equal(read_copy(text, length, &chunk, &copy), value ? 0 : -1);
			json_decref(value);
			free(copy);
		}
}

static void every_prefix_is_bad(void **state)
{
	(void)state;
	static const char text[] =
		"{\"a\":[1,-2.5e3,true,null,\"\\u00e9\\n\"],\"choices\":[{\"delta\":{\"content\":"
		"\"x\",\"tool_calls\":[{\"index\":0}]},\"finish_reason\":\"stop\"}],\"error\":{}}";
	struct chunk chunk;
	char *copy;
	for (size_t length = 0; length < sizeof text - 1; length++) {
		assert_int_equal(read_copy(text, length, &chunk, &copy), -1);
		free(copy);
	}
	assert_int_equal(read_copy(text, sizeof text - 1, &chunk, &copy), 0);
	free(copy);
}

static void nesting_is_bounded(void **state)
{
	(void)state;
	static char text[2 * (CHUNK_DEPTH_MAX + 1)];
	struct chunk chunk;
	memset(text, '[', CHUNK_DEPTH_MAX);
	memset(text + CHUNK_DEPTH_MAX, ']', CHUNK_DEPTH_MAX);
	assert_int_equal(chunk_read(text, 2 * (size_t)CHUNK_DEPTH_MAX, &chunk), 0);
	memset(text, '[', CHUNK_DEPTH_MAX + 1);
	memset(text + CHUNK_DEPTH_MAX + 1, ']', CHUNK_DEPTH_MAX + 1);
	assert_int_equal(chunk_read(text, sizeof text, &chunk), -1);
	/* 16 MiB of it end at once */
	size_t length = 16 << 20;
	char *deep = xmalloc(length);
	memset(deep, '[', length);
	assert_int_equal(chunk_read(deep, length, &chunk), -1);
	free(deep);
}

struct fragment_row {
	const char *json; /* of tool_calls */
	int count;
	int64_t index; /* of the first; -1: none */
	const char *id, *name, *arguments;
	bool are_json;
};

static const struct fragment_row fragment_rows[] = {
	{"[]", 0, -1, NULL, NULL, NULL, false},
	{"[ ]", 0, -1, NULL, NULL, NULL, false},
	{"[null,1,\"x\",[]]", 0, -1, NULL, NULL, NULL, false},
	{"[{}]", 1, -1, NULL, NULL, NULL, false},
	{"[{},{}]", 2, -1, NULL, NULL, NULL, false},
	{" [ null , {\"index\" : 3 } , {} ] ", 2, 3, NULL, NULL, NULL, false},
	{"[{\"index\":0,\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"exec\","
	 "\"arguments\":\"{\\\"a\"}}]",
		1, 0, "c1", "exec", "{\\\"a", false},
	{"[{\"index\":12,\"function\":{\"arguments\":\"\"}}]", 1, 12, NULL, NULL, "", false},
	{"[{\"index\":null,\"id\":null,\"function\":null}]", 1, -1, NULL, NULL, NULL, false},
	{"[{\"index\":\"0\"}]", 1, -1, NULL, NULL, NULL, false},
	{"[{\"index\":-1}]", 1, -1, NULL, NULL, NULL, false},
	{"[{\"index\":1.0}]", 1, -1, NULL, NULL, NULL, false},
	{"[{\"index\":99999999999}]", 1, -1, NULL, NULL, NULL, false},
	{"[{\"function\":{\"arguments\":null}}]", 1, -1, NULL, NULL, NULL, false},
	{"[{\"function\":{\"arguments\":{\"argv\":[\"a\"]}}}]", 1, -1, NULL, NULL,
		"{\"argv\":[\"a\"]}", true},
	{"[{\"function\":{\"arguments\":[1]}}]", 1, -1, NULL, NULL, "[1]", true},
	{"[{\"function\":{\"name\":7,\"arguments\":\"x\"},\"id\":7}]", 1, -1, NULL, NULL, "x",
		false},
	{"[{\"function\":\"exec\"}]", 1, -1, NULL, NULL, NULL, false},
};

static void reads_fragments(void **state)
{
	(void)state;
	for (size_t i = 0; i < ROWS(fragment_rows); i++) {
		const struct fragment_row *row = &fragment_rows[i];
		struct fragment fragment, first = {0};
		struct chunk chunk;
		char *copy, text[512];
		size_t length = (size_t)snprintf(text, sizeof text,
			"{\"choices\":[{\"delta\":{\"tool_calls\":%s}}]}", row->json);
		assert_int_equal(read_copy(text, length, &chunk, &copy), 0);
		int count = 0;
		while (chunk_next_fragment(&chunk.tool_calls, &fragment))
			if (!count++)
				first = fragment;
		assert_int_equal(count, row->count);
		assert_int_equal(first.has_index ? first.index : -1, row->index);
		assert_span(first.id, row->id);
		assert_span(first.name, row->name);
		assert_span(first.arguments, row->arguments);
		if (row->arguments)
			assert_int_equal(first.arguments_are_json, row->are_json);
		free(copy);
	}
	struct span none = {0};
	struct fragment fragment;
	assert_false(chunk_next_fragment(&none, &fragment));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_every_shape),
		cmocka_unit_test(agrees_with_jansson_on_what_is_json),
		cmocka_unit_test(every_prefix_is_bad),
		cmocka_unit_test(nesting_is_bounded),
		cmocka_unit_test(reads_fragments),
	};
	return cmocka_run_group_tests_name("agent-c chunk", tests, NULL, NULL);
}
