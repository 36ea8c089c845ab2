#include "collector/results.h"

#include "collector/digest.h"
#include "collector/figures.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"
#include "common/json.h"
#include "common/json_schema.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	LOG_MAX = 1 << 30,
	NAME_MAX_BYTES = 200,
	DETAIL_MAX = 4096,
	SESSIONS_MAX = 10000,
};

/* Beyond this, sums and ratios could leave what JSON can hold. */
#define NUMBER_MAX 1e18

static int check_number(const json_t *value, const char *where, const char *figure,
	const char *member, struct error *err)
{
	if (!value || json_is_null(value) ||
		(json_is_number(value) && fabs(json_number_value(value)) <= NUMBER_MAX))
		return 0;
	return error_set(err, 0, "%s: %s%s%s: must be a number of at most 1e18 in size, is %s",
		where, figure, member ? "." : "", member ? member : "", json_describe(value));
}

static int check_distribution(
	const json_t *value, const char *where, const char *figure, struct error *err)
{
	if (!value || json_is_null(value))
		return 0;
	if (!json_is_object(value))
		return error_set(err, 0, "%s: %s: must be an object, is %s", where, figure,
			json_describe(value));
	for (size_t i = 0; i < figure_statistics_count; i++) {
		const char *member = figure_statistics[i].name;
		if (check_number(json_object_get(value, member), where, figure, member, err))
			return -1;
	}
	const json_t *count = json_object_get(value, "n");
	if (!json_is_integer(count) || json_integer_value(count) < 1)
		return error_set(err, 0, "%s: %s.n: must be an integer of at least 1, is %s", where,
			figure, json_describe(count));
	return 0;
}

static int check_figures(const json_t *record, const char *where, struct error *err)
{
	for (size_t i = 0; i < figures_count; i++) {
		const json_t *value = json_object_get(record, figures[i].name);
		if (figures[i].per_turn ? check_distribution(value, where, figures[i].name, err)
					: check_number(value, where, figures[i].name, NULL, err))
			return -1;
	}
	const json_t *parts = json_object_get(record, "memory_at_peak");
	if (parts && !json_is_null(parts) && !json_is_object(parts))
		return error_set(err, 0, "%s: memory_at_peak: must be an object, is %s", where,
			json_describe(parts));
	const char *name;
	json_t *part;
	json_object_foreach((json_t *)parts, name, part)
	{
		if (check_number(part, where, "memory_at_peak", name, err))
			return -1;
	}
	return 0;
}

static int check_reasons(const json_t *reasons, const char *where, struct error *err)
{
	size_t i;
	json_t *reason;
	json_array_foreach((json_t *)reasons, i, reason)
	{
		if (!json_is_string(reason))
			return error_set(err, 0, "%s: invalid_reasons[%zu]: must be a text, is %s",
				where, i, json_describe(reason));
	}
	return 0;
}

/* A record as it is read. */
struct parts {
	struct run_record run;
	const char *outcome, *sha256;
	const json_t *mock, *exit, *missing;
	int64_t schema;
};

#define RUN(member) JSON_AT(struct parts, run.member)

/* What is used of a record; it has more. */
static const struct json_field record_fields[] = {
	{"schema", JSON_FIELD_INT, false, JSON_AT(struct parts, schema), RECORD_SCHEMA,
		RECORD_SCHEMA, 0, 0, "version of the record's form"},
	{"plan_sha256", JSON_FIELD_TEXT, false, JSON_AT(struct parts, sha256), 64, 64, 0, 0,
		"of the plan as resolved"},
	{"run", JSON_FIELD_INT, false, RUN(run), 1, 1 << 30, 0, 0, "number in this results folder"},
	{"block", JSON_FIELD_INT, false, RUN(block), 1, 1 << 30, 0, 0,
		"a run that is repeated keeps its block"},
	{"sessions", JSON_FIELD_INT, false, RUN(sessions), 1, SESSIONS_MAX, 0, 0, "concurrent"},
	{"contender", JSON_FIELD_TEXT, false, RUN(contender), 1, NAME_MAX_BYTES, 0, 0, NULL},
	{"track", JSON_FIELD_TEXT, false, RUN(track), 1, NAME_MAX_BYTES, 0, 0, NULL},
	{"scenario", JSON_FIELD_TEXT, false, RUN(scenario), 1, NAME_MAX_BYTES, 0, 0, NULL},
	{"placement", JSON_FIELD_TEXT, false, RUN(placement), 1, NAME_MAX_BYTES, 0, 0,
		"split or shared"},
	{"mode", JSON_FIELD_TEXT, false, RUN(mode), 1, NAME_MAX_BYTES, 0, 0, "container or local"},
	{"cgroup_backend", JSON_FIELD_TEXT, false, RUN(backend), 1, NAME_MAX_BYTES, 0, 0,
		"v2, v2-sampled or v1"},
	{"machine_id", JSON_FIELD_TEXT, true, RUN(machine_id), 1, NAME_MAX_BYTES, 0, 0, NULL},
	{"suite_version", JSON_FIELD_TEXT, true, RUN(suite_version), 1, NAME_MAX_BYTES, 0, 0, NULL},
	{"limits", JSON_FIELD_OBJECT, false, RUN(limits), 0, 0, 0, 0, "{asked, in_force}"},
	{"warm_up", JSON_FIELD_BOOL, true, RUN(warm_up), 0, 0, 0, 0, "in no figure of the summary"},
	{"cold", JSON_FIELD_BOOL, true, RUN(cold), 0, 0, 0, 0, "files evicted first"},
	{"timed", JSON_FIELD_BOOL, false, RUN(timed), 0, 0, 0, 0, "false under emulation"},
	{"valid", JSON_FIELD_BOOL, false, RUN(valid), 0, 0, 0, 0,
		"false: instrument or machine were at fault"},
	{"suite_tool", JSON_FIELD_BOOL, true, RUN(suite_tool), 0, 0, 0, 0,
		"the tools tell their demand"},
	{"memory_peak_at_limit", JSON_FIELD_BOOL, true, RUN(at_limit), 0, 0, 0, 0,
		"read the peak as \"at least\""},
	{"outcome", JSON_FIELD_TEXT, false, JSON_AT(struct parts, outcome), 1, 20, 0, 0,
		"what came of it"},
	{"outcome_detail", JSON_FIELD_TEXT, false, RUN(detail), 0, DETAIL_MAX, 0, 0,
		"empty when ok"},
	{"invalid_reasons", JSON_FIELD_ARRAY, false, RUN(invalid_reasons), 0, 100, 0, 0,
		"\"id: what was found, what the bound is\""},
	{"mock", JSON_FIELD_OBJECT, true, JSON_AT(struct parts, mock), 0, 0, 0, 0,
		"lateness and counts of the mock"},
	{"exit", JSON_FIELD_OBJECT, true, JSON_AT(struct parts, exit), 0, 0, 0, 0,
		"how the process ended"},
	{"missing", JSON_FIELD_OBJECT, true, JSON_AT(struct parts, missing), 0, 0, 0, 0,
		"why a figure is null, by its name"},
};
enum { RECORD_FIELDS = sizeof record_fields / sizeof *record_fields };

/* Takes the reference `json` on success. */
static int read_record(json_t *json, const char *plan_sha256, const char *where,
	struct run_record *out, struct error *err)
{
	struct parts parts = {.run = {.suite_version = "unknown", .machine_id = "unknown"}};
	json_auto_t *known = json_known_members(json, record_fields, RECORD_FIELDS);
	if (json_read_struct(known, where, "", record_fields, RECORD_FIELDS, &parts, err) ||
		check_figures(json, where, err) ||
		check_reasons(parts.run.invalid_reasons, where, err))
		return -1;
	const char *outcome = parts.outcome, *sha256 = parts.sha256;
	struct run_record run = parts.run;
	int found = outcome_find(outcome);
	if (found < 0)
		return error_set(err, 0,
			"%s: outcome: must be ok, oom, timeout, wrong, crashed or incomplete, is "
			"\"%s\"",
			where, outcome);
	if (strcmp(sha256, plan_sha256))
		return error_set(err, 0, "%s: plan_sha256: is not that of plan.json", where);
	run.outcome = (enum outcome)found;
	run.json = json;
	*out = run;
	return 0;
}

/* ---- the schema */

static json_t *number_or_null_schema(void)
{
	return json_pack("{s:[s, s], s:f, s:f}", "type", "number", "null", "minimum", -NUMBER_MAX,
		"maximum", NUMBER_MAX);
}

static json_t *distribution_schema(void)
{
	json_t *properties = json_object();
	for (size_t i = 0; i < figure_statistics_count; i++)
		json_set(properties, figure_statistics[i].name, number_or_null_schema());
	json_set(properties, "n", json_pack("{s:s, s:i}", "type", "integer", "minimum", 1));
	return json_pack("{s:[s, s], s:[s], s:o}", "type", "object", "null", "required", "n",
		"properties", properties);
}

json_t *record_schema(void)
{
	json_t *schema = json_schema_of(record_fields, RECORD_FIELDS, true);
	json_t *properties = json_object_get(schema, "properties"), *outcomes = json_array();
	for (size_t i = 0; i < figures_count; i++) {
		json_t *property =
			figures[i].per_turn ? distribution_schema() : number_or_null_schema();
		json_set(property, "description",
			json_sprintf("%s, %s", figures[i].definition, figures[i].unit));
		json_set(properties, figures[i].name, property);
	}
	json_set(properties, "memory_at_peak",
		json_pack("{s:[s, s], s:o}", "type", "object", "null", "additionalProperties",
			number_or_null_schema()));
	for (int outcome = 0; outcome < OUTCOME_COUNT; outcome++)
		json_array_append_new(outcomes, json_string(outcome_name((enum outcome)outcome)));
	json_schema_refine(schema, "outcome", json_pack("{s:o}", "enum", outcomes));
	json_schema_items(schema, "invalid_reasons", json_pack("{s:s}", "type", "string"));
	return json_schema_document(schema, "Turnmeter run",
		"A line of runs.jsonl: docs/method.md. Members beyond these are allowed");
}

int record_check(json_t *json, const char *where, struct error *err)
{
	struct run_record unused;
	const char *own = json_string_value(json_object_get(json, "plan_sha256"));
	return read_record(json, own ? own : "", where, &unused, err);
}

static int by_number(const void *left, const void *right)
{
	const struct run_record *const *a = left, *const *b = right;
	if ((*a)->run != (*b)->run)
		return (*a)->run < (*b)->run ? -1 : 1;
	return (*a > *b) - (*a < *b);
}

static int refuse_repeated_numbers(const struct results *results, struct error *err)
{
	auto_free const struct run_record **sorted =
		xmalloc((results->run_count + 1) * sizeof *sorted);
	for (size_t i = 0; i < results->run_count; i++)
		sorted[i] = &results->runs[i];
	qsort(sorted, results->run_count, sizeof *sorted, by_number);
	for (size_t i = 1; i < results->run_count; i++) {
		if (sorted[i]->run == sorted[i - 1]->run)
			return error_set(err, 0,
				"runs.jsonl:%zu: run: %" PRId64 " is there already, in line %zu",
				sorted[i] - results->runs + 1, sorted[i]->run,
				sorted[i - 1] - results->runs + 1);
	}
	return 0;
}

static void note_torn_line(struct results *out, size_t number)
{
	json_array_append_new(out->notes,
		json_sprintf("the last line of runs.jsonl (line %zu) was torn off and is left out: "
			     "the collector was killed",
			number));
}

static int read_runs(int dir_fd, struct results *out, struct error *err)
{
	auto_buf struct buf log;
	if (file_read(dir_fd, "runs.jsonl", LOG_MAX, &log, err))
		return -1;
	size_t capacity = 0;
	for (size_t at = 0, number = 1; at < log.length; number++) {
		const char *line = log.data + at;
		const char *lf = memchr(line, '\n', log.length - at);
		size_t length = lf ? (size_t)(lf - line) : log.length - at;
		at += length + (lf != NULL);
		char where[40];
		snprintf(where, sizeof where, "runs.jsonl:%zu", number);
		struct error fault;
		json_t *json = json_read_text(line, length, where, &fault);
		if (!json && !lf) {
			note_torn_line(out, number);
			break;
		}
		if (!json) {
			*err = fault;
			return -1;
		}
		if (out->run_count == capacity) {
			capacity = capacity ? capacity * 2 : 64;
			out->runs = xrealloc(out->runs, capacity * sizeof *out->runs);
		}
		if (read_record(json, out->plan_sha256, where, &out->runs[out->run_count], err)) {
			json_decref(json);
			return -1;
		}
		out->run_count++;
	}
	if (!out->run_count)
		return error_set(err, 0, "runs.jsonl: holds no run");
	return refuse_repeated_numbers(out, err);
}

static json_t *read_object(int dir_fd, const char *name, struct error *err)
{
	auto_buf struct buf text;
	if (file_read(dir_fd, name, JSON_FILE_MAX, &text, err))
		return NULL;
	return json_read_text(text.data ? text.data : "", text.length, name, err);
}

static int read_plan(int dir_fd, struct results *out, struct error *err)
{
	out->plan = read_object(dir_fd, "plan.json", err);
	if (!out->plan)
		return -1;
	const struct json_field sha256 = {
		"sha256", JSON_FIELD_TEXT, false, &out->plan_sha256, 64, 64, 0, 0, NULL};
	json_auto_t *known = json_known_members(out->plan, &sha256, 1);
	if (json_read_fields(known, "plan.json", "", &sha256, 1, err))
		return -1;
	json_auto_t *hashed = json_copy(out->plan);
	json_object_del(hashed, "sha256");
	char actual[DIGEST_HEX];
	digest_json(hashed, actual);
	if (strcmp(actual, out->plan_sha256))
		return error_set(
			err, 0, "plan.json: sha256: is not that of the plan: the file was changed");
	return 0;
}

static int read_environment(int dir_fd, struct results *out, struct error *err)
{
	struct error fault = {0, ""};
	out->environment = read_object(dir_fd, "environment.json", &fault);
	if (out->environment)
		return 0;
	if (fault.code != ENOENT) {
		*err = fault;
		return -1;
	}
	json_array_append_new(out->notes,
		json_string("environment.json is not there: nothing is known of the machine"));
	return 0;
}

int results_read(int dir_fd, struct results *out, struct error *err)
{
	struct results results = {.notes = json_array()};
	if (read_plan(dir_fd, &results, err) || read_environment(dir_fd, &results, err) ||
		read_runs(dir_fd, &results, err)) {
		results_release(&results);
		return -1;
	}
	*out = results;
	return 0;
}

void results_release(struct results *results)
{
	for (size_t i = 0; i < results->run_count; i++)
		json_decref(results->runs[i].json);
	free(results->runs);
	json_decref(results->plan);
	json_decref(results->environment);
	json_decref(results->notes);
	*results = (struct results){.plan = NULL};
}

const json_t *run_record_figure(const struct run_record *run, const char *name)
{
	const json_t *value = json_object_get(run->json, name);
	return json_is_null(value) ? NULL : value;
}

const char *run_record_missing(const struct run_record *run, const char *name)
{
	const char *reason =
		json_string_value(json_object_get(json_object_get(run->json, "missing"), name));
	return reason ? reason : "not in the record";
}
