#include "collector/summary.h"

#include "collector/cells.h"
#include "collector/hypotheses.h"
#include "collector/report.h"
#include "collector/results.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"
#include "common/json.h"

#include <math.h>
#include <string.h>

enum { SUMMARY_SCHEMA = 1, REPORT_MAX = 1 << 30, DETAIL_MAX = 400 };

/* Integers stay integers: bytes and counts are read better so. */
static json_t *number(double value)
{
	if (value == round(value) && fabs(value) < 0x1p53)
		return json_integer((json_int_t)value);
	return json_real(value);
}

static json_t *number_or_null(bool known, double value)
{
	return known ? number(value) : json_null();
}

static json_t *text(const char *value)
{
	return json_text(value, DETAIL_MAX);
}

/* ---- cells */

static json_t *figure_json(const struct cell *cell, size_t i)
{
	const struct figure_key *key = figure_key(i);
	const struct cell_figure *figure = &cell->figures[i];
	json_t *out = json_object();
	json_object_set_new(out, "median", number_or_null(figure->known, figure->median));
	json_object_set_new(out, "lo", number_or_null(figure->known, figure->lo));
	json_object_set_new(out, "hi", number_or_null(figure->known, figure->hi));
	/* null: lo and hi are minimum and maximum, there are too few blocks for an interval */
	json_object_set_new(
		out, "confidence", number_or_null(figure->confidence > 0, figure->confidence));
	json_object_set_new(out, "n", json_integer((json_int_t)figure->count));
	json_object_set_new(out, "unit", json_string(key->figure->unit));
	if (key->statistic) {
		json_object_set_new(
			out, "pooled", number_or_null(figure->pooled_known, figure->pooled));
		json_object_set_new(out, "samples", json_integer((json_int_t)figure->samples));
		json_object_set_new(out, "negative", json_integer((json_int_t)figure->negative));
	}
	if (figure->at_least)
		json_object_set_new(out, "at_least", json_true());
	if (figure->missing) {
		json_object_set_new(out, "missing", text(figure->missing));
		return out;
	}
	json_t *values = json_array(), *flagged = json_array();
	for (size_t k = 0; k < cell->completed_count; k++) {
		double value = figure->values[k];
		json_array_append_new(values, number_or_null(!isnan(value), value));
		if (value < figure->fence_lo || value > figure->fence_hi)
			json_array_append_new(flagged, json_integer(cell->completed[k]->run));
	}
	json_object_set_new(out, "values", values);
	json_object_set_new(out, "flagged", flagged);
	return out;
}

/* The parts of one run, the one with the median peak: those of several are never stacked. */
static json_t *memory_parts(const struct cell *cell)
{
	static const char *const names[] = {"memory_peak_bytes", "memory_peak_cold_bytes"};
	const struct cell_figure *figure =
		&cell->figures[figure_key_find(names[cell->first->cold ? 1 : 0])];
	if (!figure->known)
		return json_null();
	const struct run_record *nearest = NULL;
	double distance = INFINITY, peak = 0;
	for (size_t k = 0; k < cell->completed_count; k++) {
		double from_median = fabs(figure->values[k] - figure->median);
		if (isnan(from_median) || from_median >= distance ||
			!run_record_figure(cell->completed[k], "memory_at_peak"))
			continue;
		distance = from_median;
		peak = figure->values[k];
		nearest = cell->completed[k];
	}
	if (!nearest)
		return json_null();
	json_t *out = json_copy((json_t *)run_record_figure(nearest, "memory_at_peak"));
	json_object_set_new(out, "run", json_integer(nearest->run));
	json_object_set_new(out, "memory_peak_bytes", number(peak));
	return out;
}

/* How often each outcome came, and each that is not ok in words. */
static void set_outcomes(json_t *out, const struct cell *cell)
{
	json_t *counts = json_object(), *failures = json_array();
	for (int outcome = 0; outcome < OUTCOME_COUNT; outcome++) {
		json_int_t count = 0;
		for (size_t i = 0; i < cell->attempted; i++)
			count += (int)cell->runs[i]->outcome == outcome;
		if (count)
			json_object_set_new(
				counts, outcome_name((enum outcome)outcome), json_integer(count));
	}
	for (size_t i = 0; i < cell->attempted; i++) {
		const struct run_record *run = cell->runs[i];
		if (run->outcome == OUTCOME_OK)
			continue;
		json_t *failure = json_object();
		json_object_set_new(failure, "run", json_integer(run->run));
		json_object_set_new(failure, "outcome", json_string(outcome_name(run->outcome)));
		json_object_set_new(failure, "detail", text(run->detail));
		json_array_append_new(failures, failure);
	}
	json_object_set_new(out, "outcomes", counts);
	json_object_set_new(out, "failures", failures);
}

/* What all cells of a setting have in common. */
static void set_setting(json_t *out, const struct run_record *run)
{
	const json_t *asked = json_object_get(run->limits, "asked");
	json_object_set_new(out, "scenario", json_string(run->scenario));
	json_object_set_new(out, "limits", asked ? json_incref((json_t *)asked) : json_null());
	json_object_set_new(out, "placement", json_string(run->placement));
	json_object_set_new(out, "track", json_string(run->track));
	json_object_set_new(out, "mode", json_string(run->mode));
	json_object_set_new(out, "cgroup_backend", json_string(run->backend));
	json_object_set_new(out, "cold", json_boolean(run->cold));
	json_object_set_new(out, "timed", json_boolean(run->timed));
	json_object_set_new(out, "suite_tool", json_boolean(run->suite_tool));
	json_object_set_new(out, "machine_id", json_string(run->machine_id));
	json_object_set_new(out, "suite_version", json_string(run->suite_version));
}

static json_t *cell_json(const struct cell *cell)
{
	json_t *out = json_object();
	json_object_set_new(out, "contender", json_string(cell->contender));
	json_object_set_new(out, "sessions", json_integer(cell->sessions));
	json_object_set_new(out, "setting", json_integer((json_int_t)cell->setting_number));
	set_setting(out, cell->first);
	json_object_set_new(out, "attempted", json_integer((json_int_t)cell->attempted));
	json_object_set_new(out, "completed", json_integer((json_int_t)cell->completed_count));
	set_outcomes(out, cell);
	json_t *runs = json_array(), *blocks = json_array();
	for (size_t i = 0; i < cell->completed_count; i++) {
		json_array_append_new(runs, json_integer(cell->completed[i]->run));
		json_array_append_new(blocks, json_integer(cell->completed[i]->block));
	}
	json_object_set_new(out, "runs", runs);
	json_object_set_new(out, "blocks", blocks);
	json_t *figures_ = json_object();
	for (size_t i = 0; i < figure_keys_count; i++)
		json_object_set_new(figures_, figure_key(i)->name, figure_json(cell, i));
	json_object_set_new(out, "figures", figures_);
	json_object_set_new(out, "memory_at_peak", memory_parts(cell));
	return out;
}

static json_t *all_cells_json(const struct cells *cells)
{
	json_t *out = json_array();
	for (size_t i = 0; i < cells->count; i++)
		json_array_append_new(out, cell_json(&cells->list[i]));
	return out;
}

static json_t *settings_json(const struct cells *cells)
{
	json_t *out = json_array();
	for (size_t i = 0; i < cells->count; i++) {
		if (i && cells->list[i].setting_number == cells->list[i - 1].setting_number)
			continue;
		json_t *setting = json_object();
		set_setting(setting, cells->list[i].first);
		json_array_append_new(out, setting);
	}
	return out;
}

/* ---- ratios */

struct comparison {
	const json_t *plan;
	const struct cells *cells;
	json_t *cells_json; /* of the same cells, in the same order */
	json_t *ratios;
};

/*
 * Add left ÷ right to the ratios; the figure of the left cell points there: {"best": 12}. `kind`
 * says what the right one is.
 */
static void add_ratio(
	struct comparison *to, size_t left, size_t right, size_t key, const char *kind)
{
	const struct cells *cells = to->cells;
	const struct cell *cell = &cells->list[left], *against = &cells->list[right];
	struct ratio ratio;
	const char *why;
	json_t *out = json_object();
	json_object_set_new(out, "figure", json_string(figure_key(key)->name));
	json_object_set_new(out, "kind", json_string(kind));
	json_object_set_new(out, "setting", json_integer((json_int_t)cell->setting_number));
	json_object_set_new(out, "scenario", json_string(cell->first->scenario));
	json_object_set_new(out, "sessions", json_integer(cell->sessions));
	json_object_set_new(out, "contender", json_string(cell->contender));
	json_object_set_new(out, "against", json_string(against->contender));
	bool known = cells_ratio(cell, against, key, CELL_CONFIDENCE, &ratio, &why);
	json_object_set_new(out, "ratio", known ? json_real(ratio.value) : json_null());
	json_object_set_new(out, "lo", known ? json_real(ratio.lo) : json_null());
	json_object_set_new(out, "hi", known ? json_real(ratio.hi) : json_null());
	json_object_set_new(out, "confidence",
		known && ratio.confidence > 0 ? json_real(ratio.confidence) : json_null());
	json_object_set_new(out, "n", json_integer(known ? (json_int_t)ratio.pairs : 0));
	if (!known)
		json_object_set_new(out, "missing", json_string(why));
	json_t *figure =
		json_object_get(json_object_get(json_array_get(to->cells_json, left), "figures"),
			figure_key(key)->name);
	json_t *of_figure = json_object_get(figure, "ratios");
	if (!of_figure) {
		of_figure = json_object();
		json_object_set_new(figure, "ratios", of_figure);
	}
	json_object_set_new(of_figure, kind, json_integer((json_int_t)json_array_size(to->ratios)));
	json_array_append_new(to->ratios, out);
}

/* Its manifest, which the plan holds, says so. */
static bool is_yardstick(const json_t *plan, const char *contender)
{
	const json_t *files = json_object_get(json_object_get(plan, "files"), "contenders");
	return json_is_true(json_object_get(json_object_get(files, contender), "yardstick"));
}

/*
 * Of the cells begin … end, alike but for the contender: each against the best by its median, and
 * against the yardstick where it ran. The yardstick is no contender, so it is never the best.
 */
static void compare_group(struct comparison *to, size_t begin, size_t end, size_t key)
{
	const struct cells *cells = to->cells;
	size_t best = end, yardstick = end;
	for (size_t i = begin; i < end; i++) {
		const struct cell *cell = &cells->list[i];
		if (!cell->figures[key].known)
			continue;
		if (is_yardstick(to->plan, cell->contender))
			yardstick = i;
		else if (best == end ||
			 cell->figures[key].median < cells->list[best].figures[key].median)
			best = i;
	}
	for (size_t i = begin; i < end; i++) {
		if (!cells->list[i].figures[key].known)
			continue;
		if (best != end && i != best && !is_yardstick(to->plan, cells->list[i].contender))
			add_ratio(to, i, best, key, "best");
		if (yardstick != end && i != yardstick)
			add_ratio(to, i, yardstick, key, "yardstick");
	}
}

static json_t *compare(const json_t *plan, const struct cells *cells, json_t *cells_json)
{
	struct comparison to = {plan, cells, cells_json, json_array()};
	for (size_t begin = 0, end; begin < cells->count; begin = end) {
		const struct cell *first = &cells->list[begin];
		end = begin + 1;
		while (end < cells->count && cells->list[end].sessions == first->sessions &&
			cells->list[end].setting_number == first->setting_number)
			end++;
		for (size_t key = 0; key < figure_keys_count; key++) {
			if (figure_key_compared(figure_key(key)))
				compare_group(&to, begin, end, key);
		}
	}
	return to.ratios;
}

/* ---- the rest */

static json_t *excluded_json(const struct results *results)
{
	json_t *out = json_array();
	for (size_t i = 0; i < results->run_count; i++) {
		const struct run_record *run = &results->runs[i];
		if (run->valid || run->warm_up)
			continue;
		json_t *excluded = json_object();
		json_object_set_new(excluded, "run", json_integer(run->run));
		json_object_set_new(excluded, "block", json_integer(run->block));
		json_object_set_new(excluded, "contender", json_string(run->contender));
		json_object_set_new(excluded, "sessions", json_integer(run->sessions));
		json_object_set_new(excluded, "scenario", json_string(run->scenario));
		json_object_set_new(excluded, "outcome", json_string(outcome_name(run->outcome)));
		json_object_set(excluded, "reasons", (json_t *)run->invalid_reasons);
		json_array_append_new(out, excluded);
	}
	return out;
}

/* The name and a text of each file that the plan holds, in the plan's order. */
static json_t *named(const json_t *plan, const char *list, const char *text_member)
{
	const json_t *files = json_object_get(json_object_get(plan, "files"), list);
	json_t *out = json_array();
	size_t i;
	const json_t *name;
	json_array_foreach(json_object_get(plan, list), i, name)
	{
		if (!json_is_string(name))
			continue;
		const json_t *file = json_object_get(files, json_string_value(name));
		const json_t *value = json_object_get(file, text_member);
		json_t *item = json_object();
		json_object_set(item, "name", (json_t *)name);
		json_object_set(
			item, text_member, (json_t *)(json_is_string(value) ? value : name));
		json_array_append_new(out, item);
	}
	return out;
}

/* What a session does in it, as the plan has it: with what was overridden. */
static json_t *scenarios_json(const json_t *plan)
{
	static const char *const copied[] = {
		"turns", "system_prompt_bytes", "ttft_ms", "chunk_interval_ms", "chunks", "tools"};
	const json_t *files = json_object_get(json_object_get(plan, "files"), "scenarios");
	json_t *out = named(plan, "scenarios", "description");
	size_t i;
	json_t *scenario;
	json_array_foreach(out, i, scenario)
	{
		const json_t *file = json_object_get(
			files, json_string_value(json_object_get(scenario, "name")));
		for (size_t k = 0; k < sizeof copied / sizeof *copied; k++) {
			json_t *value = json_object_get(file, copied[k]);
			if (value)
				json_object_set(scenario, copied[k], value);
		}
	}
	return out;
}

static json_t *plan_json(const json_t *plan)
{
	json_t *out = json_object();
	static const char *const copied[] = {
		"name", "description", "repetitions", "seed", "limits", "bounds", "run_timeout_s"};
	for (size_t i = 0; i < sizeof copied / sizeof *copied; i++) {
		json_t *value = json_object_get(plan, copied[i]);
		json_object_set_new(out, copied[i], value ? json_incref(value) : json_null());
	}
	json_t *contenders = named(plan, "contenders", "title");
	size_t i;
	json_t *contender;
	json_array_foreach(contenders, i, contender)
	{
		const char *name = json_string_value(json_object_get(contender, "name"));
		if (is_yardstick(plan, name))
			json_object_set_new(contender, "yardstick", json_true());
	}
	json_object_set_new(out, "contenders", contenders);
	json_object_set_new(out, "scenarios", scenarios_json(plan));
	return out;
}

static json_t *definitions_json(void)
{
	json_t *out = json_object();
	for (size_t i = 0; i < figures_count; i++)
		json_object_set_new(out, figures[i].name,
			json_pack("{s:s, s:s, s:s}", "title", figures[i].title, "unit",
				figures[i].unit, "definition", figures[i].definition));
	return out;
}

/* Is the same said in the list already? */
static bool is_said(const json_t *warnings, const json_t *finding)
{
	size_t i;
	const json_t *warning;
	json_array_foreach(warnings, i, warning)
	{
		if (json_equal(json_object_get(warning, "id"), json_object_get(finding, "id")) &&
			json_equal(json_object_get(warning, "found"),
				json_object_get(finding, "found")))
			return true;
	}
	return false;
}

/* Those of a look of the doctor; `first_run` is NULL of the one before the first run. */
static void add_warnings(json_t *out, const json_t *findings, const json_t *first_run)
{
	size_t i;
	json_t *finding;
	json_array_foreach((json_t *)findings, i, finding)
	{
		const char *status = json_string_value(json_object_get(finding, "status"));
		if (!status || strcmp(status, "warn") || is_said(out, finding))
			continue;
		json_t *warning = json_copy(finding);
		if (json_is_integer(first_run))
			json_object_set(warning, "first_run", (json_t *)first_run);
		json_array_append_new(out, warning);
	}
}

/* What the doctor warned of before the first run, and whenever the plan was gone on with. */
static json_t *warnings_json(const json_t *environment)
{
	json_t *out = json_array();
	size_t i;
	const json_t *resumed;
	add_warnings(out, json_object_get(environment, "doctor"), NULL);
	json_array_foreach(json_object_get(environment, "resumed"), i, resumed)
	{
		add_warnings(out, json_object_get(resumed, "doctor"),
			json_object_get(resumed, "first_run"));
	}
	return out;
}

/* The label of the first run. */
static json_t *first_start(const struct results *results)
{
	json_t *label = json_object_get(results->runs[0].json, "started_at");
	return json_is_string(label) ? json_incref(label) : json_null();
}

static size_t warm_ups(const struct results *results)
{
	size_t count = 0;
	for (size_t i = 0; i < results->run_count; i++)
		count += results->runs[i].warm_up;
	return count;
}

/* Readers must see at once what stands apart and why. */
static void note_differences(struct results *results)
{
	const struct {
		size_t offset;
		const char *note;
	} rows[] = {
		{offsetof(struct run_record, backend), "runs were measured by more than one cgroup "
						       "backend: their figures stand apart "
						       "and are never compared"},
		{offsetof(struct run_record, machine_id),
			"runs were measured on more than one machine: their figures stand apart "
			"and are "
			"never compared"},
		{offsetof(struct run_record, suite_version),
			"runs were measured by more than one version of the suite: their figures "
			"stand "
			"apart and are never compared"},
	};
	for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
		bool differ = false;
		for (size_t i = 1; i < results->run_count; i++) {
			const char *const *a =
				(const void *)((char *)&results->runs[0] + rows[k].offset);
			const char *const *b =
				(const void *)((char *)&results->runs[i] + rows[k].offset);
			differ = differ || strcmp(*a, *b);
		}
		if (differ)
			json_array_append_new(results->notes, json_string(rows[k].note));
	}
}

static json_t *make(int dir_fd, struct error *err)
{
	struct results auto_results results = {.plan = NULL};
	if (results_read(dir_fd, &results, err))
		return NULL;
	struct cells auto_cells cells = {NULL, 0};
	if (cells_make(dir_fd, &results, &cells, err))
		return NULL;
	json_t *hypotheses = hypotheses_judge(results.plan, &cells, "plan.json", err);
	if (!hypotheses)
		return NULL;
	note_differences(&results);

	json_t *summary = json_object();
	json_object_set_new(summary, "schema", json_integer(SUMMARY_SCHEMA));
	json_object_set_new(summary, "plan_sha256", json_string(results.plan_sha256));
	json_object_set_new(summary, "plan", plan_json(results.plan));
	json_object_set_new(summary, "started_at", first_start(&results));
	json_object_set_new(summary, "runs", json_integer((json_int_t)results.run_count));
	json_object_set_new(summary, "warm_ups", json_integer((json_int_t)warm_ups(&results)));
	json_object_set_new(summary, "notes", json_incref(results.notes));
	json_object_set_new(summary, "warnings", warnings_json(results.environment));
	json_object_set_new(summary, "settings", settings_json(&cells));
	json_t *cells_json = all_cells_json(&cells);
	json_object_set_new(summary, "cells", cells_json);
	json_object_set_new(summary, "ratios", compare(results.plan, &cells, cells_json));
	json_object_set_new(summary, "hypotheses", hypotheses);
	json_object_set_new(summary, "excluded", excluded_json(&results));
	json_object_set_new(summary, "environment",
		results.environment ? json_incref(results.environment) : json_null());
	json_object_set_new(summary, "definitions", definitions_json());
	return summary;
}

json_t *summary_make(int dir_fd, const char *where, struct error *err)
{
	json_t *summary = make(dir_fd, err);
	if (!summary)
		error_prefix(err, "%s", where);
	return summary;
}

static int write_all(int dir_fd, const json_t *summary, struct error *err)
{
	auto_free char *json = json_dumps(summary, JSON_INDENT(1) | JSON_REAL_PRECISION(12));
	if (!json)
		die_oom();
	if (file_write(dir_fd, "summary.json", json, strlen(json), err))
		return -1;
	static const struct {
		const char *name;
		void (*write)(const json_t *summary, struct buf *out);
	} files[] = {
		{"summary.csv", report_csv},
		{"summary.md", report_markdown},
		{"report.html", report_html},
	};
	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		auto_buf struct buf out;
		buf_init(&out, REPORT_MAX);
		files[i].write(summary, &out);
		if (file_write(dir_fd, files[i].name, out.data, out.length, err))
			return -1;
	}
	return 0;
}

int report_write(int dir_fd, const char *where, json_t **summary, struct error *err)
{
	json_auto_t *made = summary_make(dir_fd, where, err);
	if (!made)
		return -1;
	if (write_all(dir_fd, made, err))
		return error_prefix(err, "%s", where);
	if (summary)
		*summary = json_incref(made);
	return 0;
}

char *summary_terminal(const json_t *summary, bool colour, size_t width)
{
	struct buf out;
	buf_init(&out, REPORT_MAX);
	report_terminal(summary, colour, width, &out);
	return out.data ? out.data : xstrdup("");
}
