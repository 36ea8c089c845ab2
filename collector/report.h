/*
 * A summary (summary.json, summary.h) as people and spreadsheets get it. Everything here is made
 * from the summary alone. Texts that came from outside are escaped for the form (escape.h).
 */
#ifndef COLLECTOR_REPORT_H
#define COLLECTOR_REPORT_H

#include <jansson.h>
#include <stdbool.h>

struct buf;

void report_csv(const json_t *summary, struct buf *out);      /* a row for each cell and figure */
void report_markdown(const json_t *summary, struct buf *out); /* aligned tables */
/* The main tables are made to fit `width` columns (terminal.h). */
void report_terminal(const json_t *summary, bool colour, size_t width, struct buf *out);
void report_html(const json_t *summary, struct buf *out); /* one file that needs no network */

#endif
