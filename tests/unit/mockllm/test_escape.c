#include "mockllm/escape.h"

#include "tests/unit/mockllm/fixture.h"

static void characters_are_escaped(void **state)
{
	(void)state;
	static const struct {
		const char *text, *escaped;
	} rows[] = {
		{"", ""},
		{"abc", "abc"},
		{"a\"b\\c/d", "a\\\"b\\\\c/d"},
		{"\n\r\t", "\\n\\r\\t"},
		{"\b\x01\x1f", "\\u0008\\u0001\\u001f"},
		{"\u00e9\u20ac", "\u00e9\u20ac"},
		{"\U0001f600", "\\ud83d\\ude00"},
		{"x\U00010000y\U0010ffff", "x\\ud800\\udc00y\\udbff\\udfff"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct buf out;
		buf_init(&out, 1 << 20);
		buf_add_text(&out, ">");
		escape_json(&out, rows[i].text, strlen(rows[i].text));
		assert_string_equal(out.data + 1, rows[i].escaped);
		assert_int_equal(out.length, 1 + strlen(rows[i].escaped));
		buf_release(&out);
	}
}

/* Longer than a block, with a character of four bytes across where blocks meet. */
static void long_texts_survive_a_parser(void **state)
{
	(void)state;
	for (size_t before = 4090; before < 4100; before++) {
		char text[10000];
		for (size_t i = 0; i < sizeof text; i++)
			text[i] = "ab\"\\\n\x01z"[i % 7];
		static const char face[4] = {'\xf0', '\x9f', '\x98', '\x80'};
		memcpy(text + before, face, sizeof face);
		struct buf out;
		buf_init(&out, 1 << 20);
		buf_add_text(&out, "\"");
		escape_json(&out, text, sizeof text);
		buf_add_text(&out, "\"");
		json_t *value = json_loadb(out.data, out.length, JSON_DECODE_ANY, NULL);
		assert_int_equal(json_string_length(value), sizeof text);
		assert_memory_equal(json_string_value(value), text, sizeof text);
		json_decref(value);
		buf_release(&out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(characters_are_escaped),
		cmocka_unit_test(long_texts_survive_a_parser),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
