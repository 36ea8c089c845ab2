#include "agent/c/report.h"

#include "agent/c/server_error.h"
#include "common/error.h"
#include "tests/unit/agent-c/fixture.h"

#include <jansson.h>
#include <stdio.h>

static void lines_of_turns(void **state)
{
	(void)state;
	struct report report;
	report_init(&report, true);
	report_turn(&report, "s7", 3, 2, 1234567);
	report_done(&report);
	assert_string_equal(report.lines.data,
		"{\"event\":\"turn\",\"session\":\"s7\",\"turn\":3,\"attempt\":2,\"turn_ns\":"
		"1234567}\n"
		"{\"event\":\"done\"}\n");
	report_release(&report);
	report_init(&report, false);
	report_turn(&report, "s7", 3, 2, 1234567);
	assert_int_equal(report.lines.length, 0);
	report_release(&report);
}

/* A line of at most 512 bytes, valid JSON, whose message is a prefix of the text. */
static void assert_error_line(const char *text, const char *want_whole)
{
	struct report report;
	report_init(&report, false);
	report_error(&report, "s10000", 10000, text);
	assert_in_range(report.lines.length, 1, REPORT_LINE_MAX);
	assert_int_equal(report.lines.data[report.lines.length - 1], '\n');
	json_t *line = json_loadb(report.lines.data, report.lines.length, 0, NULL);
	assert_non_null(line);
	const char *message = json_string_value(json_object_get(line, "message"));
	assert_non_null(message);
	assert_string_equal(json_string_value(json_object_get(line, "session")), "s10000");
	if (want_whole) {
		assert_string_equal(message, want_whole);
	} else {
		assert_memory_equal(message, text, strlen(message));
		assert_in_range(report.lines.length, REPORT_LINE_MAX - 5, REPORT_LINE_MAX);
	}
	json_decref(line);
	report_release(&report);
}

static void error_lines_are_short_and_whole(void **state)
{
	(void)state;
	static const char *const units[] = {"a", "\n", "\"", "\u00e9", "\u20ac", "\U0001f600",
		"\x01", "ab\\", "x\u00e9\n\U0001f600"};
	for (size_t i = 0; i < ROWS(units); i++) {
		char text[4096] = "";
		while (strlen(text) < 2000)
			strcat(text, units[i]);
		assert_error_line(text, NULL);
	}
	assert_error_line("", "");
	assert_error_line("short\n", "short\n");
	assert_error_line("\xff", "\xef\xbf\xbd");
}

struct body_row {
	const char *body, *message;
};

static const struct body_row body_rows[] = {
	{"{\"error\":{\"message\":\"a\\nb\",\"type\":\"t\"}}", "a\nb"},
	{"{\n  \"error\": {\n    \"message\": \"m\"\n  }\n}\n", "m"},
	{"{\"error\":\"m\"}", "m"},
	{"{\"message\":\"m\"}", "m"},
	{"{\"error\":{\"code\":1}}", "{\"error\":{\"code\":1}}"},
	{"{\"detail\":\n\t[1]}", "{\"detail\": [1]}"},
	{"<html>\r\n <h1>Bad  gateway</h1>\n</html>", "<html> <h1>Bad gateway</h1> </html>"},
	{"  \n", ""},
	{"", ""},
	{"plain", "plain"},
	{"[\"x\"]", "[\"x\"]"},
	{"{\"error\":{\"message\":\"\\ud83d\"}}", "{\"error\":{\"message\":\"\\ud83d\"}}"},
};

static void bodies(void **state)
{
	(void)state;
	for (size_t i = 0; i < ROWS(body_rows); i++) {
		struct error err;
		assert_int_equal(
			server_error_body(body_rows[i].body, strlen(body_rows[i].body), &err), -1);
		assert_string_equal(err.text, body_rows[i].message);
		assert_int_equal(err.code, 0);
	}
}

static void messages_are_cut_at_500_bytes(void **state)
{
	(void)state;
	char text[4096], body[8192];
	for (int shift = 0; shift < 4; shift++) {
		struct error err;
		memset(text, 'x', sizeof text);
		for (size_t i = (size_t)shift; i + 4 < sizeof text; i += 4)
			memcpy(text + i, "\U0001f600", 4);
		text[2000 + shift] = '\0';
		snprintf(body, sizeof body, "{\"error\":{\"message\":\"%s\"}}", text);
		server_error_body(body, strlen(body), &err);
		size_t want = 500 - (size_t)(500 - shift) % 4;
		assert_int_equal(strlen(err.text), want);
		assert_memory_equal(err.text, text, want);
		server_error_body(text, strlen(text), &err);
		assert_int_equal(strlen(err.text), want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_of_turns),
		cmocka_unit_test(error_lines_are_short_and_whole),
		cmocka_unit_test(bodies),
		cmocka_unit_test(messages_are_cut_at_500_bytes),
	};
	return cmocka_run_group_tests_name("agent-c report", tests, NULL, NULL);
}
