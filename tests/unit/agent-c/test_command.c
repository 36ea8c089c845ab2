#include "agent/c/command.h"

#include "agent/c/answer.h"
#include "common/buf.h"
#include "common/error.h"
#include "tests/unit/agent-c/fixture.h"

#define FFFD "\xef\xbf\xbd"
#define INVALID "[error] invalid arguments"

struct row {
	const char *name, *arguments; /* JSON string text, as calls hold it */
	const char *argv[5];
	const char *message; /* instead */
};

static const struct row rows[] = {
	{"exec", "{\\\"argv\\\":[\\\"ls\\\",\\\"-l\\\"]}", {"ls", "-l"}, NULL},
	{"exec", " { \\\"argv\\\" : [ \\\"a b\\\" , \\\"\\\" ] , \\\"cwd\\\" : 1 } ", {"a b", ""},
		NULL},
	{"shell", "{\\\"command\\\":\\\"echo \\\\\\\"hi\\\\\\\"\\\\n\\\"}",
		{"/bin/sh", "-c", "echo \"hi\"\n"}, NULL},
	{"shell", "{\\\"command\\\":\\\"\\\"}", {"/bin/sh", "-c", ""}, NULL},
	{"ex\\u0065c", "{\\\"argv\\\":[\\\"ls\\\"]}", {"ls"}, NULL},
	/* text beyond ASCII, raw and escaped on either level */
	{"exec", "{\\\"argv\\\":[\\\"\u00e9\\\",\\\"\\u00e9\\\",\\\"\\\\u00e9\\\"]}",
		{"\u00e9", "\u00e9", "\u00e9"}, NULL},
	{"exec", "{\\\"argv\\\":[\\\"\\ud83d\\ude00\\\",\\\"\\\\ud83d\\\\ude00\\\"]}",
		{"\U0001f600", "\U0001f600"}, NULL},
	/* lone halves within the arguments' own escapes */
	{"exec", "{\\\"argv\\\":[\\\"\\\\ud83d\\\",\\\"\\\\ude00x\\\",\\\"\\\\\\\\ud83d\\\"]}",
		{FFFD, FFFD "x", "\\ud83d"}, NULL},
	{"exec", "{\\\"argv\\\":[\\\"\\\\ud83d\\\\ud83d\\\\ude00\\\"]}", {FFFD "\U0001f600"}, NULL},
	/* numbers too large for jansson, and duplicate keys: the last counts */
	{"exec", "{\\\"n\\\":99999999999999999999,\\\"argv\\\":[\\\"a\\\"]}", {"a"}, NULL},
	{"exec", "{\\\"argv\\\":[\\\"a\\\"],\\\"argv\\\":[\\\"b\\\"]}", {"b"}, NULL},
	/* a NUL elsewhere does not matter */
	{"exec", "{\\\"argv\\\":[\\\"a\\\"],\\\"x\\\":\\\"\\\\u0000\\\"}", {"a"}, NULL},
	/* not to be run */
	{"exec", "", {NULL}, INVALID},
	{"exec", "{}", {NULL}, INVALID},
	{"exec", "{\\\"argv\\\":[]}", {NULL}, INVALID},
	{"exec", "{\\\"argv\\\":\\\"ls\\\"}", {NULL}, INVALID},
	{"exec", "{\\\"argv\\\":[\\\"ls\\\",1]}", {NULL}, INVALID},
	{"exec", "{\\\"argv\\\":[\\\"ls\\\",null]}", {NULL}, INVALID},
	{"exec", "{\\\"argv\\\":[\\\"l\\\\u0000s\\\"]}", {NULL}, INVALID},
	{"exec", "{\\\"argv\\\":[\\\"ls\\\"]", {NULL}, INVALID},
	{"exec", "{\\\"argv\\\":[\\\"ls\\\"]} x", {NULL}, INVALID},
	{"exec", "[\\\"ls\\\"]", {NULL}, INVALID},
	{"exec", "null", {NULL}, INVALID},
	{"exec", "\\\"ls\\\"", {NULL}, INVALID},
	{"exec", "{\\\"argv\\\":[\\\"ls\\\\ud83\\\"]}", {NULL}, INVALID},
	{"exec", "{\\\"argv\\\":[\\\"\\\\", {NULL}, INVALID},
	{"exec", "{\\\"command\\\":\\\"ls\\\"}", {NULL}, INVALID},
	{"shell", "{\\\"argv\\\":[\\\"ls\\\"]}", {NULL}, INVALID},
	{"shell", "{\\\"command\\\":[\\\"ls\\\"]}", {NULL}, INVALID},
	{"shell", "{\\\"command\\\":\\\"a\\\\u0000b\\\"}", {NULL}, INVALID},
	{"shell", "{\\\"command\\\":null}", {NULL}, INVALID},
	{"rm", "{}", {NULL}, "[error] unknown tool: rm"},
	{"", "{}", {NULL}, "[error] unknown tool: "},
	{"Exec", "{}", {NULL}, "[error] unknown tool: Exec"},
	{"exec\\u0000", "{\\\"argv\\\":[\\\"ls\\\"]}", {NULL}, "[error] unknown tool: exec\\u0000"},
	{"a\\\"b", "{}", {NULL}, "[error] unknown tool: a\\\"b"},
};

static void decodes_calls(void **state)
{
	(void)state;
	for (size_t i = 0; i < ROWS(rows); i++) {
		const struct row *row = &rows[i];
		struct call call = {0};
		struct buf message;
		buf_init(&message, SIZE_MAX / 2);
		buf_init(&call.name, SIZE_MAX / 2);
		buf_init(&call.arguments, SIZE_MAX / 2);
		buf_add_text(&call.name, row->name);
		buf_add_text(&call.arguments, row->arguments);
		char **argv = command_of(&call, &message);
		if (row->message) {
			assert_null(argv);
			assert_string_equal(message.data, row->message);
		} else {
			assert_non_null(argv);
			int k = 0;
			for (; row->argv[k]; k++)
				assert_string_equal(argv[k], row->argv[k]);
			assert_null(argv[k]);
			assert_int_equal(message.length, 0);
		}
		free(argv);
		buf_release(&message);
		buf_release(&call.name);
		buf_release(&call.arguments);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(decodes_calls)};
	return cmocka_run_group_tests_name("agent-c command", tests, NULL, NULL);
}
