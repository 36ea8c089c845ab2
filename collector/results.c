#include "collector/results.h"

#include "collector/digest.h"
#include "collector/figures.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"
#include "common/json.h"

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

/* json_read_fields refuses unknown members; records may have more than is used here. */
static int read_known_fields(const json_t *object, const char *where,
	const struct json_field *fields, size_t count, struct error *err)
{
	json_auto_t *known = json_object();
	for (size_t i = 0; i < count; i++) {
		json_t *value = json_object_get(object, fields[i].name);
		if (value)
			json_object_set(known, fields[i].name, value);
	}
	return json_read_fields(known, where, "", fields, count, err);
}

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

/* Takes the reference `json` on success. */
static int read_record(json_t *json, const char *plan_sha256, const char *where,
	struct run_record *out, struct error *err)
{
	struct run_record run = {.suite_version = "unknown", .machine_id = "unknown"};
	const char *outcome, *sha256;
	int64_t schema;
	const struct json_field fields[] = {
		{"schema", JSON_FIELD_INT, false, &schema, RECORD_SCHEMA, RECORD_SCHEMA, 0, 0,
			NULL},
		{"plan_sha256", JSON_FIELD_TEXT, false, &sha256, 64, 64, 0, 0, NULL},
		{"run", JSON_FIELD_INT, false, &run.run, 1, 1 << 30, 0, 0, NULL},
		{"block", JSON_FIELD_INT, false, &run.block, 1, 1 << 30, 0, 0, NULL},
		{"sessions", JSON_FIELD_INT, false, &run.sessions, 1, SESSIONS_MAX, 0, 0, NULL},
		{"contender", JSON_FIELD_TEXT, false, &run.contender, 1, NAME_MAX_BYTES, 0, 0,
			NULL},
		{"track", JSON_FIELD_TEXT, false, &run.track, 1, NAME_MAX_BYTES, 0, 0, NULL},
		{"scenario", JSON_FIELD_TEXT, false, &run.scenario, 1, NAME_MAX_BYTES, 0, 0, NULL},
		{"placement", JSON_FIELD_TEXT, false, &run.placement, 1, NAME_MAX_BYTES, 0, 0,
			NULL},
		{"mode", JSON_FIELD_TEXT, false, &run.mode, 1, NAME_MAX_BYTES, 0, 0, NULL},
		{"cgroup_backend", JSON_FIELD_TEXT, false, &run.backend, 1, NAME_MAX_BYTES, 0, 0,
			NULL},
		{"machine_id", JSON_FIELD_TEXT, true, &run.machine_id, 1, NAME_MAX_BYTES, 0, 0,
			NULL},
		{"suite_version", JSON_FIELD_TEXT, true, &run.suite_version, 1, NAME_MAX_BYTES, 0,
			0, NULL},
		{"limits", JSON_FIELD_OBJECT, false, &run.limits, 0, 0, 0, 0, NULL},
		{"warm_up", JSON_FIELD_BOOL, true, &run.warm_up, 0, 0, 0, 0, NULL},
		{"cold", JSON_FIELD_BOOL, true, &run.cold, 0, 0, 0, 0, NULL},
		{"timed", JSON_FIELD_BOOL, false, &run.timed, 0, 0, 0, 0, NULL},
		{"valid", JSON_FIELD_BOOL, false, &run.valid, 0, 0, 0, 0, NULL},
		{"suite_tool", JSON_FIELD_BOOL, true, &run.suite_tool, 0, 0, 0, 0, NULL},
		{"memory_peak_at_limit", JSON_FIELD_BOOL, true, &run.at_limit, 0, 0, 0, 0, NULL},
		{"outcome", JSON_FIELD_TEXT, false, &outcome, 1, 20, 0, 0, NULL},
		{"outcome_detail", JSON_FIELD_TEXT, false, &run.detail, 0, DETAIL_MAX, 0, 0, NULL},
		{"invalid_reasons", JSON_FIELD_ARRAY, false, &run.invalid_reasons, 0, 100, 0, 0,
			NULL},
	};
	if (read_known_fields(json, where, fields, sizeof fields / sizeof *fields, err) ||
		check_figures(json, where, err) || check_reasons(run.invalid_reasons, where, err))
		return -1;
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
	if (read_known_fields(out->plan, "plan.json", &sha256, 1, err))
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
