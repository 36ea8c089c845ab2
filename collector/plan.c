#include "collector/plan.h"

#include "collector/hypotheses.h"
#include "collector/manifest.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"
#include "common/json_schema.h"
#include "common/rng.h"
#include "common/scenario.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	PLAN_SCHEMA = 1,
	CONTENDERS_MAX = 64,
	SESSIONS_LIST_MAX = 64,
	SCENARIOS_MAX = 64,
	HYPOTHESES_MAX = 256,
	SESSIONS_MAX = 10000,
	CELLS_MAX = 100000,
	FILE_NAME_MAX = 4096,
};

/* ---- the fields */

/* A plan as it is read. */
struct parts {
	struct plan plan;
	const json_t *contenders, *sessions, *scenarios, *limits, *bounds, *agent, *hypotheses;
	const json_t *files, *overrides;
	const char *placement, *sha256;
	int64_t schema;
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const struct json_field limit_fields[] = {
	{"memory_bytes", JSON_FIELD_INT, true, JSON_AT(struct plan, memory_bytes), 4 << 20,
		INT64_C(1) << 50, 0, 0, "of the contender's group, no swap beyond; null: none"},
	{"cpu_quota", JSON_FIELD_REAL, true, JSON_AT(struct plan, cpu_quota), 0, 0, 0.01, 1024,
		"CPUs of the contender by quota; null: none"}};

static const struct json_field bound_fields[] = {
	{"late_self_p99_us", JSON_FIELD_INT, true, JSON_AT(struct run_bounds, late_self_p99_us), 1,
		60000000, 0, 0, "highest p99 of the mock's lateness by its own doing, µs"},
	{"loop_p99_us", JSON_FIELD_INT, true, JSON_AT(struct run_bounds, loop_p99_us), 1, 60000000,
		0, 0, "highest p99 of the mock's loop, µs"},
	{"steal_percent", JSON_FIELD_REAL, true, JSON_AT(struct run_bounds, steal_percent), 0, 0,
		0.001, 100, "highest share of stolen CPU time"},
	{"other_load_percent", JSON_FIELD_REAL, true,
		JSON_AT(struct run_bounds, other_load_percent), 0, 0, 0.001, 100,
		"highest share of others on the contender's CPUs"}};

static const struct json_field agent_fields[] = {{"report", JSON_FIELD_BOOL, true,
	JSON_AT(struct plan, agent_report), 0, 0, 0, 0, "have contenders report each turn"}};

static const char *const placements[] = {"split", "shared", NULL};
static const char *const tracks[] = {PLAN_TRACK, "equalised", NULL};

static const struct json_field plan_fields[] = {
	{"name", JSON_FIELD_TEXT, false, JSON_AT(struct parts, plan.name), 1, 1000, 0, 0,
		"begins the results folder's name"},
	{"description", JSON_FIELD_TEXT, true, JSON_AT(struct parts, plan.description), 0, 4096, 0,
		0, "what it is for"},
	{"contenders", JSON_FIELD_ARRAY, false, JSON_AT(struct parts, contenders), 1,
		CONTENDERS_MAX, 0, 0,
		"names in contenders/ beside the plan, or paths ending in .json"},
	{"sessions", JSON_FIELD_ARRAY, false, JSON_AT(struct parts, sessions), 1, SESSIONS_LIST_MAX,
		0, 0, "numbers of concurrent sessions, 1 to 10000"},
	{"scenarios", JSON_FIELD_ARRAY, false, JSON_AT(struct parts, scenarios), 1, SCENARIOS_MAX,
		0, 0, "names in scenarios/ beside the plan, or paths ending in .json"},
	{"repetitions", JSON_FIELD_INT, false, JSON_AT(struct parts, plan.repetitions), 1, 1000, 0,
		0, "blocks: how often each cell is run"},
	{"seed", JSON_FIELD_INT, false, JSON_AT(struct parts, plan.seed), 0, INT64_MAX, 0, 0,
		"of the order of runs and of the mock's schedules"},
	{"limits", JSON_FIELD_OBJECT, true, JSON_AT(struct parts, limits), 0, 0, 0, 0,
		"{memory_bytes, cpu_quota} of each contender"},
	{"placement", JSON_FIELD_TEXT, true, JSON_AT(struct parts, placement), 0, 100, 0, 0,
		"split (default): contender on CPUs of its own; shared: all on all"},
	{"track", JSON_FIELD_TEXT, true, JSON_AT(struct parts, plan.track), 0, 100, 0, 0,
		"shipped (default) or equalised"},
	{"run_timeout_s", JSON_FIELD_INT, false, JSON_AT(struct parts, plan.run_timeout_s), 1,
		86400, 0, 0, "a run that lasts longer is killed, its outcome is timeout, s"},
	{"bounds", JSON_FIELD_OBJECT, true, JSON_AT(struct parts, bounds), 0, 0, 0, 0,
		"beyond these a run is not valid"},
	{"agent", JSON_FIELD_OBJECT, true, JSON_AT(struct parts, agent), 0, 0, 0, 0, "{report}"},
	{"hypotheses", JSON_FIELD_ARRAY, true, JSON_AT(struct parts, hypotheses), 0, HYPOTHESES_MAX,
		0, 0, "what the runs shall decide (docs/method.md)"},
	/* from here on of a resolved plan */
	{"schema", JSON_FIELD_INT, false, JSON_AT(struct parts, schema), PLAN_SCHEMA, PLAN_SCHEMA,
		0, 0, "version of the resolved plan's form"},
	{"files", JSON_FIELD_OBJECT, false, JSON_AT(struct parts, files), 0, 0, 0, 0,
		"contents of the files named"},
	{"sha256", JSON_FIELD_TEXT, false, JSON_AT(struct parts, sha256), 64, 64, 0, 0,
		"of the resolved plan without this"},
	{"overrides", JSON_FIELD_OBJECT, true, JSON_AT(struct parts, overrides), 0, 0, 0, 0,
		"what command line or environment put in the place of the plan's own"},
};
enum { RESOLVED_FIELDS = COUNT(plan_fields), WRITTEN_FIELDS = RESOLVED_FIELDS - 4 };

static int read_sessions(
	struct plan *plan, const json_t *sessions, const char *where, struct error *err)
{
	plan->session_count = json_array_size(sessions);
	plan->sessions = xcalloc(plan->session_count, sizeof *plan->sessions);
	for (size_t i = 0; i < plan->session_count; i++) {
		const json_t *value = json_array_get(sessions, i);
		int64_t number = json_integer_value(value);
		if (!json_is_integer(value) || number < 1 || number > SESSIONS_MAX)
			return error_set(err, 0,
				"%s: sessions[%zu]: must be an integer of 1 to %d, is %s", where, i,
				SESSIONS_MAX, json_describe(value));
		plan->sessions[i] = number;
		for (size_t j = 0; j < i; j++)
			if (plan->sessions[j] == number)
				return error_set(err, 0, "%s: sessions[%zu]: %lld is there twice",
					where, i, (long long)number);
	}
	return 0;
}

/* All fields but the files named; `resolved` allows those of a resolved plan. */
static int read_fields(struct plan *plan, const json_t *object, struct parts *parts, bool resolved,
	const char *where, struct error *err)
{
	*parts = (struct parts){.plan = *plan, .placement = "split"};
	parts->plan.description = "";
	parts->plan.track = PLAN_TRACK;
	parts->plan.memory_bytes = FACT_MISSING;
	parts->plan.agent_report = true;
	if (json_read_struct(object, where, "", plan_fields,
		    resolved ? RESOLVED_FIELDS : WRITTEN_FIELDS, parts, err))
		return -1;
	*plan = parts->plan;
	if (name_check(plan->name, where, "name", err) ||
		read_sessions(plan, parts->sessions, where, err) ||
		json_check_choice(parts->placement, placements, where, "placement", err) ||
		json_check_choice(plan->track, tracks, where, "track", err))
		return -1;
	plan->split = !strcmp(parts->placement, "split");
	size_t cells = json_array_size(parts->contenders) * json_array_size(parts->sessions) *
		       json_array_size(parts->scenarios) * (size_t)plan->repetitions;
	if (cells > CELLS_MAX)
		return error_set(
			err, 0, "%s: %zu runs: must be at most %d", where, cells, CELLS_MAX);
	if ((parts->limits && json_read_struct(parts->limits, where, "limits", limit_fields,
				      COUNT(limit_fields), plan, err)) ||
		(parts->bounds && json_read_struct(parts->bounds, where, "bounds", bound_fields,
					  COUNT(bound_fields), &plan->bounds, err)) ||
		(parts->agent && json_read_struct(parts->agent, where, "agent", agent_fields,
					 COUNT(agent_fields), plan, err)))
		return -1;
	return 0;
}

json_t *plan_schema(void)
{
	json_t *schema = json_schema_of(plan_fields, WRITTEN_FIELDS, false);
	json_t *sessions = json_pack(
		"{s:s, s:i, s:i}", "type", "integer", "minimum", 1, "maximum", SESSIONS_MAX);
	json_schema_refine(schema, "name", name_schema());
	json_schema_items(schema, "contenders", json_schema_text(1, FILE_NAME_MAX, NULL));
	json_schema_items(schema, "scenarios", json_schema_text(1, FILE_NAME_MAX, NULL));
	json_schema_items(schema, "sessions", sessions);
	static const char *const lists[] = {"contenders", "sessions", "scenarios"};
	for (size_t i = 0; i < COUNT(lists); i++)
		json_schema_refine(schema, lists[i], json_pack("{s:b}", "uniqueItems", 1));
	json_schema_choices(schema, "placement", placements);
	json_schema_choices(schema, "track", tracks);
	json_schema_refine(
		schema, "limits", json_schema_of(limit_fields, COUNT(limit_fields), false));
	json_schema_refine(
		schema, "bounds", json_schema_of(bound_fields, COUNT(bound_fields), false));
	json_schema_refine(
		schema, "agent", json_schema_of(agent_fields, COUNT(agent_fields), false));
	json_schema_items(schema, "hypotheses", hypotheses_schema());
	return json_schema_document(schema, "Turnmeter plan",
		"Which contenders, how many sessions, which scenarios, how often, under which "
		"limits");
}

/* ---- the files named */

/* DIR of DIR/NAME, "." where there is none; malloc'ed. */
static char *folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	if (!slash)
		return xstrdup(".");
	return slash == path ? xstrdup("/") : xasprintf("%.*s", (int)(slash - path), path);
}

static bool is_path(const char *name)
{
	size_t length = strlen(name);
	return strchr(name, '/') || (length > 5 && !strcmp(name + length - 5, ".json"));
}

/*
 * The file that a plan means by `name`: FOLDER/contenders/NAME.json; a path is relative to the plan
 * (`from_command_line`: to the working directory).
 */
static char *file_of(const char *name, const char *folder, const char *kind, bool from_command_line)
{
	if (!is_path(name))
		return xasprintf("%s/%s/%s.json", folder, kind, name);
	if (*name == '/' || from_command_line)
		return xstrdup(name);
	return xasprintf("%s/%s", folder, name);
}

static int is_json(const struct dirent *entry)
{
	size_t length = strlen(entry->d_name);
	return length > 5 && entry->d_name[0] != '.' &&
	       !strcmp(entry->d_name + length - 5, ".json");
}

/* A name that stands for no file: say which there are. */
static int unknown_name(const char *name, const char *folder, const char *kind, const char *where,
	struct error *err)
{
	struct dirent **entries;
	auto_buf struct buf there;
	auto_free char *path = xasprintf("%s/%s", folder, kind);
	buf_init(&there, 400);
	int count = scandir(path, &entries, is_json, alphasort);
	for (int i = 0; i < count; i++) {
		int length = (int)strlen(entries[i]->d_name) - 5;
		/* Beyond the cap the rest is left out. */
		(void)buf_addf(&there, "%s%.*s", i ? ", " : "", length, entries[i]->d_name);
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
	return error_set(err, 0, "%s: %s: there is no '%s' in %s; there are: %s", where, kind, name,
		path, there.length ? there.data : "none");
}

static bool is_unknown(const char *name, const char *path)
{
	return !is_path(name) && access(path, F_OK) && errno == ENOENT;
}

/* Add `value` under `name`, which must be new. Takes the reference. */
static int add_file(json_t *files, json_t *names, const char *name, json_t *value,
	const char *where, const char *field, struct error *err)
{
	if (json_object_get(files, name)) {
		json_decref(value);
		return error_set(err, 0, "%s: %s: '%s' is there twice", where, field, name);
	}
	json_object_set_new(files, name, value);
	json_array_append_new(names, json_string(name));
	return 0;
}

struct resolution {
	const char *folder, *where;
	const struct plan_overrides *overrides;
	json_t *here;    /* contender's name -> folder of its manifest */
	json_t *changed; /* by overrides, as option -> text */
};

static int resolve_contenders(const struct resolution *resolution, const char *const names[],
	json_t *files, json_t *resolved, struct error *err)
{
	const char *given = resolution->overrides->contenders;
	json_t *list = json_array();
	json_object_set_new(resolved, "contenders", list);
	for (size_t i = 0; names[i]; i++) {
		auto_free char *path =
			file_of(names[i], resolution->folder, "contenders", given && *given);
		if (is_unknown(names[i], path))
			return unknown_name(
				names[i], resolution->folder, "contenders", resolution->where, err);
		struct manifest *manifest = manifest_read_file(path, err);
		if (!manifest)
			return -1;
		auto_free char *folder = folder_of(path);
		auto_free char *here = realpath(folder, NULL);
		json_object_set_new(
			resolution->here, manifest->name, json_string(here ? here : folder));
		int result = add_file(files, list, manifest->name, json_incref(manifest->json),
			resolution->where, "contenders", err);
		manifest_free(manifest);
		if (result)
			return -1;
	}
	return 0;
}

static int resolve_scenarios(const struct resolution *resolution, const char *const names[],
	json_t *files, json_t *resolved, struct error *err)
{
	const char *given = resolution->overrides->scenarios;
	json_t *list = json_array();
	json_object_set_new(resolved, "scenarios", list);
	for (size_t i = 0; names[i]; i++) {
		auto_free char *path =
			file_of(names[i], resolution->folder, "scenarios", given && *given);
		if (is_unknown(names[i], path))
			return unknown_name(
				names[i], resolution->folder, "scenarios", resolution->where, err);
		struct scenario *scenario = scenario_read_file(path, err);
		json_t *object = scenario ? json_read_file(path, err) : NULL;
		int result = object ? overrides_of_scenario(object, resolution->overrides,
					      resolution->changed, err)
				    : -1;
		if (result)
			json_decref(object);
		else
			result = add_file(files, list, scenario->name, object, resolution->where,
				"scenarios", err);
		scenario_free(scenario);
		if (result)
			return -1;
	}
	return 0;
}

/* ---- reading */

static void digest(const json_t *resolved, char sha256[DIGEST_HEX])
{
	json_auto_t *copy = json_copy((json_t *)resolved);
	json_object_del(copy, "sha256");
	digest_json(copy, sha256);
}

/* The plan's own fields, the defaults spelled out, and the files' contents. */
static json_t *resolve(const struct plan *plan, const struct parts *parts, json_t *object,
	const struct resolution *resolution, struct error *err)
{
	auto_free const char **contenders = json_read_texts(
		parts->contenders, resolution->where, "contenders", FILE_NAME_MAX, err);
	auto_free const char **scenarios =
		contenders ? json_read_texts(parts->scenarios, resolution->where, "scenarios",
				     FILE_NAME_MAX, err)
			   : NULL;
	if (!scenarios)
		return NULL;
	json_auto_t *resolved = json_copy(object);
	json_auto_t *contender_files = json_object();
	json_auto_t *scenario_files = json_object();
	if (resolve_contenders(resolution, contenders, contender_files, resolved, err) ||
		resolve_scenarios(resolution, scenarios, scenario_files, resolved, err))
		return NULL;
	json_object_del(resolved, "$schema");
	if (json_object_size(resolution->changed))
		json_set(resolved, "overrides", json_incref(resolution->changed));
	json_object_set_new(resolved, "schema", json_integer(PLAN_SCHEMA));
	json_object_set_new(resolved, "track", json_string(plan->track));
	json_object_set_new(resolved, "placement", json_string(parts->placement));
	json_object_set_new(resolved, "files",
		json_pack(
			"{s:O, s:O}", "contenders", contender_files, "scenarios", scenario_files));
	char sha256[DIGEST_HEX];
	digest(resolved, sha256);
	json_object_set_new(resolved, "sha256", json_string(sha256));
	return json_incref(resolved);
}

struct plan *plan_read_file(
	const char *path, const struct plan_overrides *overrides, struct error *err)
{
	json_auto_t *object = json_read_file(path, err);
	json_auto_t *changed = json_object();
	if (!object || overrides_of_plan(object, overrides, changed, err))
		return NULL;
	struct plan *written = xcalloc(1, sizeof *written);
	auto_free char *folder = folder_of(path);
	json_auto_t *here = json_object();
	struct resolution resolution = {folder, path, overrides, here, changed};
	struct parts parts;
	json_t *resolved = NULL;
	if (!read_fields(written, object, &parts, false, path, err))
		resolved = resolve(written, &parts, object, &resolution, err);
	plan_free(written);
	struct plan *plan = resolved ? plan_read_resolved(resolved, path, err) : NULL;
	for (size_t i = 0; plan && i < plan->contender_count; i++) {
		struct plan_contender *contender = &plan->contenders[i];
		contender->here = xstrdup(
			json_string_value(json_object_get(here, contender->manifest->name)));
	}
	return plan;
}

static int take_contenders(
	struct plan *plan, const struct parts *parts, const char *where, struct error *err)
{
	plan->contenders = xcalloc(json_array_size(parts->contenders), sizeof *plan->contenders);
	size_t i;
	json_t *name;
	json_array_foreach((json_t *)parts->contenders, i, name)
	{
		json_t *file = json_object_get(json_object_get(parts->files, "contenders"),
			json_is_string(name) ? json_string_value(name) : "");
		if (!json_is_object(file))
			return error_set(err, 0, "%s: contenders[%zu]: %s has no contents in files",
				where, i, json_describe(name));
		struct manifest *manifest = manifest_read(file, where, err);
		if (!manifest)
			return -1;
		plan->contenders[plan->contender_count++].manifest = manifest;
	}
	return 0;
}

static int take_scenarios(
	struct plan *plan, const struct parts *parts, const char *where, struct error *err)
{
	plan->scenarios = xcalloc(json_array_size(parts->scenarios), sizeof *plan->scenarios);
	size_t i;
	json_t *name;
	json_array_foreach((json_t *)parts->scenarios, i, name)
	{
		json_t *file = json_object_get(json_object_get(parts->files, "scenarios"),
			json_is_string(name) ? json_string_value(name) : "");
		if (!json_is_object(file))
			return error_set(err, 0, "%s: scenarios[%zu]: %s has no contents in files",
				where, i, json_describe(name));
		struct scenario *scenario = scenario_read(file, where, err);
		if (!scenario)
			return -1;
		plan->scenarios[plan->scenario_count++] = (struct plan_scenario){scenario, file};
	}
	return 0;
}

struct plan *plan_read_resolved(json_t *resolved, const char *where, struct error *err)
{
	struct plan *plan = xcalloc(1, sizeof *plan);
	plan->resolved = resolved;
	struct parts parts;
	if (read_fields(plan, resolved, &parts, true, where, err) ||
		take_contenders(plan, &parts, where, err) ||
		take_scenarios(plan, &parts, where, err) ||
		hypotheses_check(resolved, where, err)) {
		plan_free(plan);
		return NULL;
	}
	digest(resolved, plan->sha256);
	if (strcmp(plan->sha256, parts.sha256)) {
		error_set(
			err, 0, "%s: sha256: is not that of the plan: the file was changed", where);
		plan_free(plan);
		return NULL;
	}
	return plan;
}

void plan_free(struct plan *plan)
{
	if (!plan)
		return;
	for (size_t i = 0; i < plan->contender_count; i++) {
		manifest_free(plan->contenders[i].manifest);
		free(plan->contenders[i].here);
	}
	for (size_t i = 0; i < plan->scenario_count; i++)
		scenario_free(plan->scenarios[i].scenario);
	free(plan->contenders);
	free(plan->scenarios);
	free(plan->sessions);
	json_decref(plan->resolved);
	free(plan);
}

/* ---- what is to be run */

size_t plan_cell_count(const struct plan *plan)
{
	return plan->contender_count * plan->scenario_count * plan->session_count;
}

struct plan_cell *plan_block(const struct plan *plan, int64_t block)
{
	size_t count = plan_cell_count(plan), length = 0;
	struct plan_cell *cells = xcalloc(count, sizeof *cells);
	for (size_t c = 0; c < plan->contender_count; c++)
		for (size_t s = 0; s < plan->scenario_count; s++)
			for (size_t n = 0; n < plan->session_count; n++)
				cells[length++] = (struct plan_cell){c, s, plan->sessions[n]};
	uint64_t state =
		rng_derive(rng_derive_text((uint64_t)plan->seed, "order"), (uint64_t)block);
	for (size_t i = count; i > 1; i--) {
		size_t j = (size_t)rng_between(&state, 0, (int64_t)i - 1);
		struct plan_cell other = cells[j];
		cells[j] = cells[i - 1];
		cells[i - 1] = other;
	}
	return cells;
}

int64_t plan_run_seed(const struct plan *plan, int64_t block, const struct plan_cell *cell)
{
	uint64_t seed = rng_derive((uint64_t)plan->seed, (uint64_t)block);
	seed = rng_derive_text(seed, plan->scenarios[cell->scenario].scenario->name);
	return (int64_t)(rng_derive(seed, (uint64_t)cell->sessions) >> 1);
}

/* As measured of results: a row of a sample file, a record, and of a cell its part of the summaries
 * and the report. */
enum { ROW_BYTES = 135, RECORD_BYTES = 3000, CELL_BYTES = 45000, FOLDER_BYTES = 50000 };

int64_t plan_results_bytes(const struct plan *plan)
{
	int64_t sessions = 0, rows = 0, cells = (int64_t)plan_cell_count(plan);
	for (size_t i = 0; i < plan->session_count; i++)
		sessions += plan->sessions[i];
	for (size_t i = 0; i < plan->scenario_count; i++)
		rows += plan->scenarios[i].scenario->turns * sessions;
	rows *= (int64_t)plan->contender_count * plan->repetitions;
	return FOLDER_BYTES + cells * CELL_BYTES + cells * plan->repetitions * RECORD_BYTES +
	       rows * ROW_BYTES;
}

double scenario_seconds(const struct scenario *scenario)
{
	double turn_ms = scenario->ttft_ms.base_ms +
			 scenario->chunk_interval_ms.base_ms * (double)scenario->chunks;
	double tools_ms = scenario->tool_kind == SCENARIO_TOOLS_TMTOOL
				  ? (double)scenario->tool_sleep_ms.max
				  : 0;
	double turns = (double)scenario->turns;
	return (turns * turn_ms + (turns - 1) * tools_ms + scenario->spread_first_ms) / 1000;
}
