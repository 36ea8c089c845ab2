/* Tables of text, aligned for terminals and as Markdown; and how numbers are shown in them. */
#ifndef COLLECTOR_TABLE_H
#define COLLECTOR_TABLE_H

#include <stdbool.h>
#include <stddef.h>

struct buf;

enum table_form { TABLE_PLAIN, TABLE_COLOUR, TABLE_MARKDOWN };

enum table_mark { MARK_NONE, MARK_GOOD, MARK_BAD };

struct table_cell {
	char *text;           /* as given, not yet escaped; NULL: "–" */
	enum table_mark mark; /* shown by colour only where there is some */
};

struct table {
	const char *const *titles; /* borrowed */
	const bool *right;         /* borrowed: numbers stand to the right */
	size_t columns;
	struct table_cell *cells; /* row by row */
	size_t rows;
	/* Where a row is wider than `room`, columns of the highest number here go first; those of 0
	 * stay. */
	const unsigned char *spare; /* borrowed; NULL: all stay */
	size_t room;                /* 0: as much as is needed */
};

void table_init(struct table *table, const char *const *titles, const bool *right, size_t columns);
void table_release(struct table *table);
/* A new row of empty cells. */
void table_row(struct table *table);
/* Set a cell of the last row. Takes `text`, which is malloc'ed or NULL. */
void table_set(struct table *table, size_t column, char *text, enum table_mark mark);
/*
 * Columns without any text in any row are left out. Outside text is escaped for the form. Returns
 * whether any was left out for want of room.
 */
bool table_render(const struct table *table, enum table_form form, struct buf *out);

/* ---- numbers */

/* Three significant digits, never an exponent: "0.00123", "1.23", "12.3", "123", "12345". */
#define SHOWN_MAX 48
void show_number(double value, char out[SHOWN_MAX]);

/* The unit that people are shown for a unit of the figures ("bytes": "MiB"), and its size. */
struct shown_unit {
	const char *unit;  /* of figures.h */
	const char *shown; /* "" for plain numbers */
	double size;       /* in figure units */
};
const struct shown_unit *shown_unit(const char *unit);

#endif
