/*
 * Charts as inline SVG: static, with a tooltip (title element) on every mark. Colours and fonts
 * are classes of the page's style sheet (report_template.html): s0 … s8 for series, p0 … p5 for
 * parts. Texts are escaped here. Values are in the unit that people are shown.
 */
#ifndef COLLECTOR_CHART_H
#define COLLECTOR_CHART_H

#include <stdbool.h>
#include <stddef.h>

struct buf;

/*
 * A style is one of eight colours and one of five shapes, so that series can be told apart without
 * the colour; the yardstick's is grey.
 */
enum { CHART_STYLES = 40, CHART_STYLE_YARDSTICK = CHART_STYLES, CHART_PARTS = 6 };

/* The class of its colour: "s3". Static storage. */
const char *chart_class(unsigned style);

struct chart_point {
	double x, y;
	bool ranged; /* lo and hi are set */
	double lo, hi;
	char *tip; /* malloc'ed, by whoever fills the point */
};

struct chart_series {
	const char *name;
	unsigned style;
	struct chart_point *points; /* by x */
	size_t count;
};

struct chart {
	const char *title; /* read out for those who do not see the picture */
	const char *x_title, *y_title;
	bool band; /* ranges as bands between lines; otherwise as bars on the points */
};

/*
 * Lines over the number of sessions (log axis). The y axis is logarithmic unless a value is not
 * above zero. Nothing is drawn for no points.
 */
void chart_lines(struct buf *out, const struct chart *chart, const struct chart_series *series,
	size_t count);

/* One row of a chart of rows. */
struct chart_row {
	const char *name;
	unsigned style;
	double value; /* median */
	bool ranged;
	double lo, hi;
	const double *raw; /* single runs; NAN: none */
	size_t raw_count;
	double parts[CHART_PARTS];
	const char *shown; /* the value in words, at the row's end */
};

/* Rows of points on one logarithmic axis: every run, the range, the median. */
void chart_dots(
	struct buf *out, const struct chart *chart, const struct chart_row *rows, size_t count);

/* Rows of stacked parts on a linear axis from zero; negative parts are not drawn. */
void chart_stacks(struct buf *out, const struct chart *chart, const char *const part_names[],
	const struct chart_row *rows, size_t count);

/* A small picture of a series' line and shape, for legends. */
void chart_swatch(struct buf *out, unsigned style);

#endif
