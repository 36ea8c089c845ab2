#include "collector/summary_check.h"

#include "collector/figures.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"
#include "common/json_schema.h"

#include <stdint.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { LIST_MAX = 1 << 20, TEXT_MAX = 4096, RUN_MAX = 1 << 30, COUNT_MAX = 1 << 30 };

#define NUMBER_MAX 1e300

/* Nothing is kept of what is read: all values of a kind go to one place. */
struct unused {
	const char *text;
	int64_t integer;
	double real;
	bool flag;
	const json_t *json;
};

#define TEXT(name, optional, help)                                                                 \
	{                                                                                          \
		name, JSON_FIELD_TEXT, optional, JSON_AT(struct unused, text), 0, TEXT_MAX, 0, 0,  \
			help                                                                       \
	}
#define INTEGER(name, optional, min, max, help)                                                    \
	{                                                                                          \
		name, JSON_FIELD_INT, optional, JSON_AT(struct unused, integer), min, max, 0, 0,   \
			help                                                                       \
	}
#define REAL(name, optional, help)                                                                 \
	{                                                                                          \
		name, JSON_FIELD_REAL, optional, JSON_AT(struct unused, real), 0, 0, -NUMBER_MAX,  \
			NUMBER_MAX, help                                                           \
	}
#define FLAG(name, optional, help)                                                                 \
	{                                                                                          \
		name, JSON_FIELD_BOOL, optional, JSON_AT(struct unused, flag), 0, 0, 0, 0, help    \
	}
#define OBJECT(name, optional, help)                                                               \
	{                                                                                          \
		name, JSON_FIELD_OBJECT, optional, JSON_AT(struct unused, json), 0, 0, 0, 0, help  \
	}
#define ARRAY(name, optional, help)                                                                \
	{                                                                                          \
		name, JSON_FIELD_ARRAY, optional, JSON_AT(struct unused, json), 0, LIST_MAX, 0, 0, \
			help                                                                       \
	}

static const struct json_field summary_fields[] = {
	INTEGER("schema", false, 1, 1, "version of the summary's form"),
	{"plan_sha256", JSON_FIELD_TEXT, false, JSON_AT(struct unused, text), 64, 64, 0, 0,
		"of the plan as resolved"},
	OBJECT("plan", false, "name, description and what holds for all runs"),
	TEXT("started_at", true, "UTC; a label"),
	INTEGER("runs", false, 1, RUN_MAX, "all that there are records of"),
	INTEGER("warm_ups", false, 0, RUN_MAX, "of these"),
	ARRAY("notes", false, "what stands apart or was left out, in words"),
	ARRAY("warnings", false, "of the doctor: {id, status, found, remedy, first_run}"),
	ARRAY("settings", false, "what all cells of a setting have in common"),
	ARRAY("cells", false, "contender × sessions × setting, with their figures"),
	ARRAY("ratios", false, "of cells to the best and to the floor"),
	ARRAY("hypotheses", false, "the plan's, with their verdicts"),
	ARRAY("excluded", false, "runs that do not count, and why"),
	OBJECT("environment", true, "environment.json"),
	OBJECT("definitions", false, "of the figures, by name"),
};

static const struct json_field cell_fields[] = {
	TEXT("contender", false, NULL),
	INTEGER("sessions", false, 1, 10000, "concurrent"),
	INTEGER("setting", false, 0, LIST_MAX, "index in settings"),
	TEXT("scenario", false, NULL),
	OBJECT("limits", true, "as asked"),
	TEXT("placement", false, "split or shared"),
	TEXT("track", false, "shipped or equalised"),
	TEXT("mode", false, "container or local"),
	TEXT("cgroup_backend", false, "v2, v2-sampled or v1"),
	FLAG("cold", false, "files evicted first"),
	FLAG("timed", false, "false: no times, the machine was emulated"),
	FLAG("suite_tool", false, "the tools tell their demand"),
	TEXT("machine_id", false, NULL),
	TEXT("suite_version", false, NULL),
	INTEGER("attempted", false, 0, COUNT_MAX, "valid runs"),
	INTEGER("completed", false, 0, COUNT_MAX, "of these, with outcome ok"),
	OBJECT("outcomes", false, "how often each came"),
	ARRAY("failures", false, "runs whose outcome is not ok"),
	ARRAY("runs", false, "numbers of the completed ones, as figures' values"),
	ARRAY("blocks", false, "of the same"),
	OBJECT("figures", false, "by key: startup_ms, overhead_ms.p50, …"),
	OBJECT("memory_at_peak", true, "parts of the run whose peak is nearest to the median"),
};

static const struct json_field figure_fields[] = {
	REAL("median", true, "over runs"),
	REAL("lo", true, "interval, or minimum where confidence is null"),
	REAL("hi", true, "interval, or maximum"),
	REAL("confidence", true, "null: fewer than 6 blocks"),
	INTEGER("n", false, 0, COUNT_MAX, "runs that have it"),
	TEXT("unit", false, NULL),
	REAL("pooled", true, "per-turn figures: of all samples of the cell"),
	INTEGER("samples", true, 0, INT64_MAX, "pooled"),
	INTEGER("negative", true, 0, INT64_MAX, "of these, below zero"),
	FLAG("at_least", true,
		"a lower bound: some run stood at its memory limit, or its peak was sampled"),
	TEXT("missing", true, "why there is none"),
	ARRAY("values", true, "one a completed run"),
	ARRAY("flagged", true, "runs beyond Tukey's fences"),
	OBJECT("ratios", true, "indices in ratios, by kind"),
};

static const struct json_field ratio_fields[] = {
	TEXT("figure", false, "key"),
	TEXT("kind", false, "against the best, or against the yardstick"),
	INTEGER("setting", false, 0, LIST_MAX, NULL),
	TEXT("scenario", false, NULL),
	INTEGER("sessions", false, 1, 10000, NULL),
	TEXT("contender", false, "divided"),
	TEXT("against", false, "by this one"),
	REAL("ratio", true, NULL),
	REAL("lo", true, NULL),
	REAL("hi", true, NULL),
	REAL("confidence", true, NULL),
	INTEGER("n", false, 0, COUNT_MAX, "blocks"),
	TEXT("missing", true, "why there is none"),
};
static const char *const ratio_kinds[] = {"best", "yardstick", NULL};

static const struct json_field warning_fields[] = {
	TEXT("id", false, "docs/doctor.md"),
	TEXT("status", false, "warn"),
	TEXT("found", false, NULL),
	TEXT("remedy", true, NULL),
	INTEGER("first_run", true, 1, RUN_MAX,
		"of those found when the plan was gone on with: the run that came next"),
};

static const struct json_field excluded_fields[] = {
	INTEGER("run", false, 1, RUN_MAX, NULL),
	INTEGER("block", false, 1, RUN_MAX, NULL),
	TEXT("contender", false, NULL),
	INTEGER("sessions", false, 1, 10000, NULL),
	TEXT("scenario", false, NULL),
	TEXT("outcome", false, NULL),
	ARRAY("reasons", false, "why it does not count"),
};

static const struct json_field failure_fields[] = {
	INTEGER("run", false, 1, RUN_MAX, NULL),
	TEXT("outcome", false, NULL),
	TEXT("detail", false, NULL),
};

/* ---- checking */

static int check_fields(const json_t *object, const char *where, const char *path,
	const struct json_field *fields, size_t count, struct error *err)
{
	struct unused unused;
	if (!json_is_object(object))
		return error_set(err, 0, "%s: %s: must be an object, is %s", where, path,
			json_describe(object));
	json_auto_t *known = json_known_members(object, fields, count);
	return json_read_struct(known, where, path, fields, count, &unused, err);
}

static int check_list(const json_t *list, const char *where, const char *path,
	const struct json_field *fields, size_t count, struct error *err)
{
	size_t i;
	const json_t *item;
	json_array_foreach(list, i, item)
	{
		auto_free char *inner = xasprintf("%s[%zu]", path, i);
		if (check_fields(item, where, inner, fields, count, err))
			return -1;
	}
	return 0;
}

static int check_cell(const json_t *cell, const char *where, const char *path, struct error *err)
{
	const char *key;
	json_t *figure;
	json_object_foreach(json_object_get(cell, "figures"), key, figure)
	{
		auto_free char *inner = xasprintf("%s.figures.%.60s", path, key);
		if (figure_key_find(key) == figure_keys_count)
			return error_set(err, 0, "%s: %s: there is no such figure", where, inner);
		if (check_fields(figure, where, inner, figure_fields, COUNT(figure_fields), err))
			return -1;
	}
	auto_free char *failures = xasprintf("%s.failures", path);
	return check_list(json_object_get(cell, "failures"), where, failures, failure_fields,
		COUNT(failure_fields), err);
}

int summary_check(const json_t *summary, const char *where, struct error *err)
{
	const struct {
		const char *name;
		const struct json_field *fields;
		size_t count;
	} lists[] = {{"warnings", warning_fields, COUNT(warning_fields)},
		{"cells", cell_fields, COUNT(cell_fields)},
		{"ratios", ratio_fields, COUNT(ratio_fields)},
		{"excluded", excluded_fields, COUNT(excluded_fields)}};
	struct unused unused;
	json_auto_t *known = json_known_members(summary, summary_fields, COUNT(summary_fields));
	if (json_read_struct(known, where, "", summary_fields, COUNT(summary_fields), &unused, err))
		return -1;
	for (size_t i = 0; i < COUNT(lists); i++)
		if (check_list(json_object_get(summary, lists[i].name), where, lists[i].name,
			    lists[i].fields, lists[i].count, err))
			return -1;
	size_t i;
	const json_t *item;
	json_array_foreach(json_object_get(summary, "cells"), i, item)
	{
		auto_free char *path = xasprintf("cells[%zu]", i);
		if (check_cell(item, where, path, err))
			return -1;
	}
	json_array_foreach(json_object_get(summary, "ratios"), i, item)
	{
		auto_free char *path = xasprintf("ratios[%zu].kind", i);
		if (json_check_choice(json_string_value(json_object_get(item, "kind")), ratio_kinds,
			    where, path, err))
			return -1;
	}
	return 0;
}

/* ---- the schema */

json_t *summary_schema(void)
{
	json_t *figure = json_schema_of(figure_fields, COUNT(figure_fields), true);
	json_t *cell = json_schema_of(cell_fields, COUNT(cell_fields), true);
	json_t *ratio = json_schema_of(ratio_fields, COUNT(ratio_fields), true);
	json_t *summary = json_schema_of(summary_fields, COUNT(summary_fields), true);
	json_t *by_key = json_object();
	for (size_t i = 0; i < figure_keys_count; i++)
		json_set(by_key, figure_key(i)->name,
			json_pack("{s:s}", "$ref", "#/definitions/figure"));
	json_schema_refine(cell, "figures",
		json_pack("{s:o, s:b}", "properties", by_key, "additionalProperties", 0));
	json_schema_items(
		cell, "failures", json_schema_of(failure_fields, COUNT(failure_fields), true));
	json_schema_choices(ratio, "kind", ratio_kinds);
	json_schema_items(summary, "cells", cell);
	json_schema_items(summary, "ratios", ratio);
	json_schema_items(
		summary, "warnings", json_schema_of(warning_fields, COUNT(warning_fields), true));
	json_schema_items(
		summary, "excluded", json_schema_of(excluded_fields, COUNT(excluded_fields), true));
	json_set(summary, "definitions", json_pack("{s:o}", "figure", figure));
	return json_schema_document(summary, "Turnmeter summary",
		"summary.json: docs/method.md. Members beyond these are allowed");
}
