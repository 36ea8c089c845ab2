#include "collector/table.h"

#include "common/buf.h"
#include "common/error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void numbers_have_three_digits(void **state)
{
	(void)state;
	static const struct {
		double value;
		const char *expected;
	} rows[] = {
		{0, "0"},
		{1, "1.00"},
		{0.5724, "0.572"},
		{12.345, "12.3"},
		{99.94, "99.9"},
		{99.96, "100"},
		{9.996, "10.0"},
		{0.9996, "1.00"},
		{123.4, "123"},
		{12345.6, "12346"},
		{-1.234, "-1.23"},
		{0.001234, "0.00123"},
		{0.00000001, "0.000000"},
		{1e15, "1000000000000000"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char shown[SHOWN_MAX];
		show_number(rows[i].value, shown);
		assert_string_equal(shown, rows[i].expected);
	}
}

static void units(void **state)
{
	(void)state;
	assert_string_equal(shown_unit("bytes")->shown, "MiB");
	assert_true(shown_unit("usec")->size == 1000);
	assert_string_equal(shown_unit("whatever")->shown, "");
}

static const char *const titles[] = {"name", "empty", "× n"};
static const bool right[] = {false, true, true};

static void fill(struct table *table)
{
	table_init(table, titles, right, 3);
	table_row(table);
	table_set(table, 0, xstrdup("a|b\033[2J"), MARK_NONE);
	table_set(table, 2, xstrdup("≥ 512"), MARK_BAD);
	table_row(table);
	table_set(table, 0, xstrdup("first"), MARK_NONE);
	table_set(table, 0, xstrdup("café"), MARK_NONE);
}

static void rendering(void **state)
{
	(void)state;
	static const struct {
		enum table_form form;
		const char *expected;
	} rows[] = {
		{TABLE_PLAIN, "name       × n\n"
			      "a|b?[2J  ≥ 512\n"
			      "café         –\n"},
		{TABLE_COLOUR, "\033[1mname\033[0m       \033[1m× n\033[0m\n"
			       "a|b?[2J  \033[31m≥ 512\033[0m\n"
			       "café         –\n"},
		{TABLE_MARKDOWN, "| name     |   × n |\n"
				 "|:---------|------:|\n"
				 "| a\\|b?[2J | ≥ 512 |\n"
				 "| café     |     – |\n"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct table table;
		fill(&table);
		auto_buf struct buf out;
		buf_init(&out, 10000);
		table_render(&table, rows[i].form, &out);
		assert_string_equal(out.data, rows[i].expected);
		table_release(&table);
	}
}

/* What is spare goes where there is no room, the highest first, and no more than is needed. */
static void columns_that_are_spare_go_for_want_of_room(void **state)
{
	(void)state;
	static const char *const names[] = {"name", "a", "×", "b", "extra"};
	static const bool to_right[] = {false, true, true, true, true};
	static const unsigned char spare[] = {0, 0, 1, 0, 2};
	static const struct {
		size_t room;
		bool less;
		const char *expected;
	} rows[] = {
		{0, false,
			"name   a    ×  b  extra\nc     12  1.0  3      –\nnode   5  2.0  4      "
			"7\n"},
		{SIZE_MAX, false,
			"name   a    ×  b  extra\nc     12  1.0  3      –\nnode   5  2.0  4      "
			"7\n"},
		{23, false,
			"name   a    ×  b  extra\nc     12  1.0  3      –\nnode   5  2.0  4      "
			"7\n"},
		{22, true, "name   a    ×  b\nc     12  1.0  3\nnode   5  2.0  4\n"},
		{16, true, "name   a    ×  b\nc     12  1.0  3\nnode   5  2.0  4\n"},
		{15, true, "name   a  b\nc     12  3\nnode   5  4\n"},
		{1, true, "name   a  b\nc     12  3\nnode   5  4\n"},
	};
	struct table table;
	table_init(&table, names, to_right, 5);
	table.spare = spare;
	static const char *const texts[][5] = {
		{"c", "12", "1.0", "3", NULL}, {"node", "5", "2.0", "4", "7"}};
	for (size_t r = 0; r < 2; r++) {
		table_row(&table);
		for (size_t c = 0; c < 5; c++)
			table_set(&table, c, texts[r][c] ? xstrdup(texts[r][c]) : NULL, MARK_NONE);
	}
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		auto_buf struct buf out;
		buf_init(&out, 10000);
		table.room = rows[i].room;
		assert_int_equal(table_render(&table, TABLE_PLAIN, &out), rows[i].less);
		assert_string_equal(out.data, rows[i].expected);
	}
	table_release(&table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_have_three_digits),
		cmocka_unit_test(units),
		cmocka_unit_test(rendering),
		cmocka_unit_test(columns_that_are_spare_go_for_want_of_room),
	};
	return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}
