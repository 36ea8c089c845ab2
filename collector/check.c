#include "collector/check.h"

#include "collector/manifest.h"
#include "collector/plan.h"
#include "collector/results.h"
#include "collector/summary_check.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"
#include "common/json.h"
#include "common/scenario.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

enum { RUNS_MAX_BYTES = 1 << 30 };

static char *check_plan(const char *path, struct error *err)
{
	struct plan_overrides none = {0};
	struct plan *plan = plan_read_file(path, &none, err);
	if (!plan)
		return NULL;
	char *words = xasprintf(
		"plan '%s': %zu contenders, %zu scenarios, %zu numbers of sessions, "
		"%" PRId64 " repetitions: %" PRId64 " runs",
		plan->name, plan->contender_count, plan->scenario_count, plan->session_count,
		plan->repetitions, (int64_t)plan_cell_count(plan) * plan->repetitions);
	plan_free(plan);
	return words;
}

static char *check_manifest(const char *path, struct error *err)
{
	struct manifest *manifest = manifest_read_file(path, err);
	if (!manifest)
		return NULL;
	char *words = xasprintf("contender '%s' (%s)", manifest->name, manifest->title);
	manifest_free(manifest);
	return words;
}

static char *check_scenario(const char *path, struct error *err)
{
	struct scenario *scenario = scenario_read_file(path, err);
	if (!scenario)
		return NULL;
	char *words = xasprintf("scenario '%s': %" PRId64 " turns, about %.1f s", scenario->name,
		scenario->turns, scenario_seconds(scenario));
	scenario_free(scenario);
	return words;
}

static char *check_summary(const json_t *object, const char *path, struct error *err)
{
	if (summary_check(object, path, err))
		return NULL;
	return xasprintf("summary of %" JSON_INTEGER_FORMAT " runs",
		json_integer_value(json_object_get(object, "runs")));
}

/* A record a line. */
static char *check_runs(const char *path, struct error *err)
{
	auto_buf struct buf log;
	size_t number = 0;
	if (file_read(AT_FDCWD, path, RUNS_MAX_BYTES, &log, err))
		return NULL;
	for (size_t at = 0; at < log.length;) {
		const char *end = memchr(log.data + at, '\n', log.length - at);
		size_t length = end ? (size_t)(end - log.data) - at : log.length - at;
		auto_free char *where = xasprintf("%s:%zu", path, ++number);
		json_auto_t *record = json_read_text(log.data + at, length, where, err);
		if (!record || record_check(record, where, err))
			return NULL;
		at += length + 1;
	}
	if (!number) {
		error_set(err, 0, "%s: must have a run a line, is empty", path);
		return NULL;
	}
	return xasprintf("%zu runs", number);
}

/* What a file is meant to be is told by more than one member: any of them may be misspelt. */
static bool has_any(const json_t *object, const char *const names[])
{
	for (size_t i = 0; names[i]; i++)
		if (json_object_get(object, names[i]))
			return true;
	return false;
}

char *check_file(const char *path, struct error *err)
{
	size_t length = strlen(path);
	if (length > 6 && !strcmp(path + length - 6, ".jsonl"))
		return check_runs(path, err);
	json_auto_t *object = json_read_file(path, err);
	if (!object)
		return NULL;
	if (json_object_get(object, "cells"))
		return check_summary(object, path, err);
	if (has_any(object, (const char *const[]){"contenders", "repetitions", "sessions", NULL}))
		return check_plan(path, err);
	if (has_any(object, (const char *const[]){"command", "contract", "title", NULL}))
		return check_manifest(path, err);
	if (has_any(object, (const char *const[]){"turns", "ttft_ms", "chunks", NULL}))
		return check_scenario(path, err);
	error_set(err, 0,
		"%s: must be a plan (with \"contenders\"), a manifest (\"command\"), a scenario "
		"(\"turns\") or a summary (\"cells\")",
		path);
	return NULL;
}
