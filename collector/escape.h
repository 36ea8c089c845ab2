/*
 * Outside text (names, details, error messages) on its way into a page, a table, a terminal or a
 * spreadsheet, where none of it may act. All functions add to a buffer with enough room (a cap that
 * is reached aborts); text is UTF-8.
 *
 * First of all, for each of them, control characters and those that turn the direction of text
 * become '?'; line breaks and tabs become spaces.
 */
#ifndef COLLECTOR_ESCAPE_H
#define COLLECTOR_ESCAPE_H

struct buf;

void escape_plain(struct buf *out, const char *text);    /* terminals */
void escape_html(struct buf *out, const char *text);     /* content and quoted attributes */
void escape_markdown(struct buf *out, const char *text); /* a cell of a table or a line */
/*
 * One cell by RFC 4180, quoted where it must be. A text that a spreadsheet would take for a formula
 * (it begins with = + - @) gets an apostrophe in front. Not for numbers.
 */
void escape_csv(struct buf *out, const char *text);

/* Characters of UTF-8 text: its width in columns, near enough. */
unsigned long escape_width(const char *text);

#endif
