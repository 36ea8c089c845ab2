#include "common/json.h"

#include "common/cleanup.h"
#include "common/error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

struct sample {
	const char *name;
	int64_t count;
	double share;
	bool flag;
	json_t *part, *list;
};

static int read_sample(const char *text, struct sample *sample, struct error *err)
{
	json_auto_t *object = json_read_text(text, strlen(text), "a.json", err);
	if (!object)
		return -1;
	const struct json_field fields[] = {
		{"name", JSON_FIELD_TEXT, false, &sample->name, 1, 8, 0, 0, NULL},
		{"count", JSON_FIELD_INT, true, &sample->count, 1, 1000, 0, 0, NULL},
		{"share", JSON_FIELD_REAL, true, &sample->share, 0, 0, 0, 1, NULL},
		{"flag", JSON_FIELD_BOOL, true, &sample->flag, 0, 0, 0, 0, NULL},
		{"part", JSON_FIELD_OBJECT, true, &sample->part, 0, 0, 0, 0, NULL},
		{"list", JSON_FIELD_ARRAY, true, &sample->list, 1, 2, 0, 0, NULL},
	};
	return json_read_fields(
		object, "a.json", "plan", fields, sizeof fields / sizeof *fields, err);
}

static void refusals(void **state)
{
	(void)state;
	static const struct {
		const char *text, *message;
	} rows[] = {
		{"", "a.json: line 1, column 0: not valid JSON: "},
		{"\xef\xbb\xbf{}", "a.json: must be UTF-8 without a byte order mark"},
		{"\xff\xfe{", "a.json: must be UTF-8 without a byte order mark"},
		{"\xfe\xff", "a.json: must be UTF-8 without a byte order mark"},
		{"\xef\xbb", "a.json: line 1, column "},
		{"[1]", "a.json: must be a JSON object, is an array of 1"},
		{"3", "a.json: must be a JSON object, is 3"},
		{"{}", "a.json: plan.name: must be a text of 1 to 8 bytes without NUL, is absent"},
		{"{\"name\":\"\"}",
			"a.json: plan.name: must be a text of 1 to 8 bytes without NUL, is \"\""},
		{"{\"name\":\"a\\u0000b\"}", "a.json: line 1, column 18: not valid JSON: "},
		{"{\"name\":\"x\",\"count\":0}",
			"a.json: plan.count: must be an integer of 1 to 1000, is 0"},
		{"{\"name\":\"x\",\"count\":1.0}",
			"a.json: plan.count: must be an integer of 1 to 1000, is 1"},
		{"{\"name\":\"x\",\"count\":4294967297}",
			"a.json: plan.count: must be an integer of 1 to 1000, is 4294967297"},
		{"{\"name\":\"x\",\"share\":1.5}",
			"a.json: plan.share: must be a number of 0 to 1, is 1.5"},
		{"{\"name\":\"x\",\"flag\":1}", "a.json: plan.flag: must be true or false, is 1"},
		{"{\"name\":\"x\",\"part\":[]}",
			"a.json: plan.part: must be an object, is an array of 0"},
		{"{\"name\":\"x\",\"list\":[]}",
			"a.json: plan.list: must be an array of 1 to 2 items, is an array of 0"},
		{"{\"name\":\"x\",\"nam\":1}", "a.json: plan.nam: unknown field"},
		{"{\"name\":\"x\",\"a\\u001bb\":1}", "a.json: plan.a?b: unknown field"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct error err = {0};
		struct sample sample = {0};
		assert_int_equal(read_sample(rows[i].text, &sample, &err), -1);
		assert_non_null(strstr(err.text, rows[i].message));
	}
}

static void duplicate_keys_are_refused(void **state)
{
	(void)state;
	struct error err = {0};
	struct sample sample = {0};
	assert_int_equal(read_sample("{\"name\":\"a\",\n\"name\":\"b\"}", &sample, &err), -1);
	assert_non_null(strstr(err.text, "a.json: line 2"));
}

static void good_values(void **state)
{
	(void)state;
	struct error err = {0};
	struct sample sample = {.count = 7};
	assert_int_equal(
		read_sample("{\"$schema\":\"x\",\"name\":\"abc\",\"count\":null,\"share\":1,"
			    "\"flag\":true,\"list\":[1]}",
			&sample, &err),
		0);
	assert_int_equal(sample.count, 7);
	assert_true(sample.share == 1.0 && sample.flag);
}

static void files(void **state)
{
	(void)state;
	struct error err = {0};
	assert_null(json_read_file("/nonexistent/a.json", &err));
	assert_string_equal(
		err.text, "cannot open '/nonexistent/a.json': No such file or directory");
	assert_null(json_read_file("/", &err));
	assert_string_equal(err.text, "/: must be a regular file");
	char path[] = "/tmp/turnmeter-json-XXXXXX";
	auto_close int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, JSON_FILE_MAX + 1), 0);
	assert_null(json_read_file(path, &err));
	assert_non_null(strstr(err.text, "must be at most"));
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(write(fd, "{\"a\":1}", 7), 7);
	json_auto_t *object = json_read_file(path, &err);
	assert_int_equal(json_integer_value(json_object_get(object, "a")), 1);
	unlink(path);
}

static void lists_of_texts(void **state)
{
	(void)state;
	struct error err = {0};
	json_auto_t *good = json_pack("[s, s]", "a", "bb");
	auto_free const char **texts = json_read_texts(good, "a.json", "plan.contenders", 2, &err);
	assert_non_null(texts);
	assert_string_equal(texts[1], "bb");
	assert_null(texts[2]);
	json_auto_t *bad = json_pack("[s, i]", "a", 3);
	assert_null(json_read_texts(bad, "a.json", "plan.contenders", 2, &err));
	assert_string_equal(err.text,
		"a.json: plan.contenders[1]: must be a text of 1 to 2 bytes without NUL, is 3");
}

static void texts_are_made_valid(void **state)
{
	(void)state;
	static const struct {
		const char *bytes;
		size_t max;
		const char *expected;
	} rows[] = {
		{NULL, 10, ""}, {"", 10, ""}, {"a\tb", 10, "a\tb"}, {"abcdef", 3, "abc"},
		{"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 100,
			"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
		{"a\xe2\x82\xac", 3, "a"},        /* not cut in the middle */
		{"a\xe2\x82", 10, "a??"},         /* torn */
		{"\x80\xc0\xaf\xff", 10, "????"}, /* never valid */
		{"\xed\xa0\x80", 10, "???"},      /* a surrogate */
		{"\xf4\x90\x80\x80", 10, "????"}, /* beyond U+10FFFF */
		{"\xe0\x80\x80", 10, "???"},      /* overlong */
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		json_auto_t *value = json_text(rows[i].bytes, rows[i].max);
		assert_string_equal(json_string_value(value), rows[i].expected);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refusals),
		cmocka_unit_test(duplicate_keys_are_refused),
		cmocka_unit_test(good_values),
		cmocka_unit_test(files),
		cmocka_unit_test(lists_of_texts),
		cmocka_unit_test(texts_are_made_valid),
	};
	return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
