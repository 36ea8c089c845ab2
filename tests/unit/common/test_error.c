/* error.h: what stands in a message, however long its parts are. */
#include "common/error.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void texts(void **state)
{
	(void)state;
	struct error err;
	assert_int_equal(error_set(&err, ENOENT, "cannot open '%s'", "a"), -1);
	assert_string_equal(err.text, "cannot open 'a': No such file or directory");
	assert_int_equal(err.code, ENOENT);
	assert_int_equal(error_set(&err, 0, "tab\there\n"), -1);
	assert_string_equal(err.text, "tab?here?");
	assert_int_equal(error_prefix(&err, "plan '%s'", "p"), -1);
	assert_string_equal(err.text, "plan 'p': tab?here?");
	/* a message may be made of itself */
	assert_int_equal(error_set(&err, 0, "again: %s", err.text), -1);
	assert_string_equal(err.text, "again: plan 'p': tab?here?");
}

/* The subject may be longer than the message: how it begins and the reason stay. */
static void long_subjects(void **state)
{
	(void)state;
	char subject[5000];
	struct error err;
	for (size_t length = 900; length < sizeof subject; length += 7) {
		memset(subject, 'x', length);
		subject[length] = '\0';
		error_set(&err, ENOENT, "cannot open '%s'", subject);
		assert_true(strlen(err.text) < sizeof err.text);
		assert_memory_equal(err.text, "cannot open 'xxx", 16);
		assert_non_null(strstr(err.text, "xxx': No such file or directory"));
		error_set(&err, 0, "%s: must be a number, is 'y'", subject);
		assert_non_null(strstr(err.text, "x: must be a number, is 'y'"));
		error_prefix(&err, "%s", subject);
		assert_non_null(strstr(err.text, "must be a number, is 'y'"));
		error_prefix(&err, "plan");
		assert_memory_equal(err.text, "plan: xxx", 9);
		assert_non_null(strstr(err.text, "must be a number, is 'y'"));
	}
}

/* Nothing is cut within a character. */
static void characters_stay_whole(void **state)
{
	(void)state;
	char subject[3001] = "";
	struct error err;
	for (size_t shift = 0; shift < 4; shift++) {
		memset(subject, 'x', shift);
		for (size_t i = 0; i < 700; i++)
			memcpy(subject + shift + 4 * i, "\xf0\x9f\x92\xa1", 4);
		subject[shift + 2800] = '\0';
		error_set(&err, 0, "%s", subject);
		const char *gap = strstr(err.text, " ... ");
		assert_non_null(gap);
		assert_int_equal((size_t)(gap - err.text - (ptrdiff_t)shift) % 4, 0);
		assert_int_equal(strlen(gap + 5) % 4, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts),
		cmocka_unit_test(long_subjects),
		cmocka_unit_test(characters_stay_whole),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
