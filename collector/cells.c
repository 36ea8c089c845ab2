#include "collector/cells.h"

#include "collector/record.h"
#include "collector/samples.h"
#include "collector/stats.h"
#include "common/cleanup.h"
#include "common/error.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

size_t plan_position(const json_t *plan, const char *list, const char *name)
{
	const json_t *names = json_object_get(plan, list);
	size_t i = 0;
	while (i < json_array_size(names)) {
		const char *item = json_string_value(json_array_get(names, i));
		if (item && !strcmp(item, name))
			break;
		i++;
	}
	return i;
}

/* ---- grouping */

/*
 * All that must be equal between two cells for a comparison. The backend is among it, since v1 and
 * v2 charge differently; machine and version, since a resumed plan could have met others.
 */
static char *setting_of(const struct run_record *run)
{
	json_auto_t *all = json_pack("[s,s,s,s,s,s,s,b,b]", run->scenario, run->placement,
		run->track, run->mode, run->backend, run->machine_id, run->suite_version, run->cold,
		run->timed);
	json_array_append(all, json_object_get(run->limits, "asked"));
	char *text = json_dumps(all, JSON_COMPACT | JSON_SORT_KEYS);
	if (!text)
		die_oom();
	return text;
}

/* A run with what it is sorted by. */
struct entry {
	const struct run_record *run;
	char *setting;
	size_t scenario, contender; /* places in the plan */
};

static int by_cell(const struct entry *a, const struct entry *b)
{
	if (a->scenario != b->scenario)
		return a->scenario < b->scenario ? -1 : 1;
	int order = strcmp(a->setting, b->setting);
	if (order)
		return order;
	if (a->run->sessions != b->run->sessions)
		return a->run->sessions < b->run->sessions ? -1 : 1;
	if (a->contender != b->contender)
		return a->contender < b->contender ? -1 : 1;
	return strcmp(a->run->contender, b->run->contender);
}

static int by_cell_and_line(const void *left, const void *right)
{
	const struct entry *a = left, *b = right;
	int order = by_cell(a, b);
	return order ? order : (a->run > b->run) - (a->run < b->run);
}

static void add_run(struct cell *cell, const struct run_record *run)
{
	cell->runs = xrealloc(cell->runs, (cell->attempted + 1) * sizeof *cell->runs);
	cell->runs[cell->attempted++] = run;
	if (run->outcome != OUTCOME_OK)
		return;
	cell->completed =
		xrealloc(cell->completed, (cell->completed_count + 1) * sizeof *cell->completed);
	cell->completed[cell->completed_count++] = run;
}

/* Cells of runs that were all excluded are there too, with nothing attempted. */
static void group(const struct results *results, struct cells *out)
{
	auto_free struct entry *entries = xmalloc((results->run_count + 1) * sizeof *entries);
	size_t count = 0;
	for (size_t i = 0; i < results->run_count; i++) {
		const struct run_record *run = &results->runs[i];
		if (run->warm_up)
			continue;
		entries[count++] = (struct entry){run, setting_of(run),
			plan_position(results->plan, "scenarios", run->scenario),
			plan_position(results->plan, "contenders", run->contender)};
	}
	if (count)
		qsort(entries, count, sizeof *entries, by_cell_and_line);
	for (size_t i = 0; i < count; i++) {
		if (!i || by_cell(&entries[i - 1], &entries[i])) {
			out->list = xrealloc(out->list, (out->count + 1) * sizeof *out->list);
			struct cell *before = out->count ? &out->list[out->count - 1] : NULL;
			size_t number = before ? before->setting_number : 0;
			if (before && strcmp(before->setting, entries[i].setting))
				number++;
			out->list[out->count++] = (struct cell){
				.contender = entries[i].run->contender,
				.sessions = entries[i].run->sessions,
				.first = entries[i].run,
				.setting = xstrdup(entries[i].setting),
				.setting_number = number,
			};
		}
		if (entries[i].run->valid)
			add_run(&out->list[out->count - 1], entries[i].run);
	}
	for (size_t i = 0; i < count; i++)
		free(entries[i].setting);
}

/* ---- figures of a cell */

/* The samples of the cell's completed runs together; *why is set where they are not to be had. */
static int pool_samples(int dir_fd, struct results *results, const struct cell *cell,
	struct turn_figures *pool, bool *complete, struct error *err)
{
	*complete = true;
	for (size_t i = 0; i < cell->completed_count; i++) {
		const struct run_record *run = cell->completed[i];
		auto_free char *name = xasprintf("samples/%" PRId64 ".csv", run->run);
		struct samples auto_samples samples = {NULL, 0};
		struct error fault = {0, ""};
		if (samples_read(dir_fd, name, &samples, &fault)) {
			if (fault.code != ENOENT) {
				*err = fault;
				return -1;
			}
			json_array_append_new(results->notes,
				json_sprintf(
					"%s is not there: its cell has no pooled figures", name));
			*complete = false;
			continue;
		}
		turn_figures_add(pool, &samples, run->suite_tool);
	}
	return 0;
}

/* A run's number for a key, NAN if it has none. */
static double run_value(const struct run_record *run, const struct figure_key *key)
{
	const json_t *value = run_record_figure(run, key->figure->name);
	if (value && key->statistic) {
		/* A high percentile of few samples is one of them: no figure of the run. */
		if (json_integer_value(json_object_get(value, "n")) <
			(json_int_t)key->statistic->pool_min)
			return NAN;
		value = json_object_get(value, key->statistic->name);
	}
	return json_is_number(value) ? json_number_value(value) : NAN;
}

/* The reason that stands in the records, or that a percentile needs more samples. */
static char *missing_value(const struct cell *cell, const struct figure_key *key)
{
	const struct run_record *run = cell->completed[0];
	if (run_record_figure(run, key->figure->name))
		return xasprintf("needs %zu samples in each run",
			key->statistic ? key->statistic->pool_min : (size_t)1);
	return xstrdup(run_record_missing(run, key->figure->name));
}

/* Why a cell can have no value of a figure at all; NULL if it can. */
static char *no_estimate(const struct cell *cell, const struct figure_key *key)
{
	if (!cell->attempted)
		return xstrdup("no valid run");
	if (!cell->estimated)
		return xasprintf("%zu of %zu runs did not end well",
			cell->attempted - cell->completed_count, cell->attempted);
	if (!cell->first->timed && key->figure->time)
		return xstrdup("no times: the machine was emulated");
	return NULL;
}

static void estimate(struct cell_figure *figure, const struct cell *cell)
{
	auto_free double *sorted = xmalloc((cell->completed_count + 1) * sizeof *sorted);
	size_t count = 0;
	for (size_t i = 0; i < cell->completed_count; i++) {
		if (!isnan(figure->values[i]))
			sorted[count++] = figure->values[i];
	}
	figure->count = count;
	if (!count)
		return;
	stats_sort(sorted, count);
	figure->known = true;
	figure->median = stats_percentile(sorted, count, 0.5);
	struct stats_interval interval = {sorted[0], sorted[count - 1], 0};
	stats_median_interval(sorted, count, CELL_CONFIDENCE, &interval);
	figure->lo = interval.lo;
	figure->hi = interval.hi;
	figure->confidence = interval.confidence;
	stats_fences(sorted, count, &figure->fence_lo, &figure->fence_hi);
}

static void pool_figure(
	struct cell_figure *figure, const struct figure_key *key, struct turn_figures *pool)
{
	struct series *series = turn_figures_series(pool, key->figure->name);
	json_auto_t *distribution = series_distribution(series);
	if (!distribution)
		return;
	figure->samples = series->count;
	figure->negative = (size_t)json_integer_value(json_object_get(distribution, "negative"));
	if (figure->samples < key->statistic->pool_min)
		return;
	figure->pooled_known = true;
	figure->pooled = json_real_value(json_object_get(distribution, key->statistic->name));
}

/* A peak at the limit may have wanted more; between two samples there may have been more. */
static bool is_lower_bound(const struct run_record *run)
{
	return run->at_limit || !strcmp(run->backend, record_backend_name(CGROUP_V2_SAMPLED));
}

static void make_figure(struct cell *cell, size_t i, struct turn_figures *pool)
{
	const struct figure_key *key = figure_key(i);
	struct cell_figure *figure = &cell->figures[i];
	figure->values = xmalloc((cell->completed_count + 1) * sizeof *figure->values);
	for (size_t k = 0; k < cell->completed_count; k++)
		figure->values[k] = NAN;
	figure->missing = no_estimate(cell, key);
	if (figure->missing)
		return;
	bool memory = !strncmp(key->figure->name, "memory_", 7);
	for (size_t k = 0; k < cell->completed_count; k++) {
		figure->values[k] = run_value(cell->completed[k], key);
		figure->at_least |= memory && is_lower_bound(cell->completed[k]);
	}
	estimate(figure, cell);
	if (key->statistic && pool)
		pool_figure(figure, key, pool);
	if (!figure->known)
		figure->missing = missing_value(cell, key);
}

int cells_make(int dir_fd, struct results *results, struct cells *out, struct error *err)
{
	struct cells auto_cells cells = {NULL, 0};
	group(results, &cells);
	for (size_t i = 0; i < cells.count; i++) {
		struct cell *cell = &cells.list[i];
		size_t failed = cell->attempted - cell->completed_count;
		cell->estimated = cell->completed_count &&
				  (double)failed <= CELL_FAILED_MAX * (double)cell->attempted;
		cell->figures = xcalloc(figure_keys_count, sizeof *cell->figures);
		struct turn_figures auto_turn_figures pool = {.correct_turns = 0};
		bool complete;
		if (pool_samples(dir_fd, results, cell, &pool, &complete, err))
			return -1;
		for (size_t k = 0; k < figure_keys_count; k++)
			make_figure(cell, k, complete ? &pool : NULL);
	}
	*out = cells;
	cells = (struct cells){NULL, 0};
	return 0;
}

void cells_release(struct cells *cells)
{
	for (size_t i = 0; i < cells->count; i++) {
		struct cell *cell = &cells->list[i];
		for (size_t k = 0; cell->figures && k < figure_keys_count; k++) {
			free(cell->figures[k].values);
			free(cell->figures[k].missing);
		}
		free(cell->figures);
		free(cell->setting);
		free(cell->runs);
		free(cell->completed);
	}
	free(cells->list);
	*cells = (struct cells){NULL, 0};
}

/* ---- comparing */

struct block_value {
	int64_t block;
	size_t place; /* among the completed runs */
	double value;
};

static int by_block(const void *left, const void *right)
{
	const struct block_value *a = left, *b = right;
	if (a->block != b->block)
		return a->block < b->block ? -1 : 1;
	return (a->place > b->place) - (a->place < b->place);
}

/* By block, one value each: of its last completed run that has the figure. free() the list. */
static size_t block_values(const struct cell *cell, size_t key, struct block_value **out)
{
	struct block_value *list = xmalloc((cell->completed_count + 1) * sizeof *list);
	size_t count = 0, kept = 0;
	for (size_t i = 0; i < cell->completed_count; i++) {
		double value = cell->figures[key].values[i];
		if (!isnan(value))
			list[count++] = (struct block_value){cell->completed[i]->block, i, value};
	}
	qsort(list, count, sizeof *list, by_block);
	for (size_t i = 0; i < count; i++) {
		if (i + 1 == count || list[i + 1].block != list[i].block)
			list[kept++] = list[i];
	}
	*out = list;
	return kept;
}

/*
 * The pairs of a comparison: log(left / right) of each block in which both have the figure. Returns
 * their number; *values is malloc'ed. -1, and the reason in *why (static), when the two cannot be
 * compared: other setting or sessions, no estimate, values that are not above zero.
 */
static int cells_pair(const struct cell *left, const struct cell *right, size_t key,
	double **values, const char **why)
{
	*why = NULL;
	if (strcmp(left->setting, right->setting) || left->sessions != right->sessions)
		*why = "measured under different conditions";
	else if (!left->figures[key].known || !right->figures[key].known)
		*why = "one side has no estimate";
	if (*why)
		return -1;
	auto_free struct block_value *a = NULL, *b = NULL;
	size_t a_count = block_values(left, key, &a), b_count = block_values(right, key, &b);
	auto_free double *logs = xmalloc((a_count + 1) * sizeof *logs);
	int count = 0;
	for (size_t i = 0, k = 0; i < a_count; i++) {
		while (k < b_count && b[k].block < a[i].block)
			k++;
		if (k == b_count || b[k].block != a[i].block)
			continue;
		if (a[i].value <= 0 || b[k].value <= 0) {
			/* Leaving such blocks out would choose among the data. */
			*why = "a value is not above zero: there is no ratio";
			return -1;
		}
		logs[count++] = log(a[i].value / b[k].value);
	}
	if (!count) {
		*why = "no block has both";
		return -1;
	}
	*values = steal_ptr(logs);
	return count;
}

bool cells_ratio(const struct cell *left, const struct cell *right, size_t key, double confidence,
	struct ratio *out, const char **why)
{
	auto_free double *logs = NULL;
	int pairs = cells_pair(left, right, key, &logs, why);
	if (pairs < 0)
		return false;
	double estimate;
	struct stats_interval interval;
	if (!stats_hodges_lehmann(logs, (size_t)pairs, confidence, &estimate, &interval)) {
		stats_sort(logs, (size_t)pairs);
		interval = (struct stats_interval){logs[0], logs[pairs - 1], 0};
	}
	*out = (struct ratio){exp(estimate), exp(interval.lo), exp(interval.hi),
		interval.confidence, (size_t)pairs};
	return true;
}
