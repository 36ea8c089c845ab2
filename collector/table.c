#include "collector/table.h"

#include "collector/escape.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/error.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void table_init(struct table *table, const char *const *titles, const bool *right, size_t columns)
{
	*table = (struct table){.titles = titles, .right = right, .columns = columns};
}

void table_release(struct table *table)
{
	for (size_t i = 0; i < table->rows * table->columns; i++)
		free(table->cells[i].text);
	free(table->cells);
	table->cells = NULL;
	table->rows = 0;
}

void table_row(struct table *table)
{
	size_t count = (table->rows + 1) * table->columns;
	table->cells = xrealloc(table->cells, count * sizeof *table->cells);
	for (size_t i = table->rows * table->columns; i < count; i++)
		table->cells[i] = (struct table_cell){NULL, MARK_NONE};
	table->rows++;
}

void table_set(struct table *table, size_t column, char *text, enum table_mark mark)
{
	struct table_cell *cell = &table->cells[(table->rows - 1) * table->columns + column];
	free(cell->text);
	*cell = (struct table_cell){text, mark};
}

static void add(struct buf *out, const char *text)
{
	if (buf_add_text(out, text))
		die_oom();
}

/* The text of a cell as it is to stand there; malloc'ed. */
static char *escaped(const struct table_cell *cell, enum table_form form)
{
	struct buf out;
	buf_init(&out, 1 << 20);
	const char *text = cell->text ? cell->text : "–";
	if (form == TABLE_MARKDOWN)
		escape_markdown(&out, text);
	else
		escape_plain(&out, text);
	return out.data ? out.data : xstrdup("");
}

enum { GAP = 2 }; /* between columns, on a terminal */

static void pad(struct buf *out, const char *with, size_t count)
{
	while (count--)
		add(out, with);
}

static void add_cell(struct buf *out, const char *text, size_t width, bool right,
	const char *before, const char *after)
{
	size_t space = width - escape_width(text);
	if (right)
		pad(out, " ", space);
	add(out, before);
	add(out, text);
	add(out, after);
	if (!right)
		pad(out, " ", space);
}

static void add_row(const struct table *table, enum table_form form, const size_t *widths,
	char *const *texts, const enum table_mark *marks, struct buf *out)
{
	static const char *const colours[] = {
		[MARK_NONE] = "", [MARK_GOOD] = "\033[32m", [MARK_BAD] = "\033[31m"};
	bool first = true;
	for (size_t c = 0; c < table->columns; c++) {
		if (!widths[c])
			continue;
		if (form == TABLE_MARKDOWN)
			add(out, first ? "| " : " | ");
		else if (!first)
			pad(out, " ", GAP);
		const char *before = "", *after = "";
		if (form == TABLE_COLOUR) {
			before = marks ? colours[marks[c]] : "\033[1m";
			after = *before ? "\033[0m" : "";
		}
		add_cell(out, texts[c], widths[c], table->right[c], before, after);
		first = false;
	}
	if (form == TABLE_MARKDOWN)
		add(out, " |");
	while (out->length && out->data[out->length - 1] == ' ')
		out->length--;
	add(out, "\n");
}

static void add_rule(const struct table *table, const size_t *widths, struct buf *out)
{
	for (size_t c = 0; c < table->columns; c++) {
		if (!widths[c])
			continue;
		add(out, "|");
		add(out, table->right[c] ? "-" : ":");
		pad(out, "-", widths[c]);
		add(out, table->right[c] ? ":" : "-");
	}
	add(out, "|\n");
}

/* Of a row with its gaps, on a terminal. */
static size_t row_width(const struct table *table, const size_t *widths)
{
	size_t sum = 0;
	for (size_t c = 0; c < table->columns; c++)
		sum += widths[c] ? widths[c] + GAP : 0;
	return sum ? sum - GAP : 0;
}

static bool make_fit(const struct table *table, size_t *widths)
{
	bool less = false;
	while (table->spare && table->room && row_width(table, widths) > table->room) {
		unsigned char highest = 0;
		for (size_t c = 0; c < table->columns; c++)
			if (widths[c] && table->spare[c] > highest)
				highest = table->spare[c];
		if (!highest)
			break;
		for (size_t c = 0; c < table->columns; c++)
			if (table->spare[c] == highest)
				widths[c] = 0;
		less = true;
	}
	return less;
}

bool table_render(const struct table *table, enum table_form form, struct buf *out)
{
	size_t columns = table->columns, count = (table->rows + 1) * columns;
	auto_free char **texts = xcalloc(count, sizeof *texts);
	auto_free size_t *widths = xcalloc(columns, sizeof *widths);
	for (size_t c = 0; c < columns; c++)
		texts[c] = xstrdup(table->titles[c]);
	for (size_t i = 0; i < table->rows * columns; i++)
		texts[columns + i] = escaped(&table->cells[i], form);
	for (size_t c = 0; c < columns; c++) {
		bool used = false;
		for (size_t r = 0; r < table->rows; r++)
			used = used || table->cells[r * columns + c].text;
		for (size_t r = 0; used && r <= table->rows; r++) {
			size_t width = escape_width(texts[r * columns + c]);
			widths[c] = width > widths[c] ? width : widths[c];
		}
	}
	bool less = make_fit(table, widths);
	add_row(table, form, widths, texts, NULL, out);
	if (form == TABLE_MARKDOWN)
		add_rule(table, widths, out);
	auto_free enum table_mark *marks = xcalloc(columns, sizeof *marks);
	for (size_t r = 0; r < table->rows; r++) {
		for (size_t c = 0; c < columns; c++)
			marks[c] = table->cells[r * columns + c].mark;
		add_row(table, form, widths, texts + (r + 1) * columns, marks, out);
	}
	for (size_t i = 0; i < count; i++)
		free(texts[i]);
	return less;
}

void show_number(double value, char out[SHOWN_MAX])
{
	double size = fabs(value);
	int decimals = 0;
	if (size > 0 && size < 99.95) {
		decimals = 2 - (int)floor(log10(size));
		if (decimals > 6)
			decimals = 6;
		/* 9.996 rounds to 10.0, which needs a decimal less */
		double scale = pow(10, decimals);
		if (decimals > 0 && round(size * scale) / scale >= pow(10, 3 - decimals))
			decimals--;
	}
	snprintf(out, SHOWN_MAX, "%.*f", decimals, value);
}

const struct shown_unit *shown_unit(const char *unit)
{
	static const struct shown_unit units[] = {
		{"ms", "ms", 1},
		{"usec", "ms", 1000},
		{"bytes", "MiB", 1048576},
		{"per GiB", "per GiB", 1},
		{"per core", "per core", 1},
		{"ratio", "", 1},
		{"count", "", 1},
	};
	size_t last = sizeof units / sizeof *units - 1;
	for (size_t i = 0; i < last; i++) {
		if (!strcmp(units[i].unit, unit))
			return &units[i];
	}
	return &units[last];
}
