#include "collector/hypotheses.h"

#include "collector/cells.h"
#include "collector/plan.h"
#include "collector/stats.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"
#include "common/json_schema.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { STATEMENT_MAX = 1000, NAME_MAX_BYTES = 200 };

struct hypothesis {
	const char *statement, *figure, *relation;
	double threshold;
	size_t key;
	const char *left, *right, *scenario; /* right is NULL: left's median itself */
	int64_t sessions;
	const json_t *cells;
	const char *track; /* the plan's: its cells are of one track */
};

static const struct json_field cell_fields[] = {
	{"left", JSON_FIELD_TEXT, false, JSON_AT(struct hypothesis, left), 1, NAME_MAX_BYTES, 0, 0,
		"a contender of the plan"},
	{"right", JSON_FIELD_TEXT, true, JSON_AT(struct hypothesis, right), 1, NAME_MAX_BYTES, 0, 0,
		"another, which left is divided by; absent: left's median itself"},
	{"scenario", JSON_FIELD_TEXT, false, JSON_AT(struct hypothesis, scenario), 1,
		NAME_MAX_BYTES, 0, 0, "a scenario of the plan"},
	{"sessions", JSON_FIELD_INT, false, JSON_AT(struct hypothesis, sessions), 1, 10000, 0, 0,
		"a number of sessions of the plan"},
};
enum { CELL_FIELDS = sizeof cell_fields / sizeof *cell_fields };

static const struct json_field hypothesis_fields[] = {
	{"statement", JSON_FIELD_TEXT, false, JSON_AT(struct hypothesis, statement), 1,
		STATEMENT_MAX, 0, 0, "what is claimed, in words"},
	{"figure", JSON_FIELD_TEXT, false, JSON_AT(struct hypothesis, figure), 1, NAME_MAX_BYTES, 0,
		0, "a figure of docs/method.md; of a per-turn one a statistic: overhead_ms.p50"},
	{"cells", JSON_FIELD_OBJECT, false, JSON_AT(struct hypothesis, cells), 0, 0, 0, 0,
		"what is compared"},
	{"relation", JSON_FIELD_TEXT, false, JSON_AT(struct hypothesis, relation), 1, 2, 0, 0,
		"<, <=, > or >="},
	{"threshold", JSON_FIELD_REAL, false, JSON_AT(struct hypothesis, threshold), 0, 0, -1e18,
		1e18, "of the ratio, or in the figure's unit"},
};
enum { HYPOTHESIS_FIELDS = sizeof hypothesis_fields / sizeof *hypothesis_fields };

static const char *const relations[] = {"<", "<=", ">", ">=", NULL};

static int read_hypothesis(const json_t *object, const char *where, const char *path,
	struct hypothesis *out, struct error *err)
{
	*out = (struct hypothesis){.relation = "", .left = "", .scenario = ""};
	if (!json_is_object(object))
		return error_set(err, 0, "%s: %s: must be an object, is %s", where, path,
			json_describe(object));
	auto_free char *cells = xasprintf("%s.cells", path);
	auto_free char *relation = xasprintf("%s.relation", path);
	if (json_read_struct(object, where, path, hypothesis_fields, HYPOTHESIS_FIELDS, out, err) ||
		json_read_struct(out->cells, where, cells, cell_fields, CELL_FIELDS, out, err))
		return -1;
	out->key = figure_key_find(out->figure);
	if (out->key == figure_keys_count)
		return error_set(err, 0, "%s: %s.figure: there is no figure \"%s\"%s", where, path,
			out->figure,
			figure_find(out->figure) ? ", it needs a statistic like .p50" : "");
	return json_check_choice(out->relation, relations, where, relation, err);
}

json_t *hypotheses_schema(void)
{
	json_t *schema = json_schema_of(hypothesis_fields, HYPOTHESIS_FIELDS, false);
	json_t *keys = json_array();
	for (size_t i = 0; i < figure_keys_count; i++)
		json_array_append_new(keys, json_string(figure_key(i)->name));
	json_schema_refine(schema, "figure", json_pack("{s:o}", "enum", keys));
	json_schema_refine(schema, "cells", json_schema_of(cell_fields, CELL_FIELDS, false));
	json_schema_choices(schema, "relation", relations);
	return schema;
}

/* Names that the plan does not have would leave the hypothesis undecided for ever. */
static int check_names(const json_t *plan, const struct hypothesis *hypothesis, const char *where,
	const char *path, struct error *err)
{
	const struct {
		const char *list, *field, *name;
	} rows[] = {
		{"contenders", "left", hypothesis->left},
		{"contenders", "right", hypothesis->right},
		{"scenarios", "scenario", hypothesis->scenario},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		size_t count = json_array_size(json_object_get(plan, rows[i].list));
		if (rows[i].name && plan_position(plan, rows[i].list, rows[i].name) == count)
			return error_set(err, 0,
				"%s: %s.cells.%s: \"%s\" is not among the plan's %s", where, path,
				rows[i].field, rows[i].name, rows[i].list);
	}
	size_t i;
	const json_t *sessions;
	json_array_foreach(json_object_get(plan, "sessions"), i, sessions)
	{
		if (json_integer_value(sessions) == hypothesis->sessions)
			return 0;
	}
	return error_set(err, 0,
		"%s: %s.cells.sessions: %" PRId64 " is not among the plan's sessions", where, path,
		hypothesis->sessions);
}

static int read_checked(const json_t *plan, const json_t *object, size_t i, const char *where,
	struct hypothesis *out, struct error *err)
{
	auto_free char *path = xasprintf("hypotheses[%zu]", i);
	if (read_hypothesis(object, where, path, out, err) ||
		check_names(plan, out, where, path, err))
		return -1;
	const char *track = json_string_value(json_object_get(plan, "track"));
	out->track = track ? track : PLAN_TRACK;
	return 0;
}

static int check_list(const json_t *plan, const char *where, struct error *err)
{
	const json_t *list = json_object_get(plan, "hypotheses");
	if (!list || json_is_null(list) || json_is_array(list))
		return 0;
	return error_set(
		err, 0, "%s: hypotheses: must be an array, is %s", where, json_describe(list));
}

int hypotheses_check(const json_t *plan, const char *where, struct error *err)
{
	if (check_list(plan, where, err))
		return -1;
	size_t i;
	const json_t *object;
	json_array_foreach(json_object_get(plan, "hypotheses"), i, object)
	{
		struct hypothesis hypothesis;
		if (read_checked(plan, object, i, where, &hypothesis, err))
			return -1;
	}
	return 0;
}

/*
 * The cell meant: of the plan's track, whatever else the records hold. *why is set where there is
 * none or where they have two kinds of it.
 */
static const struct cell *find_cell(const struct cells *cells, const char *contender,
	const struct hypothesis *hypothesis, const char **why)
{
	const struct cell *found = NULL;
	for (size_t i = 0; i < cells->count; i++) {
		const struct cell *cell = &cells->list[i];
		if (strcmp(cell->contender, contender) || cell->sessions != hypothesis->sessions ||
			strcmp(cell->first->scenario, hypothesis->scenario) ||
			strcmp(cell->first->track, hypothesis->track))
			continue;
		if (found) {
			*why = "measured under more than one set of conditions";
			return NULL;
		}
		found = cell;
	}
	if (!found)
		*why = "not measured";
	return found;
}

struct finding {
	bool estimated, interval;
	bool at_least, at_most; /* of lower bounds (struct cell_figure): no end on that side */
	double value, lo, hi;
	size_t pairs;
	const char *why;
};

static void find_median(const struct cell *cell, size_t key, double confidence, struct finding *out)
{
	const struct cell_figure *figure = &cell->figures[key];
	if (!figure->known) {
		out->why = figure->missing;
		return;
	}
	auto_free double *sorted = xmalloc((cell->completed_count + 1) * sizeof *sorted);
	for (size_t i = 0; i < cell->completed_count; i++) {
		if (!isnan(figure->values[i]))
			sorted[out->pairs++] = figure->values[i];
	}
	stats_sort(sorted, out->pairs);
	struct stats_interval interval = {sorted[0], sorted[out->pairs - 1], 0};
	out->interval = stats_median_interval(sorted, out->pairs, confidence, &interval);
	out->estimated = true;
	out->value = figure->median;
	out->lo = interval.lo;
	out->hi = interval.hi;
	out->at_least = figure->at_least;
}

static struct finding find(
	const struct cells *cells, const struct hypothesis *hypothesis, double confidence)
{
	struct finding out = {.why = NULL};
	const struct cell *left = find_cell(cells, hypothesis->left, hypothesis, &out.why);
	if (!left)
		return out;
	if (!hypothesis->right) {
		find_median(left, hypothesis->key, confidence, &out);
	} else {
		const struct cell *right =
			find_cell(cells, hypothesis->right, hypothesis, &out.why);
		struct ratio ratio;
		if (!right ||
			!cells_ratio(left, right, hypothesis->key, confidence, &ratio, &out.why))
			return out;
		out = (struct finding){true, ratio.confidence > 0,
			left->figures[hypothesis->key].at_least,
			right->figures[hypothesis->key].at_least, ratio.value, ratio.lo, ratio.hi,
			ratio.pairs, NULL};
	}
	if (out.estimated && !out.interval)
		out.why = "too few blocks for an interval at this confidence";
	else if (out.at_least || out.at_most)
		out.why = out.at_least && out.at_most ? "both are lower bounds (at the limit, or "
							"sampled): nothing is known of the ratio"
			  : out.at_least ? "left is a lower bound (at its limit, or sampled): it "
					   "is at least this"
					 : "right is a lower bound (at its limit, or sampled): it "
					   "is at most this";
	return out;
}

/* The whole interval on one side decides; a strict relation fails at equality. */
static const char *verdict(const struct hypothesis *hypothesis, const struct finding *finding)
{
	if (!finding->interval)
		return "undecided";
	bool less = hypothesis->relation[0] == '<', or_equal = hypothesis->relation[1] == '=';
	/* mirrored for ">", so that "below the threshold" is the claim */
	double threshold = less ? hypothesis->threshold : -hypothesis->threshold;
	double from = finding->at_most ? -INFINITY : finding->lo;
	double to = finding->at_least ? INFINITY : finding->hi;
	double lo = less ? from : -to, hi = less ? to : -from;
	if (or_equal ? hi <= threshold : hi < threshold)
		return "supported";
	if (or_equal ? lo > threshold : lo >= threshold)
		return "rejected";
	return "undecided";
}

json_t *hypotheses_judge(
	const json_t *plan, const struct cells *cells, const char *where, struct error *err)
{
	if (check_list(plan, where, err))
		return NULL;
	json_auto_t *out = json_array();
	const json_t *list = json_object_get(plan, "hypotheses");
	double confidence = 1 - 0.05 / (double)json_array_size(list);
	size_t i;
	json_t *object;
	json_array_foreach(list, i, object)
	{
		struct hypothesis hypothesis;
		if (read_checked(plan, object, i, where, &hypothesis, err))
			return NULL;
		struct finding finding = find(cells, &hypothesis, confidence);
		json_t *judged = json_copy(object);
		json_object_set_new(judged, "unit",
			json_string(hypothesis.right ? "ratio"
						     : figure_key(hypothesis.key)->figure->unit));
		json_object_set_new(judged, "confidence", json_real(confidence));
		json_object_set_new(judged, "value",
			finding.estimated ? json_real(finding.value) : json_null());
		json_object_set_new(
			judged, "lo", finding.interval ? json_real(finding.lo) : json_null());
		json_object_set_new(
			judged, "hi", finding.interval ? json_real(finding.hi) : json_null());
		if (finding.at_least)
			json_object_set_new(judged, "at_least", json_true());
		if (finding.at_most)
			json_object_set_new(judged, "at_most", json_true());
		json_object_set_new(judged, "n", json_integer((json_int_t)finding.pairs));
		json_object_set_new(judged, "verdict", json_string(verdict(&hypothesis, &finding)));
		json_object_set_new(
			judged, "reason", finding.why ? json_text(finding.why, 400) : json_null());
		json_array_append_new(out, judged);
	}
	return json_incref(out);
}
