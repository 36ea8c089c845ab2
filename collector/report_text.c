/* The reports in words and tables: summary.md, and the table at the end on a terminal. */
#include "collector/report.h"

#include "collector/escape.h"
#include "collector/summary_view.h"
#include "collector/table.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct writer {
	const json_t *summary;
	struct buf *out;
	enum table_form form;
	size_t width; /* of the terminal; SIZE_MAX: any */
};

static void add(const struct writer *to, const char *text)
{
	if (buf_add_text(to->out, text))
		die_oom();
}

/* Outside text. */
static void add_outside(const struct writer *to, const char *text)
{
	if (to->form == TABLE_MARKDOWN)
		escape_markdown(to->out, text);
	else
		escape_plain(to->out, text);
}

__attribute__((format(printf, 2, 3))) static void addf(
	const struct writer *to, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	char *text;
	if (vasprintf(&text, format, args) < 0)
		die_oom();
	va_end(args);
	add(to, text);
	free(text);
}

static void heading(const struct writer *to, const char *level, const char *text)
{
	if (to->form == TABLE_MARKDOWN) {
		addf(to, "\n%s ", level);
		add_outside(to, text);
		add(to, "\n\n");
	} else {
		add(to, to->form == TABLE_COLOUR ? "\n\033[1m" : "\n");
		add_outside(to, text);
		add(to, to->form == TABLE_COLOUR ? "\033[0m\n" : "\n");
	}
}

/* ---- the main table of a setting */

/* A figure, and in the column after it its ratio to the best unless it is `bare`. */
static void set_figure(struct table *table, size_t column, const struct writer *to,
	const json_t *cell, const char *key, bool bare)
{
	struct view_figure figure = view_figure(cell, key);
	enum table_mark mark = view_is_best(to->summary, cell, key) ? MARK_GOOD : MARK_NONE;
	table_set(table, column, view_shown(&figure, false), mark);
	if (!bare)
		table_set(table, column + 1, view_times_best(to->summary, cell, key), mark);
}

/* Long names would push the numbers off a terminal. */
static char *short_name(const struct writer *to, const char *name)
{
	enum { BYTES_MAX = 24 };
	json_auto_t *cut = json_text(name, to->form == TABLE_MARKDOWN ? SIZE_MAX : BYTES_MAX);
	const char *shown = json_string_value(cut);
	return xasprintf("%s%s", shown, strlen(shown) < strlen(name) ? "…" : "");
}

/* Returns whether columns were left out for want of room. */
static bool main_table(const struct writer *to, size_t setting)
{
	const char *headline = view_headline(to->summary, setting);
	const char *memory = view_memory_key(to->summary, setting);
	const char *const titles[] = {"contender", "sessions", "startup", "×",
		!strcmp(headline, "overhead_ms") ? "overhead" : "turn gap", "×", "p99", "memory",
		"×", "CPU/turn", "×", "/GiB", "/core", "ok"};
	static const bool right[] = {false, true, true, true, true, true, true, true, true, true,
		true, true, true, true};
	/* what is derived goes first, and at last the ratios */
	static const unsigned char spare[] = {0, 0, 0, 1, 0, 1, 0, 0, 1, 0, 1, 2, 2, 0};
	auto_free char *p50 = xasprintf("%s.p50", headline);
	auto_free char *p99 = xasprintf("%s.p99", headline);
	struct table table;
	table_init(&table, titles, right, sizeof titles / sizeof *titles);
	table.spare = spare;
	table.room = to->width;
	size_t i;
	const json_t *cell;
	json_array_foreach(json_object_get(to->summary, "cells"), i, cell)
	{
		if (view_integer(cell, "setting") != (int64_t)setting)
			continue;
		int64_t attempted = view_integer(cell, "attempted");
		int64_t completed = view_integer(cell, "completed");
		struct view_figure tail = view_figure(cell, p99);
		table_row(&table);
		table_set(&table, 0, short_name(to, view_text(cell, "contender")), MARK_NONE);
		table_set(&table, 1, xasprintf("%" PRId64, view_integer(cell, "sessions")),
			MARK_NONE);
		set_figure(&table, 2, to, cell, "startup_ms", false);
		set_figure(&table, 4, to, cell, p50, false);
		table_set(&table, 6, view_shown(&tail, true), MARK_NONE);
		set_figure(&table, 7, to, cell, memory, false);
		set_figure(&table, 9, to, cell, "cpu_usec_per_turn", false);
		set_figure(&table, 11, to, cell, "sessions_per_gib", true);
		set_figure(&table, 12, to, cell, "sessions_per_core", true);
		table_set(&table, 13, xasprintf("%" PRId64 "/%" PRId64, completed, attempted),
			completed < attempted || !attempted ? MARK_BAD : MARK_NONE);
	}
	bool less = table_render(&table, to->form, to->out);
	table_release(&table);
	return less;
}

/* ---- intervals (Markdown only: a terminal has no room) */

static void interval_table(const struct writer *to, size_t setting)
{
	const char *headline = view_headline(to->summary, setting);
	auto_free char *p50 = xasprintf("%s.p50", headline);
	auto_free char *mean = xasprintf("%s.mean", headline);
	auto_free char *p99 = xasprintf("%s.p99", headline);
	const char *const keys[] = {"startup_ms", p50, mean, p99, "first_request_ms.p50",
		"memory_peak_bytes", "memory_peak_cold_bytes", "rss_peak_bytes", "pss_bytes",
		"sessions_per_gib", "cpu_startup_usec", "cpu_usec_per_turn", "sessions_per_core"};
	static const char *const titles[] = {"figure", "sessions", "contender", "median",
		"interval", "unit", "runs", "× best", "interval of ×"};
	static const bool right[] = {false, true, false, true, true, false, true, true, true};
	struct table table;
	table_init(&table, titles, right, sizeof titles / sizeof *titles);
	for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
		size_t i;
		const json_t *cell;
		json_array_foreach(json_object_get(to->summary, "cells"), i, cell)
		{
			struct view_figure figure = view_figure(cell, keys[k]);
			if (view_integer(cell, "setting") != (int64_t)setting || !figure.known)
				continue;
			struct view_figure times =
				view_ratio_interval(view_ratio(to->summary, cell, keys[k], "best"));
			table_row(&table);
			table_set(&table, 0, xstrdup(keys[k]), MARK_NONE);
			table_set(&table, 1, xasprintf("%" PRId64, view_integer(cell, "sessions")),
				MARK_NONE);
			table_set(&table, 2, xstrdup(view_text(cell, "contender")), MARK_NONE);
			table_set(&table, 3, view_shown(&figure, false), MARK_NONE);
			table_set(&table, 4, view_shown_interval(&figure), MARK_NONE);
			table_set(&table, 5, xstrdup(shown_unit(figure.unit)->shown), MARK_NONE);
			table_set(&table, 6, xasprintf("%" PRId64, figure.n), MARK_NONE);
			table_set(
				&table, 7, view_times_best(to->summary, cell, keys[k]), MARK_NONE);
			table_set(&table, 8, view_shown_interval(&times), MARK_NONE);
		}
	}
	if (table.rows) {
		heading(to, "###", "Intervals");
		add(to, "[a, b] is the exact interval (at least 95%); a–b are minimum and maximum, "
			"where there are fewer than 6 blocks.\n\n");
		table_render(&table, to->form, to->out);
	}
	table_release(&table);
}

/* ---- what did not go well, hypotheses, exclusions, notes */

/* Failures of a cell from `begin` on with its outcome: how many, and their runs in words. */
static size_t same_outcome(const json_t *failures, size_t begin, char **runs)
{
	enum { RUNS_SHOWN = 6 };
	const char *outcome = view_text(json_array_get(failures, begin), "outcome");
	size_t count = 0, i;
	const json_t *failure;
	struct buf words;
	buf_init(&words, 1 << 16);
	json_array_foreach(failures, i, failure)
	{
		if (strcmp(view_text(failure, "outcome"), outcome))
			continue;
		if (i < begin) {
			count = 0;
			break; /* told already */
		}
		if (count++ < RUNS_SHOWN)
			buf_addf(&words, "%s%" PRId64, words.length ? ", " : "",
				view_integer(failure, "run"));
	}
	if (count > RUNS_SHOWN)
		buf_add_text(&words, ", …");
	*runs = words.data ? words.data : xstrdup("");
	return count;
}

static void failures(const struct writer *to)
{
	static const char *const titles[] = {"contender", "sessions", "scenario", "outcome",
		"times", "runs", "the first of them"};
	static const bool right[] = {false, true, false, false, true, false, false};
	struct table table;
	table_init(&table, titles, right, sizeof titles / sizeof *titles);
	size_t i, k;
	const json_t *cell, *failure;
	json_array_foreach(json_object_get(to->summary, "cells"), i, cell)
	{
		const json_t *list = json_object_get(cell, "failures");
		json_array_foreach(list, k, failure)
		{
			auto_free char *runs = NULL;
			size_t count = same_outcome(list, k, &runs);
			if (!count)
				continue;
			table_row(&table);
			table_set(
				&table, 0, short_name(to, view_text(cell, "contender")), MARK_NONE);
			table_set(&table, 1, xasprintf("%" PRId64, view_integer(cell, "sessions")),
				MARK_NONE);
			table_set(&table, 2, xstrdup(view_text(cell, "scenario")), MARK_NONE);
			table_set(&table, 3, xstrdup(view_text(failure, "outcome")), MARK_BAD);
			table_set(&table, 4, xasprintf("%zu", count), MARK_NONE);
			table_set(&table, 5, steal_ptr(runs), MARK_NONE);
			table_set(&table, 6, xstrdup(view_text(failure, "detail")), MARK_NONE);
		}
	}
	if (table.rows) {
		heading(to, "##", "Runs that did not end well");
		table_render(&table, to->form, to->out);
	}
	table_release(&table);
}

static void hypotheses(const struct writer *to)
{
	const json_t *list = json_object_get(to->summary, "hypotheses");
	if (!json_array_size(list))
		return;
	heading(to, "##", "Hypotheses");
	static const char *const titles[] = {"verdict", "statement", "value", "interval", "claim"};
	static const bool right[] = {false, false, true, true, false};
	struct table table;
	table_init(&table, titles, right, sizeof titles / sizeof *titles);
	size_t i;
	const json_t *item;
	json_array_foreach(list, i, item)
	{
		struct view_figure value = view_hypothesis(item);
		const char *verdict = view_text(item, "verdict");
		char *interval = view_shown_interval(&value);
		table_row(&table);
		table_set(&table, 0, xstrdup(verdict),
			!strcmp(verdict, "supported")  ? MARK_GOOD
			: !strcmp(verdict, "rejected") ? MARK_BAD
						       : MARK_NONE);
		table_set(&table, 1, xstrdup(view_text(item, "statement")), MARK_NONE);
		table_set(&table, 2, view_shown(&value, false), MARK_NONE);
		table_set(&table, 3, interval ? interval : xstrdup(view_text(item, "reason")),
			MARK_NONE);
		table_set(&table, 4, view_claim(item), MARK_NONE);
	}
	table_render(&table, to->form, to->out);
	table_release(&table);
}

static void excluded(const struct writer *to)
{
	const json_t *list = json_object_get(to->summary, "excluded");
	if (!json_array_size(list))
		return;
	heading(to, "##", "Runs that do not count");
	size_t i, k;
	const json_t *run, *reason;
	json_array_foreach(list, i, run)
	{
		addf(to, "%srun %" PRId64 ", ", to->form == TABLE_MARKDOWN ? "- " : "  ",
			view_integer(run, "run"));
		add_outside(to, view_text(run, "contender"));
		addf(to, " × %" PRId64 ": ", view_integer(run, "sessions"));
		json_array_foreach(json_object_get(run, "reasons"), k, reason)
		{
			add(to, k ? "; " : "");
			add_outside(to, json_string_value(reason));
		}
		add(to, "\n");
	}
}

static void notes(const struct writer *to)
{
	size_t i;
	const json_t *note;
	if (json_array_size(json_object_get(to->summary, "notes")))
		heading(to, "##", "Notes");
	json_array_foreach(json_object_get(to->summary, "notes"), i, note)
	{
		add(to, to->form == TABLE_MARKDOWN ? "- " : "  ");
		add_outside(to, json_string_value(note));
		add(to, "\n");
	}
}

static void warnings(const struct writer *to)
{
	size_t i;
	const json_t *warning;
	if (json_array_size(json_object_get(to->summary, "warnings")))
		heading(to, "##", "Warnings of the doctor");
	json_array_foreach(json_object_get(to->summary, "warnings"), i, warning)
	{
		add(to, to->form == TABLE_MARKDOWN ? "- " : "  ");
		add_outside(to, view_text(warning, "id"));
		add(to, ": ");
		add_outside(to, view_text(warning, "found"));
		if (view_integer(warning, "first_run"))
			addf(to, " (when the plan was gone on with, before run %" PRId64 ")",
				view_integer(warning, "first_run"));
		/* What helps is for the one who plays the plan, not for who reads of it. */
		add(to, "\n");
	}
}

/* ---- what is shipped, and what contenders believe of their limits (Markdown only) */

/* A number below members of `contender`; NULL where it is not known. */
static char *fact(const json_t *contender, const char *member, const char *part, double unit)
{
	const json_t *value = json_object_get(contender, member);
	if (part)
		value = json_object_get(value, part);
	if (!json_is_number(value))
		return NULL;
	if (json_is_integer(value) && unit == 1)
		return xasprintf("%" JSON_INTEGER_FORMAT, json_integer_value(value));
	char number[SHOWN_MAX];
	show_number(json_number_value(value) / unit, number);
	return xstrdup(number);
}

static void contenders(const struct writer *to)
{
	static const struct {
		const char *title, *member, *part;
		double unit;
	} columns[] = {
		{"files, MiB", "artifact_bytes", NULL, 0x1p20},
		{"image, compressed", "image_bytes", "compressed", 0x1p20},
		{"unpacked", "image_bytes", "unpacked", 0x1p20},
		{"above the base, compressed", "image_bytes", "compressed_above_base", 0x1p20},
		{"own layers, compressed", "image_bytes", "compressed_own_layers", 0x1p20},
		{"believed CPUs", "beliefs", "cpus", 1},
		{"memory, MiB", "beliefs", "memory_bytes", 0x1p20},
		{"heap limit, MiB", "beliefs", "heap_limit_bytes", 0x1p20},
		{"threads", "beliefs", "threads", 1},
	};
	enum { COLUMNS = sizeof columns / sizeof *columns };
	const char *titles[COLUMNS + 1] = {"contender"};
	bool right[COLUMNS + 1] = {false};
	const json_t *known =
		json_object_get(json_object_get(to->summary, "environment"), "contenders");
	if (!json_object_size(known))
		return;
	for (size_t k = 0; k < COLUMNS; k++) {
		titles[k + 1] = columns[k].title;
		right[k + 1] = true;
	}
	struct table table;
	table_init(&table, titles, right, COLUMNS + 1);
	size_t i;
	const json_t *planned;
	json_array_foreach(
		json_object_get(json_object_get(to->summary, "plan"), "contenders"), i, planned)
	{
		const char *name = view_text(planned, "name");
		const json_t *contender = json_object_get(known, name);
		table_row(&table);
		table_set(&table, 0, short_name(to, name), MARK_NONE);
		for (size_t k = 0; k < COLUMNS; k++)
			table_set(&table, k + 1,
				fact(contender, columns[k].member, columns[k].part,
					columns[k].unit),
				MARK_NONE);
	}
	heading(to, "##", "What is shipped, and what contenders believe of their limits");
	table_render(&table, to->form, to->out);
	table_release(&table);
}

/* "2/2" alone would not tell that there should have been three. */
static void too_few(const struct writer *to)
{
	int64_t planned = view_integer(json_object_get(to->summary, "plan"), "repetitions");
	size_t count = 0, i;
	const json_t *cell;
	json_array_foreach(json_object_get(to->summary, "cells"), i, cell)
	{
		count += view_integer(cell, "attempted") < planned;
	}
	if (count)
		addf(to,
			"%s%zu of the %zu cells have fewer valid runs than the %" PRId64
			" planned.\n",
			to->form == TABLE_MARKDOWN ? "\n" : "", count,
			json_array_size(json_object_get(to->summary, "cells")), planned);
}

static bool settings(const struct writer *to)
{
	bool less = false;
	const json_t *list = json_object_get(to->summary, "settings");
	for (size_t i = 0; i < json_array_size(list); i++) {
		auto_free char *title = view_setting(json_array_get(list, i));
		heading(to, "##", title);
		less |= main_table(to, i);
		if (to->form == TABLE_MARKDOWN)
			interval_table(to, i);
	}
	return less;
}

void report_markdown(const json_t *summary, struct buf *out)
{
	struct writer to = {summary, out, TABLE_MARKDOWN, SIZE_MAX};
	const json_t *plan = json_object_get(summary, "plan");
	add(&to, "# ");
	add_outside(&to, view_text(plan, "name"));
	add(&to, "\n\n");
	if (*view_text(plan, "description")) {
		add_outside(&to, view_text(plan, "description"));
		add(&to, "\n\n");
	}
	addf(&to, "%" PRId64 " runs, %" PRId64 " of them warm-ups; plan %.12s. ",
		view_integer(summary, "runs"), view_integer(summary, "warm_ups"),
		view_text(summary, "plan_sha256"));
	add(&to, "Figures are medians over runs: times in ms, memory peak in MiB; p99 is of all "
		 "turns "
		 "together. × is the ratio to the best of the same number of sessions; /GiB and "
		 "/core are the sessions that one GiB or one CPU would carry; ok is "
		 "completed/attempted. A cell with more than 10% failed runs has no figures.\n");
	too_few(&to);
	settings(&to);
	contenders(&to);
	hypotheses(&to);
	failures(&to);
	excluded(&to);
	warnings(&to);
	notes(&to);
}

void report_terminal(const json_t *summary, bool colour, size_t width, struct buf *out)
{
	struct writer to = {summary, out, colour ? TABLE_COLOUR : TABLE_PLAIN, width};
	bool less = settings(&to);
	add(&to,
		"\nMedians over runs: times in ms, memory peak in MiB; p99 of all turns together.\n"
		"× is the ratio to the best of the same number of sessions; /GiB and /core are\n"
		"the sessions that one GiB or one CPU would carry; ok is completed/attempted.\n");
	if (less)
		add(&to, "Columns that this terminal has no room for are in summary.md.\n");
	too_few(&to);
	hypotheses(&to);
	failures(&to);
	excluded(&to);
	warnings(&to);
	notes(&to);
}
