#include "collector/check.h"

#include "collector/manifest.h"
#include "collector/plan.h"
#include "common/error.h"
#include "common/json.h"
#include "common/scenario.h"

#include <inttypes.h>

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

char *check_file(const char *path, struct error *err)
{
	json_auto_t *object = json_read_file(path, err);
	if (!object)
		return NULL;
	if (json_object_get(object, "contenders"))
		return check_plan(path, err);
	if (json_object_get(object, "command"))
		return check_manifest(path, err);
	if (json_object_get(object, "turns"))
		return check_scenario(path, err);
	error_set(err, 0,
		"%s: must be a plan (with \"contenders\"), a manifest (\"command\") or a scenario "
		"(\"turns\")",
		path);
	return NULL;
}
