#include "collector/escape.h"

#include "common/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void every_form_of_every_hostile_text(void **state)
{
	(void)state;
	static const struct {
		const char *text, *plain, *html, *markdown, *csv;
	} rows[] = {
		{"", "", "", "", ""},
		{"node-22.1", "node-22.1", "node-22.1", "node-22.1", "node-22.1"},
		{"café €😀", "café €😀", "café €😀", "café €😀", "café €😀"},
		{"<script>alert('x\"&')</script>", "<script>alert('x\"&')</script>",
			"&lt;script&gt;alert(&#39;x&quot;&amp;&#39;)&lt;/script&gt;",
			"\\<script\\>alert('x\"\\&')\\</script\\>",
			"\"<script>alert('x\"\"&')</script>\""},
		{"a|b\\`c`*_[x](y)", "a|b\\`c`*_[x](y)", "a|b\\`c`*_[x](y)",
			"a\\|b\\\\\\`c\\`\\*\\_[x\\](y)", "a|b\\`c`*_[x](y)"},
		{"\033[31mred\033[0m\a", "?[31mred?[0m?", "?[31mred?[0m?", "?[31mred?[0m?",
			"?[31mred?[0m?"},
		{"\xc2\x9b"
		 "31m\x7f",
			"?31m?", "?31m?", "?31m?", "?31m?"},
		{"a\u202egpj.exe\u2066", "a?gpj.exe?", "a?gpj.exe?", "a?gpj.exe?", "a?gpj.exe?"},
		{"two\nlines\tand\r", "two lines and ", "two lines and ", "two lines and ",
			"two lines and "},
		{"=cmd|' /C calc'!A0", "=cmd|' /C calc'!A0", "=cmd|&#39; /C calc&#39;!A0",
			"=cmd\\|' /C calc'!A0", "'=cmd|' /C calc'!A0"},
		{"+1", "+1", "+1", "+1", "'+1"},
		{"-x", "-x", "-x", "-x", "'-x"},
		{"@SUM(1,2)", "@SUM(1,2)", "@SUM(1,2)", "@SUM(1,2)", "\"'@SUM(1,2)\""},
		{"\t=1", " =1", " =1", " =1", "' =1"},
		{"a,b", "a,b", "a,b", "a,b", "\"a,b\""},
		{"p99_ms [1, 2]", "p99_ms [1, 2]", "p99_ms [1, 2]", "p99_ms [1, 2]",
			"\"p99_ms [1, 2]\""},
		{"bad \xff\xc3 bytes", "bad ?? bytes", "bad ?? bytes", "bad ?? bytes",
			"bad ?? bytes"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const struct {
			void (*escape)(struct buf *out, const char *text);
			const char *expected;
		} forms[] = {{escape_plain, rows[i].plain}, {escape_html, rows[i].html},
			{escape_markdown, rows[i].markdown}, {escape_csv, rows[i].csv}};
		for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
			auto_buf struct buf out;
			buf_init(&out, 10000);
			buf_add_text(&out, ">");
			forms[k].escape(&out, rows[i].text);
			assert_string_equal(out.data + 1, forms[k].expected);
		}
	}
}

static void widths_are_characters(void **state)
{
	(void)state;
	assert_int_equal(escape_width(""), 0);
	assert_int_equal(escape_width("abc"), 3);
	assert_int_equal(escape_width("× – ≥"), 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_form_of_every_hostile_text),
		cmocka_unit_test(widths_are_characters),
	};
	return cmocka_run_group_tests_name("escape", tests, NULL, NULL);
}
