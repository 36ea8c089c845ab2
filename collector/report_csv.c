#include "collector/escape.h"
#include "collector/report.h"
#include "collector/summary_view.h"
#include "common/buf.h"
#include "common/error.h"

#include <string.h>

/* What stands in front of the figure's own columns, from the cell or its limits. */
static const struct column {
	const char *title, *member;
	bool of_limits;
} cell_columns[] = {
	{"scenario", "scenario", false},
	{"sessions", "sessions", false},
	{"contender", "contender", false},
	{"track", "track", false},
	{"placement", "placement", false},
	{"mode", "mode", false},
	{"cgroup_backend", "cgroup_backend", false},
	{"cold", "cold", false},
	{"timed", "timed", false},
	{"memory_limit_bytes", "memory_bytes", true},
	{"cpu_quota", "cpu_quota", true},
	{"machine_id", "machine_id", false},
	{"suite_version", "suite_version", false},
	{"attempted", "attempted", false},
	{"completed", "completed", false},
};

static const char *const figure_columns[] = {"unit", "median", "lo", "hi", "confidence", "n",
	"pooled", "samples", "negative", "at_least", "missing"};

static void add(struct buf *out, const char *text)
{
	if (buf_add_text(out, text))
		die_oom();
}

/* null and absent are empty cells: nothing is written as zero that is not. */
static void add_value(struct buf *out, const json_t *value)
{
	if (json_is_string(value))
		escape_csv(out, json_string_value(value));
	else if (json_is_integer(value) &&
		 buf_addf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value)))
		die_oom();
	else if (json_is_real(value) && buf_addf(out, "%.12g", json_real_value(value)))
		die_oom();
	else if (json_is_boolean(value))
		add(out, json_is_true(value) ? "true" : "false");
}

void report_csv(const json_t *summary, struct buf *out)
{
	size_t cell_count = sizeof cell_columns / sizeof *cell_columns;
	size_t figure_count = sizeof figure_columns / sizeof *figure_columns;
	for (size_t i = 0; i < cell_count; i++) {
		add(out, cell_columns[i].title);
		add(out, ",");
	}
	add(out, "figure");
	for (size_t i = 0; i < figure_count; i++) {
		add(out, ",");
		add(out, figure_columns[i]);
	}
	add(out, "\r\n");
	size_t c;
	const json_t *cell;
	json_array_foreach(json_object_get(summary, "cells"), c, cell)
	{
		const char *name;
		json_t *figure;
		json_object_foreach(json_object_get(cell, "figures"), name, figure)
		{
			for (size_t i = 0; i < cell_count; i++) {
				const json_t *from = cell_columns[i].of_limits
							     ? json_object_get(cell, "limits")
							     : cell;
				add_value(out, json_object_get(from, cell_columns[i].member));
				add(out, ",");
			}
			escape_csv(out, name);
			for (size_t i = 0; i < figure_count; i++) {
				add(out, ",");
				add_value(out, json_object_get(figure, figure_columns[i]));
			}
			add(out, "\r\n");
		}
	}
}
