#include "mockllm/scan.h"

#include "common/buf.h"
#include "mockllm/escape.h"
#include "tests/unit/mockllm/fixture.h"

static struct scan scan_of(const char *text)
{
	return (struct scan){text, text + strlen(text)};
}

struct text_row {
	const char *json;
	const char *value;
	bool same;
};

static const struct text_row text_rows[] = {
	{"\"\"", "", true},
	{"\"abc\"", "abc", true},
	{" \t\r\n\"abc\"", "abc", true},
	{"\"abc\"", "abd", false},
	{"\"abc\"", "ab", false},
	{"\"ab\"", "abc", false},
	{"\"abc", "abc", false},
	{"abc", "abc", false},
	{"", "", false},
	{"\"", "", false},
	{"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t", true},
	{"\"\\u0041\\u00e9\\u20AC\"", "A\u00e9\u20ac", true},
	{"\"\u00e9\"", "\u00e9", true},
	{"\"\\ud83d\\ude00\"", "\U0001f600", true},
	{"\"\U0001f600\"", "\U0001f600", true},
	{"\"\\ud83d\"", "\xef\xbf\xbd", false},
	{"\"\\ud83dx\"", "\xef\xbf\xbdx", false},
	{"\"\\ud83d\\u0041\"",
		"\xef\xbf\xbd"
		"A",
		false},
	{"\"\\ude00\"", "\xef\xbf\xbd", false},
	{"\"\\u00g0\"", "?", false},
	{"\"\\u00\"", "?", false},
	{"\"\\x\"", "x", false},
	{"\"\\", "", false},
	{"\"a\nb\"", "a\nb", false},
	{"\"a\tb\"", "a\tb", false},
	{"\"0123456789012345\"", "0123456789012345", true},
	{"\"01234567890123\\n5\"", "01234567890123\n5", true},
	{"\"0123456789012345\"", "0123456789012344", false},
	{"\"01234567\n9012345\"", "01234567\n9012345", false},
};

static void texts_are_compared(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof text_rows / sizeof *text_rows; i++) {
		struct scan scan = scan_of(text_rows[i].json);
		const char *value = text_rows[i].value;
		if (scan_text(&scan, value, strlen(value)) != text_rows[i].same)
			fail_msg("row %zu: %s", i, text_rows[i].json);
		if (text_rows[i].same)
			assert_true(scan_ended(&scan));
	}
	static const char nul[] = "\"a\\\0b\"";
	struct scan scan = {nul, nul + sizeof nul - 1};
	assert_false(scan_text(&scan, "aab", 3));
}

/* By words and by single bytes: the usual form, and any other. */
static void long_texts_are_compared(void **state)
{
	(void)state;
	struct buf json;
	buf_init(&json, 1 << 20);
	char text[1000];
	for (size_t i = 0; i < sizeof text; i++)
		text[i] = "abc\"\\\n\t z"[i % 9];
	buf_add_char(&json, '"');
	escape_json(&json, text, sizeof text);
	buf_add_text(&json, "\",");
	struct scan scan = scan_of(json.data);
	assert_true(scan_text(&scan, text, sizeof text));
	assert_string_equal(scan.at, ",");

	/* one character written in another way */
	buf_clear(&json);
	buf_add_text(&json, " \"\\u0061");
	escape_json(&json, text + 1, sizeof text - 1);
	buf_add_text(&json, "\"");
	scan = scan_of(json.data);
	assert_true(scan_text(&scan, text, sizeof text));
	assert_true(scan_ended(&scan));

	/* one byte wrong, at every place */
	for (size_t i = 8; i < json.length - 1; i++) {
		char kept = json.data[i];
		json.data[i] = kept == 'y' ? 'x' : 'y';
		scan = scan_of(json.data);
		assert_false(scan_text(&scan, text, sizeof text));
		json.data[i] = kept;
	}
	/* cut short, at every place */
	for (size_t i = 0; i < json.length; i++) {
		scan = (struct scan){json.data, json.data + i};
		assert_false(scan_text(&scan, text, sizeof text));
	}
	buf_release(&json);
}

struct skip_row {
	const char *json;
	bool valid;
};

static const struct skip_row skip_rows[] = {
	{"null", true},
	{"true", true},
	{"false", true},
	{"0", true},
	{"-0", true},
	{"12.5e+3", true},
	{"1E-7", true},
	{"\"a\\u00e9\u00e9\\n\"", true},
	{"{}", true},
	{"[]", true},
	{"[[],[{}],{\"a\":[1,2,{\"b\":null}],\"c\":\"d\"}]", true},
	{" [ 1 , 2 ] ", true},
	{"{ \"a\" : 1 , \"b\" : [ ] }", true},
	{"", false},
	{"nul", false},
	{"nulll", false},
	{"01", false},
	{"-", false},
	{"1.", false},
	{".5", false},
	{"1e", false},
	{"+1", false},
	{"1e999", false}, /* left to the full parser */
	{"1234567890123456789", false},
	{"[1,]", false},
	{"[1 2]", false},
	{"[,1]", false},
	{"[", false},
	{"]", false},
	{"[}", false},
	{"{\"a\"}", false},
	{"{\"a\":}", false},
	{"{\"a\":1,}", false},
	{"{,}", false},
	{"{a:1}", false},
	{"{\"\\u0061\":1}", false}, /* left to the full parser */
	{"{\"a\":1", false},
	{"\"\x80\"", false},
	{"\"\xc3\"", false},
	{"\"\xc0\xaf\"", false},
	{"\"\xed\xa0\x80\"", false},
	{"\"\xf0\x9f\x98\"", false},
	{"\"\xf4\x90\x80\x80\"", false},
	{"\"\x01\"", false},
	{"\"\\ud800\"", false},
};

static void any_value_is_skipped(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof skip_rows / sizeof *skip_rows; i++) {
		struct scan scan = scan_of(skip_rows[i].json);
		bool valid = scan_skip(&scan) && scan_ended(&scan);
		if (valid != skip_rows[i].valid)
			fail_msg("row %zu: %s", i, skip_rows[i].json);
	}
}

static void depth_is_bounded(void **state)
{
	(void)state;
	char text[200];
	for (size_t depth = 64; depth <= 65; depth++) {
		memset(text, '[', depth);
		memset(text + depth, ']', depth);
		text[2 * depth] = '\0';
		struct scan scan = scan_of(text);
		/* the innermost array is empty and takes no level */
		assert_true(scan_skip(&scan));
		memmove(text + depth + 1, text + depth, depth + 1);
		text[depth] = '1';
		scan = scan_of(text);
		assert_int_equal(scan_skip(&scan), depth == 64);
	}
}

static void names_and_flags(void **state)
{
	(void)state;
	const char *name;
	size_t length;
	bool flag;
	struct scan scan = scan_of(" \"model\" : true, false,maybe");
	assert_true(scan_name(&scan, &name, &length));
	assert_int_equal(length, 5);
	assert_memory_equal(name, "model", 5);
	assert_false(scan_char(&scan, ','));
	assert_true(scan_char(&scan, ':'));
	assert_true(scan_bool(&scan, &flag));
	assert_true(flag);
	assert_true(scan_char(&scan, ','));
	assert_true(scan_bool(&scan, &flag));
	assert_false(flag);
	assert_true(scan_char(&scan, ','));
	assert_false(scan_bool(&scan, &flag));
	scan = scan_of("\"mo\\u0064el\"");
	assert_false(scan_name(&scan, &name, &length));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts_are_compared),
		cmocka_unit_test(long_texts_are_compared),
		cmocka_unit_test(any_value_is_skipped),
		cmocka_unit_test(depth_is_bounded),
		cmocka_unit_test(names_and_flags),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
