#include "collector/chart.h"

#include "common/buf.h"

#include <ctype.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const struct chart chart = {"a <title>", "sessions", "ms", false};

/* Every number in the attributes of the picture that are places lies within it. */
static void assert_inside(const char *svg, double width, double height)
{
	static const struct {
		const char *open;
		bool across;
	} places[] = {{" x=\"", true}, {" y=\"", false}, {" cx=\"", true}, {" cy=\"", false},
		{"translate(", true}};
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		for (const char *at = svg; (at = strstr(at, places[i].open)) != NULL;) {
			at += strlen(places[i].open);
			double value = strtod(at, NULL);
			assert_true(value >= 0 && value <= (places[i].across ? width : height));
		}
	}
	assert_null(strstr(svg, "nan"));
	assert_null(strstr(svg, "inf"));
}

static char *lines(const struct chart *of, struct chart_point *points, size_t count)
{
	struct buf out;
	buf_init(&out, 1 << 20);
	const struct chart_series series[] = {{"a", 0, points, count}, {"none", 1, NULL, 0}};
	chart_lines(&out, of, series, 2);
	return out.data;
}

static size_t occurrences(const char *text, const char *what)
{
	size_t count = 0;
	for (; (text = strstr(text, what)) != NULL; text += strlen(what))
		count++;
	return count;
}

static void lines_of_any_values_stay_inside(void **state)
{
	(void)state;
	static const struct {
		double y[3];
		bool logarithmic;
	} rows[] = {
		{{1, 10, 100}, true},
		{{5, 5, 5}, true},
		{{0.001, 2000, 1e9}, true},
		{{-1, 2, 3}, false},
		{{0, 0, 0}, false},
		{{1e-9, 1e-9, 1e18}, true},
		{{-1e18, 0, 1e18}, false},
		{{2, 2.1, 2.2}, true},
		{{-5, -5, -5}, false},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct chart_point points[] = {{.x = 1, .y = rows[i].y[0]},
			{.x = 100, .y = rows[i].y[1]}, {.x = 10000, .y = rows[i].y[2]}};
		char *svg = lines(&chart, points, 3);
		assert_non_null(svg);
		assert_inside(svg, 560, 330);
		assert_int_equal(occurrences(svg, "class=\"mark s0\""), 3);
		assert_non_null(strstr(svg, ">100</text>")); /* a tick at what was measured */
		assert_non_null(strstr(svg, "a &lt;title&gt;"));
		free(svg);
	}
	struct chart_point one[] = {{.x = 7, .y = 3, .tip = (char[]){"<tip>"}}};
	char *svg = lines(&chart, one, 1);
	assert_inside(svg, 560, 330);
	assert_non_null(strstr(svg, "<title>&lt;tip&gt;</title>"));
	free(svg);
	assert_null(lines(&chart, NULL, 0));
}

static void ranges_are_bars_or_bands(void **state)
{
	(void)state;
	struct chart_point points[] = {{.x = 1, .y = 2, .ranged = true, .lo = 1, .hi = 3},
		{.x = 10, .y = 4}, {.x = 100, .y = 8, .ranged = true, .lo = 6, .hi = 90}};
	char *bars = lines(&chart, points, 3);
	assert_int_equal(occurrences(bars, "class=\"range s0\""), 2);
	assert_int_equal(occurrences(bars, "class=\"band"), 0);
	assert_inside(bars, 560, 330);
	free(bars);
	const struct chart banded = {"t", "x", "y", true};
	char *band = lines(&banded, points, 3);
	assert_int_equal(occurrences(band, "class=\"range"), 0);
	assert_int_equal(occurrences(band, "class=\"band s0\""), 1);
	assert_inside(band, 560, 330);
	free(band);
}

static void higher_values_stand_higher(void **state)
{
	(void)state;
	struct chart_point points[] = {{.x = 1, .y = 1}, {.x = 10, .y = 2}, {.x = 100, .y = 4}};
	char *svg = lines(&chart, points, 3);
	double last_x = -1, last_y = 1e9;
	double y[3];
	size_t i = 0;
	for (const char *at = svg; (at = strstr(at, "translate(")) != NULL && i < 4; i++) {
		at += strlen("translate(");
		if (i == 0)
			continue; /* the axis's title */
		char *end;
		double x = strtod(at, &end);
		y[i - 1] = strtod(end, NULL);
		assert_true(x > last_x && y[i - 1] < last_y);
		last_x = x;
		last_y = y[i - 1];
	}
	assert_int_equal(i, 4);
	/* on a logarithmic axis doublings are of one height (a tenth of a unit is rounding) */
	assert_true(fabs((y[0] - y[1]) - (y[1] - y[2])) < 0.21);
	free(svg);
}

static void rows_of_points_and_of_parts(void **state)
{
	(void)state;
	const double raw[] = {0.5, NAN, 80};
	const struct chart_row rows[] = {
		{.name = "c",
			.style = 0,
			.value = 0.6,
			.ranged = true,
			.lo = 0.5,
			.hi = 80,
			.raw = raw,
			.raw_count = 3,
			.shown = "0.600 ms",
			.parts = {1, 0, 0.5, 2, -3, 0.25}},
		{.name = "a name that is much too long for it",
			.style = 9,
			.value = 12,
			.shown = "12 ms",
			.parts = {0}},
	};
	struct buf out;
	buf_init(&out, 1 << 20);
	chart_dots(&out, &chart, rows, 2);
	assert_inside(out.data, 560, 200);
	assert_int_equal(occurrences(out.data, "<circle"), 2);
	assert_int_equal(occurrences(out.data, "class=\"mark"), 2);
	assert_int_equal(occurrences(out.data, "class=\"range"), 1);
	assert_non_null(strstr(out.data, "a name that is m…"));
	buf_clear(&out);

	static const char *const parts[CHART_PARTS] = {"p0", "p1", "p2", "p3", "p4", "p5"};
	chart_stacks(&out, &chart, parts, rows, 2);
	assert_inside(out.data, 560, 200);
	assert_int_equal(occurrences(out.data, "<rect"), 4); /* neither zero nor negative */
	/* parts follow one another: each begins where the one before ended */
	double ends = -1;
	for (const char *at = out.data; (at = strstr(at, "<rect")) != NULL; at++) {
		double x = strtod(strstr(at, " x=\"") + 4, NULL);
		double width = strtod(strstr(at, "width=\"") + 7, NULL);
		assert_true(ends < 0 || fabs(x - ends) < 0.02);
		ends = x + width;
	}
	buf_clear(&out);
	chart_stacks(&out, &chart, parts, &rows[1], 1);
	chart_dots(&out, &chart, NULL, 0);
	assert_int_equal(out.length, 0);
	buf_release(&out);
}

static void styles_tell_series_apart(void **state)
{
	(void)state;
	/* no two of forty have the same colour and shape */
	char *seen[CHART_STYLES];
	for (unsigned style = 0; style < CHART_STYLES; style++) {
		struct buf out;
		buf_init(&out, 10000);
		chart_swatch(&out, style);
		seen[style] = out.data;
		for (unsigned other = 0; other < style; other++)
			assert_string_not_equal(seen[other], seen[style]);
	}
	for (unsigned style = 0; style < CHART_STYLES; style++) {
		free(seen[style]);
		assert_string_not_equal(chart_class(style), chart_class(CHART_STYLE_YARDSTICK));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_of_any_values_stay_inside),
		cmocka_unit_test(ranges_are_bars_or_bands),
		cmocka_unit_test(higher_values_stand_higher),
		cmocka_unit_test(rows_of_points_and_of_parts),
		cmocka_unit_test(styles_tell_series_apart),
	};
	return cmocka_run_group_tests_name("chart", tests, NULL, NULL);
}
