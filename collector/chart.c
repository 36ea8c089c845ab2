#include "collector/chart.h"

#include "collector/escape.h"
#include "common/buf.h"
#include "common/error.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* User units of the pictures, which the page scales. */
enum {
	WIDTH = 560,
	LINES_HEIGHT = 330,
	LEFT = 64,
	RIGHT = 20,
	TOP = 14,
	BOTTOM = 46,
	ROW_HEIGHT = 30,
	ROW_LEFT = 150,
	ROW_RIGHT = 86,
	TICKS_MAX = 64,
	TICK_GAP_MIN = 40,
	COLOURS = 8,
	SHAPES = 5,
};

__attribute__((format(printf, 2, 3))) static void addf(struct buf *out, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	char *text;
	if (vasprintf(&text, format, args) < 0 || buf_add_text(out, text))
		die_oom();
	va_end(args);
	free(text);
}

const char *chart_class(unsigned style)
{
	static const char *const classes[COLOURS + 1] = {
		"s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8"};
	return classes[style == CHART_STYLE_YARDSTICK ? COLOURS : style % COLOURS];
}

/* ---- axes */

struct axis {
	bool logarithmic;
	double min, max; /* of the data, padded */
	double from, to; /* of the picture */
	double ticks[TICKS_MAX];
	size_t tick_count;
};

static double place(const struct axis *axis, double value)
{
	double share = axis->logarithmic
			       ? (log(value) - log(axis->min)) / (log(axis->max) - log(axis->min))
			       : (value - axis->min) / (axis->max - axis->min);
	return axis->from + share * (axis->to - axis->from);
}

static void add_tick(struct axis *axis, double value)
{
	if (axis->tick_count < TICKS_MAX && value >= axis->min * (1 - 1e-9) - 1e-12 &&
		value <= axis->max * (1 + 1e-9) + 1e-12)
		axis->ticks[axis->tick_count++] = value;
}

static void linear_ticks(struct axis *axis)
{
	double rough = (axis->max - axis->min) / 5;
	double decade = pow(10, floor(log10(rough)));
	double step = rough <= decade       ? decade
		      : rough <= 2 * decade ? 2 * decade
		      : rough <= 5 * decade ? 5 * decade
					    : 10 * decade;
	double first = ceil(axis->min / step);
	for (int i = 0; i < TICKS_MAX && (first + i) * step <= axis->max + step / 1000; i++)
		add_tick(axis, (first + i) * step);
}

/* Decades, and 2 and 5 of each where there are few; within one decade even steps tell more. */
static void log_ticks(struct axis *axis)
{
	double decades = log10(axis->max / axis->min);
	if (decades < 0.8) {
		linear_ticks(axis);
		return;
	}
	int first = (int)floor(log10(axis->min)), last = (int)ceil(log10(axis->max));
	for (int exponent = first; exponent <= last; exponent++) {
		double decade = pow(10, exponent);
		add_tick(axis, decade);
		if (decades > 3)
			continue;
		add_tick(axis, 2 * decade);
		add_tick(axis, 5 * decade);
	}
}

static struct axis make_axis(bool logarithmic, double min, double max, double from, double to)
{
	struct axis axis = {.logarithmic = logarithmic, .from = from, .to = to};
	if (logarithmic) {
		double pad = max > min ? pow(max / min, 0.06) : 2;
		axis.min = min / pad;
		axis.max = max * pad;
		log_ticks(&axis);
	} else {
		double pad = max > min ? (max - min) * 0.06 : 1;
		axis.min = min < 0 ? min - pad : 0;
		axis.max = max + pad;
		linear_ticks(&axis);
	}
	return axis;
}

struct extent {
	double min, max;
	bool any;
};

static void extend(struct extent *extent, double value)
{
	if (isnan(value))
		return;
	extent->min = !extent->any || value < extent->min ? value : extent->min;
	extent->max = !extent->any || value > extent->max ? value : extent->max;
	extent->any = true;
}

/* ---- marks */

static void open_svg(struct buf *out, const struct chart *chart, double height)
{
	addf(out, "<svg class=\"chart\" viewBox=\"0 0 %d %g\" role=\"img\" aria-label=\"", WIDTH,
		height);
	escape_html(out, chart->title);
	addf(out, "\">\n");
}

static void add_text(struct buf *out, double x, double y, const char *anchor, const char *class,
	const char *text)
{
	addf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" class=\"%s\">", x, y, anchor,
		class);
	escape_html(out, text);
	addf(out, "</text>\n");
}

static void add_tip(struct buf *out, const char *tip)
{
	if (!tip)
		return;
	addf(out, "<title>");
	escape_html(out, tip);
	addf(out, "</title>");
}

/* Circle, square, triangle, diamond, triangle pointing down; in turn by style. */
static void add_mark(struct buf *out, unsigned style, double x, double y, const char *tip)
{
	static const char *const shapes[SHAPES] = {
		"M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
		"M-3.6 -3.6h7.2v7.2h-7.2z",
		"M0 -4.8l4.6 8h-9.2z",
		"M0 -5l5 5l-5 5l-5 -5z",
		"M0 4.8l4.6 -8h-9.2z",
	};
	/* Styles of one colour must not share a shape: eight colours on, it is another. */
	addf(out, "<path class=\"mark %s\" d=\"%s\" transform=\"translate(%.1f %.1f)\">",
		chart_class(style), shapes[(style + style / COLOURS) % SHAPES], x, y);
	add_tip(out, tip);
	addf(out, "</path>\n");
}

void chart_swatch(struct buf *out, unsigned style)
{
	addf(out,
		"<svg class=\"swatch\" viewBox=\"0 0 26 12\" aria-hidden=\"true\">"
		"<path class=\"line %s\" d=\"M1 6H25\"/>",
		chart_class(style));
	add_mark(out, style, 13, 6, NULL);
	addf(out, "</svg>");
}

static void add_y_axis(struct buf *out, const struct axis *y, const char *title)
{
	for (size_t i = 0; i < y->tick_count; i++) {
		double at = place(y, y->ticks[i]);
		char label[32];
		snprintf(label, sizeof label, "%.10g", y->ticks[i]);
		addf(out, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>\n", LEFT, at, WIDTH - RIGHT);
		add_text(out, LEFT - 8, at + 4, "end", "tick", label);
	}
	addf(out,
		"<text class=\"axis\" text-anchor=\"middle\" transform=\"translate(14 %.1f) "
		"rotate(-90)\">",
		(y->from + y->to) / 2);
	escape_html(out, title);
	addf(out, "</text>\n");
}

/* ---- lines over sessions */

static int by_value(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;
	return (a > b) - (a < b);
}

/* Ticks at the numbers of sessions that were measured, where there is room for them. */
static void session_ticks(struct axis *x, const struct chart_series *series, size_t count)
{
	double all[TICKS_MAX];
	size_t filled = 0;
	for (size_t s = 0; s < count; s++) {
		for (size_t i = 0; i < series[s].count && filled < TICKS_MAX; i++) {
			size_t k = 0;
			while (k < filled && all[k] != series[s].points[i].x)
				k++;
			if (k == filled)
				all[filled++] = series[s].points[i].x;
		}
	}
	qsort(all, filled, sizeof *all, by_value);
	x->tick_count = 0;
	double last = -INFINITY;
	for (size_t i = 0; i < filled; i++) {
		if (place(x, all[i]) - last < TICK_GAP_MIN)
			continue;
		last = place(x, all[i]);
		x->ticks[x->tick_count++] = all[i];
	}
}

static void add_x_axis(struct buf *out, const struct axis *x, double base, const char *title)
{
	for (size_t i = 0; i < x->tick_count; i++) {
		char label[32];
		snprintf(label, sizeof label, "%.10g", x->ticks[i]);
		addf(out, "<path class=\"grid\" d=\"M%.1f %dV%.1f\"/>\n", place(x, x->ticks[i]),
			TOP, base);
		add_text(out, place(x, x->ticks[i]), base + 18, "middle", "tick", label);
	}
	add_text(out, (x->from + x->to) / 2, base + 38, "middle", "axis", title);
}

static void add_band(struct buf *out, const struct chart_series *series, const struct axis *x,
	const struct axis *y)
{
	size_t ranged = 0;
	for (size_t i = 0; i < series->count; i++)
		ranged += series->points[i].ranged;
	if (!ranged)
		return;
	addf(out, "<path class=\"band %s\" d=\"", chart_class(series->style));
	const char *command = "M";
	for (size_t i = 0; i < series->count; i++) {
		const struct chart_point *point = &series->points[i];
		if (!point->ranged)
			continue;
		addf(out, "%s%.1f %.1f", command, place(x, point->x), place(y, point->lo));
		command = "L";
	}
	for (size_t i = series->count; i-- > 0;) {
		const struct chart_point *point = &series->points[i];
		if (point->ranged)
			addf(out, "L%.1f %.1f", place(x, point->x), place(y, point->hi));
	}
	addf(out, "z\"/>\n");
}

static void add_range(struct buf *out, unsigned style, double x, double lo, double hi)
{
	addf(out, "<path class=\"range %s\" d=\"M%.1f %.1fV%.1f\"/>\n", chart_class(style), x, lo,
		hi);
}

static void add_line(struct buf *out, const struct chart *chart, const struct chart_series *series,
	const struct axis *x, const struct axis *y)
{
	addf(out, "<path class=\"line %s\" d=\"", chart_class(series->style));
	for (size_t i = 0; i < series->count; i++)
		addf(out, "%s%.1f %.1f", i ? "L" : "M", place(x, series->points[i].x),
			place(y, series->points[i].y));
	addf(out, "\"/>\n");
	for (size_t i = 0; i < series->count; i++) {
		const struct chart_point *point = &series->points[i];
		if (point->ranged && !chart->band)
			add_range(out, series->style, place(x, point->x), place(y, point->lo),
				place(y, point->hi));
		add_mark(out, series->style, place(x, point->x), place(y, point->y), point->tip);
	}
}

void chart_lines(
	struct buf *out, const struct chart *chart, const struct chart_series *series, size_t count)
{
	struct extent across = {0, 0, false}, up = {0, 0, false};
	for (size_t s = 0; s < count; s++) {
		for (size_t i = 0; i < series[s].count; i++) {
			const struct chart_point *point = &series[s].points[i];
			extend(&across, point->x);
			extend(&up, point->y);
			extend(&up, point->ranged ? point->lo : NAN);
			extend(&up, point->ranged ? point->hi : NAN);
		}
	}
	if (!across.any)
		return;
	double base = LINES_HEIGHT - BOTTOM;
	struct axis x = make_axis(true, across.min, across.max, LEFT, WIDTH - RIGHT);
	struct axis y = make_axis(up.min > 0, up.min, up.max, base, TOP);
	session_ticks(&x, series, count);
	open_svg(out, chart, LINES_HEIGHT);
	add_y_axis(out, &y, chart->y_title);
	add_x_axis(out, &x, base, chart->x_title);
	for (size_t s = 0; chart->band && s < count; s++)
		add_band(out, &series[s], &x, &y);
	for (size_t s = 0; s < count; s++)
		add_line(out, chart, &series[s], &x, &y);
	addf(out, "</svg>\n");
}

/* ---- rows */

static double row_middle(size_t i)
{
	return TOP + ROW_HEIGHT * ((double)i + 0.5);
}

static void add_row_axis(struct buf *out, const struct axis *x, size_t count, const char *title)
{
	double base = TOP + ROW_HEIGHT * (double)count;
	double last = -INFINITY;
	for (size_t i = 0; i < x->tick_count; i++) {
		double at = place(x, x->ticks[i]);
		char label[32];
		snprintf(label, sizeof label, "%.10g", x->ticks[i]);
		addf(out, "<path class=\"grid\" d=\"M%.1f %dV%.1f\"/>\n", at, TOP, base);
		if (at - last < TICK_GAP_MIN)
			continue;
		last = at;
		add_text(out, at, base + 17, "middle", "tick", label);
	}
	add_text(out, (x->from + x->to) / 2, base + 36, "middle", "axis", title);
}

/* The name in front, cut to its room; the value behind. */
static void add_row_texts(struct buf *out, const struct chart_row *row, size_t i)
{
	enum { NAME_CHARACTERS = 16 };
	char name[4 * NAME_CHARACTERS + 8];
	size_t length = 0, characters = 0;
	while (row->name[length] && length < 4 * NAME_CHARACTERS) {
		characters += ((unsigned char)row->name[length] & 0xc0) != 0x80;
		if (characters > NAME_CHARACTERS)
			break;
		length++;
	}
	snprintf(name, sizeof name, "%.*s%s", (int)length, row->name, row->name[length] ? "…" : "");
	add_text(out, ROW_LEFT - 10, row_middle(i) + 4, "end", "label", name);
	add_text(out, WIDTH - 4, row_middle(i) + 4, "end", "value", row->shown);
}

void chart_dots(
	struct buf *out, const struct chart *chart, const struct chart_row *rows, size_t count)
{
	struct extent across = {0, 0, false};
	for (size_t i = 0; i < count; i++) {
		extend(&across, rows[i].value);
		for (size_t k = 0; k < rows[i].raw_count; k++)
			extend(&across, rows[i].raw[k]);
	}
	if (!across.any)
		return;
	struct axis x =
		make_axis(across.min > 0, across.min, across.max, ROW_LEFT, WIDTH - ROW_RIGHT);
	open_svg(out, chart, TOP + ROW_HEIGHT * (double)count + BOTTOM);
	add_row_axis(out, &x, count, chart->x_title);
	for (size_t i = 0; i < count; i++) {
		double y = row_middle(i);
		for (size_t k = 0; k < rows[i].raw_count; k++) {
			if (!isnan(rows[i].raw[k]))
				addf(out,
					"<circle class=\"raw %s\" cx=\"%.1f\" cy=\"%.1f\" "
					"r=\"3\"/>\n",
					chart_class(rows[i].style), place(&x, rows[i].raw[k]), y);
		}
		if (rows[i].ranged)
			addf(out, "<path class=\"range %s\" d=\"M%.1f %.1fH%.1f\"/>\n",
				chart_class(rows[i].style), place(&x, rows[i].lo), y,
				place(&x, rows[i].hi));
		add_mark(out, rows[i].style, place(&x, rows[i].value), y, rows[i].shown);
		add_row_texts(out, &rows[i], i);
	}
	addf(out, "</svg>\n");
}

void chart_stacks(struct buf *out, const struct chart *chart, const char *const part_names[],
	const struct chart_row *rows, size_t count)
{
	double most = 0;
	for (size_t i = 0; i < count; i++) {
		double sum = 0;
		for (size_t k = 0; k < CHART_PARTS; k++)
			sum += rows[i].parts[k] > 0 ? rows[i].parts[k] : 0;
		most = sum > most ? sum : most;
	}
	if (most <= 0)
		return;
	struct axis x = make_axis(false, 0, most, ROW_LEFT, WIDTH - ROW_RIGHT);
	open_svg(out, chart, TOP + ROW_HEIGHT * (double)count + BOTTOM);
	add_row_axis(out, &x, count, chart->x_title);
	for (size_t i = 0; i < count; i++) {
		double at = 0;
		for (size_t k = 0; k < CHART_PARTS; k++) {
			if (!(rows[i].parts[k] > 0))
				continue;
			double from = place(&x, at), to = place(&x, at + rows[i].parts[k]);
			addf(out,
				"<rect class=\"p%zu\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" "
				"height=\"%d\"><title>",
				k, from, row_middle(i) - 9, to - from, 18);
			escape_html(out, rows[i].name);
			addf(out, ": %s %.3g</title></rect>\n", part_names[k], rows[i].parts[k]);
			at += rows[i].parts[k];
		}
		add_row_texts(out, &rows[i], i);
	}
	addf(out, "</svg>\n");
}
