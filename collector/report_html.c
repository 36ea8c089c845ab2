/* report.html: the template with its {{places}} filled from a summary. */
#include "collector/report.h"

#include "collector/cells.h"
#include "collector/chart.h"
#include "collector/escape.h"
#include "collector/summary_view.h"
#include "collector/table.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/error.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The template is part of the program; the path is the repository's, where the build runs. */
__asm__(".pushsection .rodata\n"
	"report_template_begin:\n"
	".incbin \"collector/report_template.html\"\n"
	".byte 0\n"
	".popsection\n");
extern const char report_template_begin[];

enum { NAME_MAX_BYTES = 64, ROWS_MAX = 256, TABLE_MAX = 1 << 26 };

struct page {
	const json_t *summary;
	struct buf *out;
};

static void add(const struct page *page, const char *html)
{
	if (buf_add_text(page->out, html))
		die_oom();
}

/* Outside text. */
static void add_text(const struct page *page, const char *text)
{
	escape_html(page->out, text);
}

__attribute__((format(printf, 2, 3))) static void addf(
	const struct page *page, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	char *text;
	if (vasprintf(&text, format, args) < 0)
		die_oom();
	va_end(args);
	add(page, text);
	free(text);
}

/* The colour and shape of a contender: its place in the plan, the yardstick always grey. */
static unsigned style_of(const struct page *page, const char *contender)
{
	if (!strcmp(contender, CELL_YARDSTICK))
		return CHART_STYLE_YARDSTICK;
	const json_t *list = json_object_get(json_object_get(page->summary, "plan"), "contenders");
	size_t place = 0, i;
	const json_t *item;
	json_array_foreach(list, i, item)
	{
		if (!strcmp(view_text(item, "name"), contender))
			break;
		place += strcmp(view_text(item, "name"), CELL_YARDSTICK) != 0;
	}
	return (unsigned)(place % CHART_STYLES);
}

/* ---- the cells of a setting */

/* In the summary's order: by sessions, then by contender. `sessions` 0: all. */
static size_t cells_of(
	const struct page *page, size_t setting, int64_t sessions, const json_t **out, size_t max)
{
	size_t count = 0, i;
	const json_t *cell;
	json_array_foreach(json_object_get(page->summary, "cells"), i, cell)
	{
		if (view_integer(cell, "setting") == (int64_t)setting && count < max &&
			(!sessions || view_integer(cell, "sessions") == sessions))
			out[count++] = cell;
	}
	return count;
}

/* The different numbers of sessions of a setting, from the lowest. */
static size_t session_counts(const struct page *page, size_t setting, int64_t *out, size_t max)
{
	size_t count = 0, i;
	const json_t *cell;
	json_array_foreach(json_object_get(page->summary, "cells"), i, cell)
	{
		int64_t sessions = view_integer(cell, "sessions");
		if (view_integer(cell, "setting") == (int64_t)setting && count < max &&
			(!count || out[count - 1] != sessions))
			out[count++] = sessions;
	}
	return count;
}

static double shown_value(const struct view_figure *figure, double value)
{
	return value / shown_unit(figure->unit)->size;
}

/* ---- tables */

static void open_table(
	const struct page *page, const char *const titles[], const bool right[], size_t columns)
{
	add(page, "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr>");
	for (size_t i = 0; i < columns; i++)
		addf(page, "<th scope=\"col\"%s>%s</th>", right[i] ? " class=\"n\"" : "",
			titles[i]);
	add(page, "</tr></thead><tbody>\n");
}

static void close_table(const struct page *page)
{
	add(page, "</tbody></table></div>\n");
}

/* Takes `text`, which is malloc'ed; NULL is shown as a dash. */
static void add_cell(const struct page *page, const char *class, char *text)
{
	addf(page, "<td%s%s%s>", *class ? " class=\"" : "", class, *class ? "\"" : "");
	add_text(page, text ? text : "–");
	add(page, "</td>");
	free(text);
}

/* The numbers behind a chart: a row a cell, columns for each key. */
static void numbers_table(const struct page *page, size_t setting, const char *const keys[],
	const char *const titles[], size_t count)
{
	add(page,
		"<details><summary>Table</summary>\n<div class=\"scroll\" tabindex=\"0\"><table>"
		"<thead><tr><th scope=\"col\">contender</th><th scope=\"col\" class=\"n\">sessions"
		"</th>");
	for (size_t i = 0; i < count; i++)
		addf(page,
			"<th scope=\"col\" class=\"n\">%s</th><th scope=\"col\" "
			"class=\"n\">interval"
			"</th><th scope=\"col\" class=\"n\">× best</th>",
			titles[i]);
	add(page, "<th scope=\"col\" class=\"n\">runs</th></tr></thead><tbody>\n");
	size_t i;
	const json_t *cell;
	json_array_foreach(json_object_get(page->summary, "cells"), i, cell)
	{
		if (view_integer(cell, "setting") != (int64_t)setting)
			continue;
		add(page, "<tr>");
		add_cell(page, "", xstrdup(view_text(cell, "contender")));
		add_cell(page, "n", xasprintf("%" PRId64, view_integer(cell, "sessions")));
		for (size_t k = 0; k < count; k++) {
			struct view_figure figure = view_figure(cell, keys[k]);
			bool pooled = strstr(keys[k], ".p99") != NULL;
			add_cell(page, "n", view_shown(&figure, pooled));
			add_cell(page, "n", view_shown_interval(&figure));
			add_cell(page, "n", view_times_best(page->summary, cell, keys[k]));
		}
		add_cell(page, "n",
			xasprintf("%" PRId64 "/%" PRId64, view_integer(cell, "completed"),
				view_integer(cell, "attempted")));
		add(page, "</tr>\n");
	}
	add(page, "</tbody></table></div></details>\n");
}

/* ---- at a glance */

/* One figure, ranked on a card. */
struct card {
	const char *key, *title, *explained;
	int64_t sessions;
	bool pooled;           /* ranked by the pooled samples: a high percentile */
	bool sessions_per_gib; /* shown in small beside the name */
};

struct ranked {
	const json_t *cell;
	struct view_figure figure;
	bool known;
	double value;
};

static int by_rank(const void *left, const void *right)
{
	const struct ranked *a = left, *b = right;
	if (a->known != b->known)
		return a->known ? -1 : 1;
	return a->known ? (a->value > b->value) - (a->value < b->value) : 0;
}

/* The cells of a card, best first; those without the figure last. */
static size_t rank(
	const struct page *page, size_t setting, const struct card *card, struct ranked *out)
{
	const json_t *cells[ROWS_MAX];
	size_t count = cells_of(page, setting, card->sessions, cells, ROWS_MAX);
	for (size_t i = 0; i < count; i++) {
		struct view_figure figure = view_figure(cells[i], card->key);
		out[i] = (struct ranked){cells[i], figure,
			card->pooled ? figure.pooled_known : figure.known,
			card->pooled ? figure.pooled : figure.median};
	}
	qsort(out, count, sizeof *out, by_rank);
	return count;
}

static bool is_yardstick(const json_t *cell)
{
	return !strcmp(view_text(cell, "contender"), CELL_YARDSTICK);
}

static bool failed(const json_t *cell)
{
	return view_integer(cell, "completed") != view_integer(cell, "attempted");
}

/* "×1.23 [1.20, 1.27]" against the best; nothing where runs are too short for it. */
static void add_times(const struct page *page, const struct ranked *ranked, const char *key)
{
	if (is_yardstick(ranked->cell)) {
		add(page, "<dd class=\"times\">yardstick</dd>");
		return;
	}
	bool best = view_is_best(page->summary, ranked->cell, key);
	auto_free char *times = view_times_best(page->summary, ranked->cell, key);
	struct view_figure ratio =
		view_ratio_interval(view_ratio(page->summary, ranked->cell, key, "best"));
	auto_free char *interval = view_shown_interval(&ratio);
	addf(page, "<dd class=\"times%s\">%s%s%s</dd>", best ? " best" : "", times ? times : "",
		interval ? " " : "", interval ? interval : "");
}

/* How the runs of a cell ended, of those that did not end well: "3 of 6 runs: oom, wrong". */
static char *failed_words(const json_t *cell)
{
	int64_t attempted = view_integer(cell, "attempted");
	if (!attempted)
		return xstrdup("no valid run");
	struct buf out;
	buf_init(&out, 1 << 16);
	buf_addf(&out,
		"%" PRId64 " of %" PRId64 " runs:", attempted - view_integer(cell, "completed"),
		attempted);
	const char *name;
	json_t *count;
	bool first = true;
	json_object_foreach(json_object_get(cell, "outcomes"), name, count)
	{
		if (!strcmp(name, "ok"))
			continue;
		buf_addf(&out, "%s %s", first ? "" : ",", name);
		first = false;
	}
	return out.data;
}

static void add_name(const struct page *page, const struct ranked *ranked, bool sessions_per_gib)
{
	const char *name = view_text(ranked->cell, "contender");
	add(page, "<dt title=\"");
	add_text(page, name);
	add(page, "\">");
	add_text(page, view_title(page->summary, name));
	struct view_figure more = view_figure(ranked->cell, "sessions_per_gib");
	if (sessions_per_gib && more.known)
		addf(page, " <small>%s%.0f sessions/GiB</small>",
			ranked->figure.at_least ? "at most " : "", more.median);
	add(page, "</dt>");
}

static void add_ranked(
	const struct page *page, const struct card *card, const struct ranked *ranked, double most)
{
	add(page, "<div>");
	add_name(page, ranked, card->sessions_per_gib);
	if (!ranked->known) {
		auto_free char *words = failed(ranked->cell) || !*ranked->figure.missing
						? failed_words(ranked->cell)
						: xstrdup(ranked->figure.missing);
		addf(page, "<dd class=\"none%s\">", failed(ranked->cell) ? " bad" : "");
		add_text(page, words);
		add(page, "</dd></div>\n");
		return;
	}
	auto_free char *shown = view_shown(&ranked->figure, card->pooled);
	addf(page, "<dd class=\"number\">%s %s</dd>", shown,
		shown_unit(ranked->figure.unit)->shown);
	add_times(page, ranked, card->key);
	double share = most > 0 && ranked->value > 0 ? 100 * ranked->value / most : 0;
	addf(page,
		"<dd class=\"bar\"><svg class=\"%s\" viewBox=\"0 0 100 5\" "
		"preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect class=\"fill\" "
		"width=\"%.2f\" height=\"5\"/></svg></dd></div>\n",
		chart_class(style_of(page, view_text(ranked->cell, "contender"))),
		share < 0.4 ? 0.4 : share);
}

/* A card that would say nothing of anybody is left out. */
static void add_card(const struct page *page, size_t setting, const struct card *card)
{
	struct ranked ranked[ROWS_MAX];
	size_t count = rank(page, setting, card, ranked);
	if (!count || !ranked[0].known)
		return;
	double most = 0;
	for (size_t i = 0; i < count && ranked[i].known; i++)
		most = ranked[i].value;
	addf(page, "<section class=\"card\"><h3>%s</h3><p>%s</p><dl class=\"rank\">\n", card->title,
		card->explained);
	for (size_t i = 0; i < count; i++)
		add_ranked(page, card, &ranked[i], most);
	add(page, "</dl></section>\n");
}

static void cards(const struct page *page, size_t setting, int64_t sessions)
{
	bool overhead = !strcmp(view_headline(page->summary, setting), "overhead_ms");
	const struct card all[] = {
		{overhead ? "overhead_ms.p50" : "turn_gap_ms.p50",
			overhead ? "Overhead per turn, median" : "Turn gap, median",
			overhead ? "what the agent adds between a response's end and its next "
				   "request, "
				   "beyond what its tools need"
				 : "from a response's end to the next request, tools included",
			sessions, false, false},
		{view_memory_key(page->summary, setting), "Memory peak",
			"highest memory of the run's cgroup, tools included", sessions, false,
			true},
		{overhead ? "overhead_ms.p99" : "turn_gap_ms.p99",
			overhead ? "Overhead per turn, 99th percentile"
				 : "Turn gap, 99th percentile",
			"of all turns together: one in a hundred takes longer", sessions, true,
			false},
		{"cpu_usec_per_turn", "CPU per turn",
			"CPU time of the run's cgroup after startup, tools included", sessions,
			false, false},
		{"startup_ms", "Startup", "from just before exec to the first request, one session",
			1, false, false},
	};
	add(page, "<div class=\"cards\">\n");
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		add_card(page, setting, &all[i]);
	add(page, "</div>\n");
}

/* The contender next to the best if its ratio to the best may be 1; NULL where the runs tell them
 * apart. */
static const char *not_told_apart(const struct page *page, const struct ranked *ranked,
	size_t count, size_t best, const char *key)
{
	for (size_t i = best + 1; i < count && ranked[i].known; i++) {
		if (is_yardstick(ranked[i].cell))
			continue;
		struct view_figure ratio =
			view_ratio_interval(view_ratio(page->summary, ranked[i].cell, key, "best"));
		return ratio.known && ratio.lo > 1
			       ? NULL
			       : view_title(page->summary, view_text(ranked[i].cell, "contender"));
	}
	return NULL;
}

/* What somebody would tell who looked for ten seconds. */
static void lead(const struct page *page, size_t setting, int64_t sessions)
{
	bool overhead = !strcmp(view_headline(page->summary, setting), "overhead_ms");
	const struct {
		struct card card;
		const char *words;
	} rows[] = {
		{{view_memory_key(page->summary, setting), "", "", sessions, false, false},
			"needs the least memory"},
		{{overhead ? "overhead_ms.p50" : "turn_gap_ms.p50", "", "", sessions, false, false},
			overhead ? "adds the least to a turn"
				 : "has the shortest gap between turns"},
		{{"cpu_usec_per_turn", "", "", sessions, false, false},
			"needs the least CPU a turn"},
	};
	addf(page, "<p class=\"lead\">At %" PRId64 " concurrent session%s", sessions,
		sessions == 1 ? "" : "s");
	const char *last = NULL;
	for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
		struct ranked ranked[ROWS_MAX];
		size_t count = rank(page, setting, &rows[r].card, ranked), i = 0;
		while (i < count && ranked[i].known && is_yardstick(ranked[i].cell))
			i++;
		if (i == count || !ranked[i].known)
			continue;
		const char *name = view_text(ranked[i].cell, "contender");
		add(page, last ? ", " : " ");
		if (!last || strcmp(last, name)) {
			add(page, "<strong>");
			add_text(page, view_title(page->summary, name));
			add(page, "</strong> ");
		}
		auto_free char *shown = view_shown(&ranked[i].figure, false);
		addf(page, "%s (%s %s", rows[r].words, shown,
			shown_unit(ranked[i].figure.unit)->shown);
		const char *other = not_told_apart(page, ranked, count, i, rows[r].card.key);
		if (other) {
			add(page, "; these runs do not tell it from ");
			add_text(page, other);
		}
		add(page, ")");
		last = name;
	}
	add(page, last ? ".</p>\n" : " no contender has figures.</p>\n");
}

static void glance(const struct page *page, size_t setting)
{
	int64_t counts[ROWS_MAX];
	size_t count = session_counts(page, setting, counts, ROWS_MAX);
	if (!count)
		return;
	lead(page, setting, counts[count - 1]);
	cards(page, setting, counts[count - 1]);
	for (size_t i = count - 1; i-- > 0;) {
		addf(page, "<details><summary>At %" PRId64 " session%s</summary>\n", counts[i],
			counts[i] == 1 ? "" : "s");
		cards(page, setting, counts[i]);
		add(page, "</details>\n");
	}
}

/* ---- charts */

/* Contenders of a setting in the order of the summary, each once. */
static size_t contenders_of(const struct page *page, size_t setting, const char **out, size_t max)
{
	size_t count = 0, i;
	const json_t *cell;
	json_array_foreach(json_object_get(page->summary, "cells"), i, cell)
	{
		const char *name = view_text(cell, "contender");
		size_t k = 0;
		while (k < count && strcmp(out[k], name))
			k++;
		if (view_integer(cell, "setting") == (int64_t)setting && k == count && count < max)
			out[count++] = name;
	}
	return count;
}

static void legend(const struct page *page, const struct chart_series *series, size_t count)
{
	add(page, "<ul class=\"legend\">");
	for (size_t i = 0; i < count; i++) {
		if (!series[i].count)
			continue;
		add(page, "<li>");
		chart_swatch(page->out, series[i].style);
		add_text(page, view_title(page->summary, series[i].name));
		add(page, "</li>");
	}
	add(page, "</ul>\n");
}

/*
 * The points of one contender: medians of `key`; ranges to the pooled p99 of `top_key`, or the
 * interval where that is NULL. free() the points.
 */
static struct chart_series series_of(const struct page *page, size_t setting, const char *contender,
	const char *key, const char *top_key)
{
	struct chart_series out = {contender, style_of(page, contender), NULL, 0};
	size_t i;
	const json_t *cell;
	json_array_foreach(json_object_get(page->summary, "cells"), i, cell)
	{
		struct view_figure figure = view_figure(cell, key);
		if (view_integer(cell, "setting") != (int64_t)setting || !figure.known ||
			strcmp(view_text(cell, "contender"), contender))
			continue;
		struct chart_point point = {.x = (double)view_integer(cell, "sessions"),
			.y = shown_value(&figure, figure.median)};
		auto_free char *shown = view_shown(&figure, false);
		auto_free char *more = NULL;
		if (top_key) {
			struct view_figure top = view_figure(cell, top_key);
			point.ranged = top.pooled_known;
			point.lo = point.y;
			point.hi = shown_value(&top, top.pooled);
			auto_free char *p99 = view_shown(&top, true);
			more = p99 ? xasprintf(", p99 %s", p99) : xstrdup("");
		} else {
			point.ranged = figure.n > 1;
			point.lo = shown_value(&figure, figure.lo);
			point.hi = shown_value(&figure, figure.hi);
			auto_free char *interval = view_shown_interval(&figure);
			more = xasprintf(" %s", interval ? interval : "");
		}
		point.tip = xasprintf("%s, %g sessions: %s %s%s", contender, point.x, shown,
			shown_unit(figure.unit)->shown, more);
		out.points = xrealloc(out.points, (out.count + 1) * sizeof *out.points);
		out.points[out.count++] = point;
	}
	return out;
}

/* A line that just stops would hide who failed. */
static void failed_points(const struct page *page, size_t setting)
{
	const json_t *cells[ROWS_MAX];
	size_t count = cells_of(page, setting, 0, cells, ROWS_MAX), told = 0;
	for (size_t i = 0; i < count; i++) {
		if (!failed(cells[i]) ||
			view_figure(cells[i], view_memory_key(page->summary, setting)).known)
			continue;
		auto_free char *words = failed_words(cells[i]);
		add(page, told++ ? "; " : "<p class=\"failed\">No figures: ");
		add_text(page, view_title(page->summary, view_text(cells[i], "contender")));
		addf(page, " at %" PRId64 " (", view_integer(cells[i], "sessions"));
		add_text(page, words);
		add(page, ")");
	}
	add(page, told ? "</p>\n" : "");
}

static void lines_figure(const struct page *page, size_t setting, const char *title,
	const char *explained, const char *y_title, const char *key, const char *top_key,
	const char *const titles[])
{
	const char *contenders[ROWS_MAX];
	size_t count = contenders_of(page, setting, contenders, ROWS_MAX), points = 0;
	struct chart_series series[ROWS_MAX];
	for (size_t i = 0; i < count; i++) {
		series[i] = series_of(page, setting, contenders[i], key, top_key);
		points += series[i].count;
	}
	if (points) {
		const struct chart chart = {title, "concurrent sessions", y_title, top_key != NULL};
		addf(page, "<figure><figcaption>%s<small>%s</small></figcaption>\n", title,
			explained);
		legend(page, series, count);
		chart_lines(page->out, &chart, series, count);
		failed_points(page, setting);
		const char *const keys[] = {key, top_key};
		numbers_table(page, setting, keys, titles, top_key ? 2 : 1);
		add(page, "</figure>\n");
	}
	for (size_t i = 0; i < count; i++) {
		for (size_t k = 0; k < series[i].count; k++)
			free(series[i].points[k].tip);
		free(series[i].points);
	}
}

static void startup_figure(const struct page *page, size_t setting)
{
	const json_t *cells[ROWS_MAX];
	size_t count = cells_of(page, setting, 1, cells, ROWS_MAX), rows = 0;
	struct chart_row row[ROWS_MAX];
	for (size_t i = 0; i < count; i++) {
		struct view_figure figure = view_figure(cells[i], "startup_ms");
		if (!figure.known)
			continue;
		const json_t *values = json_object_get(
			json_object_get(json_object_get(cells[i], "figures"), "startup_ms"),
			"values");
		size_t runs = json_array_size(values);
		double *raw = xmalloc((runs + 1) * sizeof *raw);
		for (size_t k = 0; k < runs; k++) {
			const json_t *value = json_array_get(values, k);
			raw[k] = json_is_number(value) ? json_number_value(value) : NAN;
		}
		auto_free char *shown = view_shown(&figure, false);
		const char *name = view_text(cells[i], "contender");
		row[rows++] = (struct chart_row){.name = view_title(page->summary, name),
			.style = style_of(page, name),
			.value = figure.median,
			.ranged = figure.n > 1,
			.lo = figure.lo,
			.hi = figure.hi,
			.raw = raw,
			.raw_count = runs,
			.shown = xasprintf("%s ms", shown)};
	}
	if (rows) {
		const struct chart chart = {"Startup", "ms", "", false};
		add(page, "<figure><figcaption>Startup<small>from just before exec to the first "
			  "request "
			  "at the mock, one session; small points are single runs</small>"
			  "</figcaption>\n");
		chart_dots(page->out, &chart, row, rows);
		static const char *const keys[] = {"startup_ms"}, *const titles[] = {"startup ms"};
		numbers_table(page, setting, keys, titles, 1);
		add(page, "</figure>\n");
	}
	for (size_t i = 0; i < rows; i++) {
		free((void *)row[i].raw);
		free((void *)row[i].shown);
	}
}

static const char *const part_names[CHART_PARTS] = {
	"anonymous", "files", "tmpfs (shmem)", "kernel", "sockets", "remainder"};

/*
 * The parts at the peak, MiB. shmem is counted in file by the kernel, so it is taken out there.
 * A part that the kernel does not tell has no width; "; sockets not known" says so, malloc'ed.
 */
static char *read_parts(const json_t *at_peak, double out[CHART_PARTS])
{
	static const char *const members[CHART_PARTS] = {
		"anon", "file", "shmem", "kernel", "sock", "remainder"};
	struct buf unknown;
	buf_init(&unknown, SHOWN_MAX);
	buf_add_text(&unknown, "");
	for (size_t i = 0; i < CHART_PARTS; i++) {
		const json_t *value = json_object_get(at_peak, members[i]);
		out[i] = json_number_value(value) / 0x1p20;
		if (!json_is_number(value))
			buf_addf(&unknown, "%s%s", unknown.length ? ", " : "; ", part_names[i]);
	}
	if (unknown.length)
		buf_add_text(&unknown, " not known");
	out[1] = out[1] > out[2] ? out[1] - out[2] : 0;
	return unknown.data;
}

/* One chart for each number of sessions: a common scale would hide the small ones. */
static void parts_chart(const struct page *page, size_t setting, int64_t sessions)
{
	const json_t *cells[ROWS_MAX];
	size_t count = cells_of(page, setting, sessions, cells, ROWS_MAX), rows = 0;
	struct chart_row row[ROWS_MAX];
	for (size_t i = 0; i < count; i++) {
		const json_t *at_peak = json_object_get(cells[i], "memory_at_peak");
		if (!json_is_object(at_peak))
			continue;
		char number[SHOWN_MAX];
		show_number(
			json_number_value(json_object_get(at_peak, "memory_peak_bytes")) / 0x1p20,
			number);
		row[rows] = (struct chart_row){
			.name = view_title(page->summary, view_text(cells[i], "contender"))};
		auto_free char *unknown = read_parts(at_peak, row[rows].parts);
		row[rows++].shown = xasprintf("%s MiB%s", number, unknown);
	}
	if (rows) {
		auto_free char *title = xasprintf("Memory at the peak, %" PRId64 " session%s",
			sessions, sessions == 1 ? "" : "s");
		const struct chart chart = {title, "MiB", "", false};
		addf(page, "<div><h3>%" PRId64 " session%s</h3>\n", sessions,
			sessions == 1 ? "" : "s");
		chart_stacks(page->out, &chart, part_names, row, rows);
		add(page, "</div>\n");
	}
	for (size_t i = 0; i < rows; i++)
		free((void *)row[i].shown);
}

static void parts_table(const struct page *page, size_t setting)
{
	static const char *const titles[] = {"contender", "sessions", "run", "anonymous", "files",
		"of them tmpfs", "kernel", "sockets", "remainder", "peak"};
	static const bool right[] = {false, true, true, true, true, true, true, true, true, true};
	static const char *const members[] = {
		"anon", "file", "shmem", "kernel", "sock", "remainder", "memory_peak_bytes"};
	add(page, "<details><summary>Table (MiB)</summary>\n");
	open_table(page, titles, right, sizeof titles / sizeof *titles);
	size_t i;
	const json_t *cell;
	json_array_foreach(json_object_get(page->summary, "cells"), i, cell)
	{
		const json_t *at_peak = json_object_get(cell, "memory_at_peak");
		if (view_integer(cell, "setting") != (int64_t)setting || !json_is_object(at_peak))
			continue;
		add(page, "<tr>");
		add_cell(page, "", xstrdup(view_text(cell, "contender")));
		add_cell(page, "n", xasprintf("%" PRId64, view_integer(cell, "sessions")));
		add_cell(page, "n", xasprintf("%" PRId64, view_integer(at_peak, "run")));
		for (size_t k = 0; k < sizeof members / sizeof *members; k++) {
			const json_t *value = json_object_get(at_peak, members[k]);
			char number[SHOWN_MAX];
			show_number(json_number_value(value) / 0x1p20, number);
			add_cell(page, "n", json_is_number(value) ? xstrdup(number) : NULL);
		}
		add(page, "</tr>\n");
	}
	close_table(page);
	add(page, "</details>\n");
}

static void parts_figure(const struct page *page, size_t setting)
{
	int64_t counts[ROWS_MAX];
	size_t count = session_counts(page, setting, counts, ROWS_MAX);
	struct buf charts;
	buf_init(&charts, TABLE_MAX);
	const struct page inner = {page->summary, &charts};
	for (size_t i = count; i-- > 0;)
		parts_chart(&inner, setting, counts[i]);
	if (charts.length) {
		add(page, "<figure class=\"wide\"><figcaption>What the memory is at its "
			  "peak<small>of the run "
			  "with the "
			  "median peak, from the sample with the highest total; the remainder is "
			  "what "
			  "the samples do not explain</small></figcaption>\n<ul class=\"legend\">");
		for (size_t k = 0; k < CHART_PARTS; k++)
			addf(page, "<li><span class=\"key p%zu\"></span>%s</li>", k, part_names[k]);
		add(page, "</ul>\n<div class=\"charts\">\n");
		add(page, charts.data);
		add(page, "</div>\n");
		parts_table(page, setting);
		add(page, "</figure>\n");
	}
	buf_release(&charts);
}

static void charts(const struct page *page, size_t setting)
{
	const char *headline = view_headline(page->summary, setting);
	bool overhead = !strcmp(headline, "overhead_ms");
	auto_free char *p50 = xasprintf("%s.p50", headline);
	auto_free char *p99 = xasprintf("%s.p99", headline);
	add(page, "<div class=\"charts\">\n");
	lines_figure(page, setting, overhead ? "Overhead per turn" : "Turn gap",
		"line: median over runs; band: up to the 99th percentile of all turns, where there "
		"are "
		"1,000",
		"ms", p50, p99, (const char *const[]){"p50 ms", "p99 ms"});
	lines_figure(page, setting, "Memory peak", "median over runs with its interval", "MiB",
		view_memory_key(page->summary, setting), NULL,
		(const char *const[]){"memory peak MiB"});
	lines_figure(page, setting, "CPU per turn", "median over runs with its interval", "ms",
		"cpu_usec_per_turn", NULL, (const char *const[]){"CPU per turn ms"});
	startup_figure(page, setting);
	parts_figure(page, setting);
	add(page, "</div>\n");
}

static void settings(const struct page *page)
{
	const json_t *list = json_object_get(page->summary, "settings");
	for (size_t i = 0; i < json_array_size(list); i++) {
		auto_free char *title = view_setting(json_array_get(list, i));
		addf(page, "<h2%s>At a glance</h2>\n<p class=\"setting\">",
			i ? "" : " id=\"glance\"");
		add_text(page, title);
		add(page, "</p>\n");
		glance(page, i);
		addf(page, "<h2%s>Charts</h2>\n<p class=\"setting\">", i ? "" : " id=\"charts\"");
		add_text(page, title);
		add(page, "</p>\n");
		charts(page, i);
	}
}

/* ---- words */

static void title(const struct page *page)
{
	add_text(page, view_text(json_object_get(page->summary, "plan"), "name"));
}

static void head(const struct page *page)
{
	const json_t *plan = json_object_get(page->summary, "plan");
	const json_t *machine =
		json_object_get(json_object_get(page->summary, "environment"), "machine");
	add(page, "<p>");
	add_text(page, view_text(plan, "description"));
	addf(page,
		"</p>\n<p>%" PRId64 " runs, %" PRId64 " of them warm-ups, %zu excluded; plan "
		"<code>%.12s</code>",
		view_integer(page->summary, "runs"), view_integer(page->summary, "warm_ups"),
		json_array_size(json_object_get(page->summary, "excluded")),
		view_text(page->summary, "plan_sha256"));
	const struct {
		const char *before, *text;
	} more[] = {{" · ", view_text(page->summary, "started_at")},
		{" · ", view_text(machine, "cpu_model")},
		{" · Linux ", view_text(machine, "kernel")}};
	for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
		add(page, *more[i].text ? more[i].before : "");
		add_text(page, more[i].text);
	}
	add(page, "</p>\n");
}

static void notes(const struct page *page)
{
	const json_t *list = json_object_get(page->summary, "notes");
	if (!json_array_size(list))
		return;
	add(page, "<ul class=\"notes\">\n");
	size_t i;
	const json_t *note;
	json_array_foreach(list, i, note)
	{
		add(page, "<li>");
		add_text(page, json_string_value(note));
		add(page, "</li>\n");
	}
	add(page, "</ul>\n");
}

static void hypotheses(const struct page *page)
{
	const json_t *list = json_object_get(page->summary, "hypotheses");
	if (!json_array_size(list)) {
		add(page, "<p class=\"empty\">The plan makes none.</p>\n");
		return;
	}
	addf(page,
		"<p class=\"setting\">Written into the plan before its first run; decided by the "
		"interval at %.2f%% each.</p>\n",
		100 * json_number_value(json_object_get(json_array_get(list, 0), "confidence")));
	static const char *const titles[] = {
		"verdict", "statement", "figure", "claim", "value", "interval", "blocks"};
	static const bool right[] = {false, false, false, false, true, true, true};
	open_table(page, titles, right, sizeof titles / sizeof *titles);
	size_t i;
	const json_t *item;
	json_array_foreach(list, i, item)
	{
		const char *verdict = view_text(item, "verdict");
		struct view_figure value = view_hypothesis(item);
		char *interval = view_shown_interval(&value);
		add(page, "<tr>");
		add_cell(page,
			!strcmp(verdict, "supported")  ? "good"
			: !strcmp(verdict, "rejected") ? "bad"
						       : "",
			xstrdup(verdict));
		add_cell(page, "wrap", xstrdup(view_text(item, "statement")));
		add_cell(page, "", xstrdup(view_text(item, "figure")));
		add_cell(page, "", view_claim(item));
		add_cell(page, "n", view_shown(&value, false));
		add_cell(page, interval ? "n" : "wrap",
			interval ? interval : xstrdup(view_text(item, "reason")));
		add_cell(page, "n", xasprintf("%" PRId64, value.n));
		add(page, "</tr>\n");
	}
	close_table(page);
}

static void failures(const struct page *page, size_t count)
{
	static const char *const titles[] = {
		"run", "contender", "sessions", "scenario", "outcome", "what happened"};
	static const bool right[] = {true, false, true, false, false, false};
	enum { OPEN_MAX = 12 };
	addf(page, "<details%s><summary>Runs that did not end well (%zu)</summary>\n",
		count <= OPEN_MAX ? " open" : "", count);
	open_table(page, titles, right, sizeof titles / sizeof *titles);
	size_t i, k;
	const json_t *cell, *failure;
	json_array_foreach(json_object_get(page->summary, "cells"), i, cell)
	{
		json_array_foreach(json_object_get(cell, "failures"), k, failure)
		{
			add(page, "<tr>");
			add_cell(page, "n", xasprintf("%" PRId64, view_integer(failure, "run")));
			add_cell(page, "", xstrdup(view_text(cell, "contender")));
			add_cell(page, "n", xasprintf("%" PRId64, view_integer(cell, "sessions")));
			add_cell(page, "", xstrdup(view_text(cell, "scenario")));
			add_cell(page, "bad", xstrdup(view_text(failure, "outcome")));
			add_cell(page, "wrap", xstrdup(view_text(failure, "detail")));
			add(page, "</tr>\n");
		}
	}
	close_table(page);
	add(page, "</details>\n");
}

static void outcomes(const struct page *page)
{
	add(page, "<p class=\"setting\">Completed of attempted runs. What a contender causes is a "
		  "result; "
		  "a cell with more than 10% failed runs has no figures, since its best runs alone "
		  "would "
		  "flatter it.</p>\n");
	static const char *const titles[] = {
		"contender", "sessions", "scenario", "completed", "attempted", "outcomes"};
	static const bool right[] = {false, true, false, true, true, false};
	open_table(page, titles, right, sizeof titles / sizeof *titles);
	size_t i, count_failed = 0;
	const json_t *cell;
	json_array_foreach(json_object_get(page->summary, "cells"), i, cell)
	{
		int64_t attempted = view_integer(cell, "attempted");
		int64_t completed = view_integer(cell, "completed");
		count_failed += (size_t)(attempted - completed);
		struct buf words;
		buf_init(&words, 1 << 16);
		const char *name;
		json_t *count;
		json_object_foreach(json_object_get(cell, "outcomes"), name, count)
			buf_addf(&words, "%s%s %" JSON_INTEGER_FORMAT, words.length ? ", " : "",
				name, json_integer_value(count));
		add(page, "<tr>");
		add_cell(page, "", xstrdup(view_text(cell, "contender")));
		add_cell(page, "n", xasprintf("%" PRId64, view_integer(cell, "sessions")));
		add_cell(page, "", xstrdup(view_text(cell, "scenario")));
		add_cell(page, completed < attempted ? "n bad" : "n",
			xasprintf("%" PRId64, completed));
		add_cell(page, "n", xasprintf("%" PRId64, attempted));
		add_cell(page, "", words.data ? words.data : xstrdup("no valid run"));
		add(page, "</tr>\n");
	}
	close_table(page);
	if (count_failed)
		failures(page, count_failed);
}

static void excluded(const struct page *page)
{
	const json_t *list = json_object_get(page->summary, "excluded");
	if (!json_array_size(list)) {
		add(page, "<p class=\"empty\">None: no run was spoilt by the instrument or the "
			  "machine.</p>\n");
		return;
	}
	add(page, "<p class=\"setting\">Excluded for faults of the instrument or the machine, "
		  "never for what "
		  "a contender did; run again at the end of the plan.</p>\n");
	static const char *const titles[] = {
		"run", "contender", "sessions", "scenario", "outcome", "why it does not count"};
	static const bool right[] = {true, false, true, false, false, false};
	open_table(page, titles, right, sizeof titles / sizeof *titles);
	size_t i, k;
	const json_t *run, *reason;
	json_array_foreach(list, i, run)
	{
		struct buf words;
		buf_init(&words, 1 << 20);
		json_array_foreach(json_object_get(run, "reasons"), k, reason)
			buf_addf(&words, "%s%s", k ? "; " : "", json_string_value(reason));
		add(page, "<tr>");
		add_cell(page, "n", xasprintf("%" PRId64, view_integer(run, "run")));
		add_cell(page, "", xstrdup(view_text(run, "contender")));
		add_cell(page, "n", xasprintf("%" PRId64, view_integer(run, "sessions")));
		add_cell(page, "", xstrdup(view_text(run, "scenario")));
		add_cell(page, "", xstrdup(view_text(run, "outcome")));
		add_cell(page, "wrap", words.data);
		add(page, "</tr>\n");
	}
	close_table(page);
}

/* Any JSON value as lines of a definition list, with the path to it. */
static void add_facts(const struct page *page, const char *path, const json_t *value, int depth)
{
	enum { DEPTH_MAX = 6 };
	if (json_is_object(value) && depth < DEPTH_MAX) {
		const char *name;
		json_t *member;
		json_object_foreach((json_t *)value, name, member)
		{
			auto_free char *inner = xasprintf("%s%s%s", path, *path ? "." : "", name);
			add_facts(page, inner, member, depth + 1);
		}
		return;
	}
	auto_free char *dump = json_is_string(value)
				       ? xstrdup(json_string_value(value))
				       : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT |
								   JSON_REAL_PRECISION(6));
	add(page, "<dt>");
	add_text(page, path);
	add(page, "</dt><dd>");
	add_text(page, json_is_null(value) ? "not known" : dump);
	add(page, "</dd>\n");
}

static void environment(const struct page *page)
{
	const json_t *plan = json_object_get(page->summary, "plan");
	add(page, "<h3>Limits and bounds of the plan</h3>\n<dl class=\"facts\">\n");
	static const char *const members[] = {
		"limits", "bounds", "run_timeout_s", "repetitions", "seed"};
	for (size_t i = 0; i < sizeof members / sizeof *members; i++)
		add_facts(page, members[i], json_object_get(plan, members[i]), 0);
	add(page, "</dl>\n<h3>Environment</h3>\n<dl class=\"facts\">\n");
	add_facts(page, "", json_object_get(page->summary, "environment"), 0);
	add(page, "</dl>\n<h3>Scenarios</h3>\n<dl class=\"facts\">\n");
	size_t i;
	const json_t *scenario;
	json_array_foreach(json_object_get(plan, "scenarios"), i, scenario) add_facts(
		page, view_text(scenario, "name"), json_object_get(scenario, "description"), 0);
	add(page, "</dl>\n");
}

static void definitions(const struct page *page)
{
	add(page,
		"<p class=\"setting\">A run is one fresh process in a fresh cgroup; figures are "
		"medians over "
		"runs. [a, b] is the exact order-statistic interval of the median, of ratios the "
		"exact "
		"signed-rank interval over blocks, at least 95% each; a–b are minimum and maximum, "
		"where there are fewer than 6 blocks. Percentiles interpolate linearly between "
		"samples; p99 needs 1,000 turns. A dash is a value that is not known, never "
		"zero.</p>\n<dl class=\"facts\">\n");
	const char *name;
	json_t *figure;
	json_object_foreach(json_object_get(page->summary, "definitions"), name, figure)
	{
		add(page, "<dt><code>");
		add_text(page, name);
		add(page, "</code></dt><dd>");
		add_text(page, view_text(figure, "definition"));
		add(page, " (");
		add_text(page, view_text(figure, "unit"));
		add(page, ")</dd>\n");
	}
	add(page, "</dl>\n");
}

static void foot(const struct page *page)
{
	add(page, "Made by Turnmeter " TURNMETER_VERSION
		  ". The data behind this page stand in it as JSON "
		  "(<code>#turnmeter-data</code>) and beside it in <code>summary.json</code>.");
}

/* No '<' can end the script element; everything beyond ASCII is \u-escaped. */
static void data(const struct page *page)
{
	auto_free char *json = json_dumps(
		page->summary, JSON_COMPACT | JSON_REAL_PRECISION(12) | JSON_ENSURE_ASCII);
	if (!json)
		die_oom();
	for (const char *at = json; *at; at++) {
		size_t plain = strcspn(at, "<>&");
		if (buf_add(page->out, at, plain))
			die_oom();
		at += plain;
		if (!*at)
			break;
		addf(page, "\\u%04x", (unsigned)*at);
	}
}

static const struct place {
	const char *name;
	void (*fill)(const struct page *page);
} places[] = {
	{"title", title},
	{"head", head},
	{"notes", notes},
	{"settings", settings},
	{"hypotheses", hypotheses},
	{"outcomes", outcomes},
	{"excluded", excluded},
	{"environment", environment},
	{"definitions", definitions},
	{"foot", foot},
	{"data", data},
};

static const struct place *find_place(const char *name, size_t length)
{
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		if (strlen(places[i].name) == length && !memcmp(places[i].name, name, length))
			return &places[i];
	}
	return NULL;
}

void report_html(const json_t *summary, struct buf *out)
{
	const struct page page = {summary, out};
	const char *at = report_template_begin;
	for (const char *open; (open = strstr(at, "{{")) != NULL;) {
		const char *close = strstr(open, "}}");
		const struct place *place = find_place(open + 2, (size_t)(close - open - 2));
		if (buf_add(out, at, (size_t)(open - at)))
			die_oom();
		place->fill(&page);
		at = close + 2;
	}
	add(&page, at);
}
