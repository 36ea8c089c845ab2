#include "collector/hypotheses.h"

#include "collector/cells.h"
#include "collector/stats.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"

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
};

static int read_cells(const json_t *object, const char *where, const char *path,
	struct hypothesis *out, struct error *err)
{
	auto_free char *inner = xasprintf("%s.cells", path);
	const struct json_field fields[] = {
		{"left", JSON_FIELD_TEXT, false, &out->left, 1, NAME_MAX_BYTES, 0, 0,
			"a contender of the plan"},
		{"right", JSON_FIELD_TEXT, true, &out->right, 1, NAME_MAX_BYTES, 0, 0,
			"another, which left is divided by; absent: left's median itself"},
		{"scenario", JSON_FIELD_TEXT, false, &out->scenario, 1, NAME_MAX_BYTES, 0, 0,
			"a scenario of the plan"},
		{"sessions", JSON_FIELD_INT, false, &out->sessions, 1, 10000, 0, 0,
			"a number of sessions of the plan"},
	};
	return json_read_fields(object, where, inner, fields, sizeof fields / sizeof *fields, err);
}

static int read_hypothesis(const json_t *object, const char *where, const char *path,
	struct hypothesis *out, struct error *err)
{
	*out = (struct hypothesis){.relation = "", .left = "", .scenario = ""};
	const json_t *cells;
	const struct json_field fields[] = {
		{"statement", JSON_FIELD_TEXT, false, &out->statement, 1, STATEMENT_MAX, 0, 0,
			"what is claimed, in words"},
		{"figure", JSON_FIELD_TEXT, false, &out->figure, 1, NAME_MAX_BYTES, 0, 0,
			"a figure of docs/method.md; of a per-turn one a statistic: "
			"overhead_ms.p50"},
		{"cells", JSON_FIELD_OBJECT, false, &cells, 0, 0, 0, 0, "what is compared"},
		{"relation", JSON_FIELD_TEXT, false, &out->relation, 1, 2, 0, 0, "<, <=, > or >="},
		{"threshold", JSON_FIELD_REAL, false, &out->threshold, 0, 0, -1e18, 1e18,
			"of the ratio, or in the figure's unit"},
	};
	if (!json_is_object(object))
		return error_set(err, 0, "%s: %s: must be an object, is %s", where, path,
			json_describe(object));
	if (json_read_fields(object, where, path, fields, sizeof fields / sizeof *fields, err) ||
		read_cells(cells, where, path, out, err))
		return -1;
	out->key = figure_key_find(out->figure);
	if (out->key == figure_keys_count)
		return error_set(err, 0, "%s: %s.figure: there is no figure \"%s\"%s", where, path,
			out->figure,
			figure_find(out->figure) ? ", it needs a statistic like .p50" : "");
	static const char *const relations[] = {"<", "<=", ">", ">="};
	for (size_t i = 0; i < sizeof relations / sizeof *relations; i++) {
		if (!strcmp(out->relation, relations[i]))
			return 0;
	}
	return error_set(err, 0, "%s: %s.relation: must be <, <=, > or >=, is \"%s\"", where, path,
		out->relation);
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
	return read_hypothesis(object, where, path, out, err) ||
			       check_names(plan, out, where, path, err)
		       ? -1
		       : 0;
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

/* The cell meant; *why is set where there is none or where the records have two kinds of it. */
static const struct cell *find_cell(const struct cells *cells, const char *contender,
	const struct hypothesis *hypothesis, const char **why)
{
	const struct cell *found = NULL;
	for (size_t i = 0; i < cells->count; i++) {
		const struct cell *cell = &cells->list[i];
		if (strcmp(cell->contender, contender) || cell->sessions != hypothesis->sessions ||
			strcmp(cell->first->scenario, hypothesis->scenario))
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
		out = (struct finding){true, ratio.confidence > 0, ratio.value, ratio.lo, ratio.hi,
			ratio.pairs, NULL};
	}
	if (out.estimated && !out.interval)
		out.why = "too few blocks for an interval at this confidence";
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
	double lo = less ? finding->lo : -finding->hi, hi = less ? finding->hi : -finding->lo;
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
		json_object_set_new(judged, "n", json_integer((json_int_t)finding.pairs));
		json_object_set_new(judged, "verdict", json_string(verdict(&hypothesis, &finding)));
		json_object_set_new(
			judged, "reason", finding.why ? json_text(finding.why, 400) : json_null());
		json_array_append_new(out, judged);
	}
	return json_incref(out);
}
