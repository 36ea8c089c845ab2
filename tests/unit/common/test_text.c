/* error, buf, number, rng, toolgen: what is text or numbers in common/ */
#include "common/buf.h"
#include "common/error.h"
#include "common/number.h"
#include "common/rng.h"
#include "common/toolgen.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void error_texts(void **state)
{
	(void)state;
	struct error err = {0};
	assert_int_equal(error_set(&err, ENOENT, "cannot open '%s'", "a\nb\x1b[1m"), -1);
	assert_string_equal(err.text, "cannot open 'a?b?[1m': No such file or directory");
	assert_int_equal(err.code, ENOENT);
	assert_int_equal(error_prefix(&err, "%s", "configs/a.json"), -1);
	assert_string_equal(
		err.text, "configs/a.json: cannot open 'a?b?[1m': No such file or directory");
}

static void long_error_texts_are_cut(void **state)
{
	(void)state;
	struct error err = {0};
	char big[3000];
	memset(big, 'x', sizeof big - 1);
	big[sizeof big - 1] = '\0';
	error_set(&err, EIO, "%s", big);
	assert_int_equal(strlen(err.text), sizeof err.text - 1);
	error_prefix(&err, "front");
	assert_int_equal(strncmp(err.text, "front: xxx", 10), 0);
	assert_int_equal(strlen(err.text), sizeof err.text - 1);
	error_prefix(&err, "%s", big);
	assert_int_equal(strlen(err.text), sizeof err.text - 1);
}

static void buf_keeps_its_cap(void **state)
{
	(void)state;
	auto_buf struct buf buf;
	buf_init(&buf, 10);
	assert_int_equal(buf_add(&buf, NULL, 0), 0);
	assert_string_equal(buf.data, "");
	assert_int_equal(buf_add_text(&buf, "0123456789"), 0);
	assert_int_equal(buf_add_char(&buf, 'x'), -1);
	assert_int_equal(buf_reserve(&buf, SIZE_MAX), -1);
	assert_string_equal(buf.data, "0123456789");
	buf_drop(&buf, 4);
	assert_string_equal(buf.data, "456789");
	assert_int_equal(buf_addf(&buf, "%d", 12345), -1);
	assert_int_equal(buf_addf(&buf, "%d", 1234), 0);
	assert_string_equal(buf.data, "4567891234");
	buf_clear(&buf);
	assert_int_equal(buf.length, 0);
	assert_string_equal(buf.data, "");
}

static void integers(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int64_t value; /* -1: refused */
	} rows[] = {{"1", 1}, {"500", 500}, {"10000", 10000}, {"0", -1}, {"10001", -1}, {"", -1},
		{" 1", -1}, {"1 ", -1}, {"1x", -1}, {"0x10", -1}, {"-5", -1}, {"+7", 7},
		{"1e3", -1}, {"99999999999999999999", -1}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct error err = {0};
		int64_t value = -1;
		int result = number_parse(rows[i].text, "AGENT_SESSIONS", 1, 10000, &value, &err);
		assert_int_equal(result, rows[i].value < 0 ? -1 : 0);
		assert_int_equal(value, rows[i].value);
		if (result)
			assert_non_null(strstr(err.text,
				"AGENT_SESSIONS: must be an integer of 1 to 10000, is '"));
	}
}

static void random_numbers_are_the_same_everywhere(void **state)
{
	(void)state;
	uint64_t seed = 0; /* the published first outputs of SplitMix64 from 0 */
	assert_true(rng_next(&seed) == UINT64_C(0xe220a8397b1dcdaf));
	assert_true(rng_next(&seed) == UINT64_C(0x6e789e6aa1b965f4));
	assert_true(rng_next(&seed) == UINT64_C(0x06c45d188009454f));
	int seen[3] = {0};
	for (int i = 0; i < 1000; i++) {
		int64_t value = rng_between(&seed, -1, 1);
		assert_in_range(value + 1, 0, 2);
		seen[value + 1]++;
		double unit = rng_unit(&seed);
		assert_true(unit >= 0 && unit < 1);
	}
	for (int i = 0; i < 3; i++)
		assert_in_range(seen[i], 250, 420);
	assert_true(rng_derive(1, 2) != rng_derive(2, 1));
	assert_true(rng_derive_text(1, "steady") != rng_derive_text(1, "steadz"));
}

static void tool_text_is_a_function_of_key_and_size(void **state)
{
	(void)state;
	char a[1000], b[1000];
	toolgen_fill(5, a, sizeof a);
	toolgen_fill(5, b, sizeof b);
	assert_memory_equal(a, b, sizeof a);
	toolgen_fill(6, b, sizeof b);
	assert_memory_not_equal(a, b, sizeof a);
	assert_int_equal(a[999], '\n');
	for (size_t i = 0; i < sizeof a; i++)
		assert_true((a[i] >= 32 && a[i] < 127) || a[i] == '\t' ||
			    (a[i] == '\n' && (i % 80 == 79 || i == 999)));
	toolgen_fill(5, b, 1);
	assert_int_equal(b[0], '\n');
	toolgen_fill(5, NULL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(error_texts),
		cmocka_unit_test(long_error_texts_are_cut),
		cmocka_unit_test(buf_keeps_its_cap),
		cmocka_unit_test(integers),
		cmocka_unit_test(random_numbers_are_the_same_everywhere),
		cmocka_unit_test(tool_text_is_a_function_of_key_and_size),
	};
	return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
