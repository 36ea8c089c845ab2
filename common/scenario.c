#include "common/scenario.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"
#include "common/json_schema.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum {
	TASK_MAX = 65536,
	PROMPT_MAX = 1 << 20,
	OUTPUT_MAX = 1 << 20,
	SLEEP_MAX_MS = 3600000,
	TURN_TEXT_MAX = 8 << 20, /* chunks × chunk_bytes: clients must take a turn in one piece */
	CHUNK_TEXT_MAX = 65536,
	RANGE_FIELDS = 2,
};

#define TIME_MAX_MS 3600000.0
#define NAME_PATTERN "^[a-z0-9-]{1,64}$"

/* What the tables below fill. */
struct timing {
	double constant, uniform, spread;
};

struct tools {
	const char *kind;
	const json_t *calls, *sleep_ms, *output_bytes;
};

struct parts {
	struct scenario read;
	const char *name, *description, *task;
	const json_t *ttft, *interval, *chunk_bytes, *tools;
};

/* Refuse with the path of the field. */
static int refuse(const char *where, const char *path, const char *problem, struct error *err)
{
	return error_set(err, 0, "%s: %s: %s", where, path, problem);
}

/* ---- the tables; min and max of a range stand where it is used */

static const struct json_field timing_fields[] = {
	{"constant", JSON_FIELD_REAL, true, JSON_AT(struct timing, constant), 0, 0, 0, TIME_MAX_MS,
		"always this, ms"},
	{"uniform", JSON_FIELD_REAL, true, JSON_AT(struct timing, uniform), 0, 0, 0, TIME_MAX_MS,
		"its middle, ms"},
	{"spread", JSON_FIELD_REAL, true, JSON_AT(struct timing, spread), 0, 0, 0, 1,
		"its half width, as a part"},
};

static const struct json_field tool_fields[] = {
	{"kind", JSON_FIELD_TEXT, false, JSON_AT(struct tools, kind), 1, 16, 0, 0, "tmtool or bin"},
	{"calls", JSON_FIELD_OBJECT, false, JSON_AT(struct tools, calls), 0, 0, 0, 0,
		"calls a turn"},
	{"sleep_ms", JSON_FIELD_OBJECT, true, JSON_AT(struct tools, sleep_ms), 0, 0, 0, 0,
		"how long a call sleeps; tmtool only"},
	{"output_bytes", JSON_FIELD_OBJECT, false, JSON_AT(struct tools, output_bytes), 0, 0, 0, 0,
		"what a call prints; bin: of the calls that print the system prompt"},
};
static const char *const tool_kinds[] = {"tmtool", "bin", NULL};

static const struct json_field scenario_fields[] = {
	{"name", JSON_FIELD_TEXT, false, JSON_AT(struct parts, name), 1, SCENARIO_NAME_MAX, 0, 0,
		"name, as of the file"},
	{"description", JSON_FIELD_TEXT, false, JSON_AT(struct parts, description), 1, 1000, 0, 0,
		"what it is for"},
	{"turns", JSON_FIELD_INT, false, JSON_AT(struct parts, read.turns), 1, 10000, 0, 0,
		"turns of a session; every one but the last asks for tools"},
	{"system_prompt_bytes", JSON_FIELD_INT, false,
		JSON_AT(struct parts, read.system_prompt_bytes), 1, PROMPT_MAX, 0, 0,
		"size of the seeded system prompt, bytes"},
	{"task", JSON_FIELD_TEXT, false, JSON_AT(struct parts, task), 1, TASK_MAX, 0, 0,
		"user message; {session} is replaced"},
	{"ttft_ms", JSON_FIELD_OBJECT, false, JSON_AT(struct parts, ttft), 0, 0, 0, 0,
		"from a request fully read to its first token, ms"},
	{"chunk_interval_ms", JSON_FIELD_OBJECT, false, JSON_AT(struct parts, interval), 0, 0, 0, 0,
		"between two sends, ms"},
	{"spread_first_ms", JSON_FIELD_REAL, true, JSON_AT(struct parts, read.spread_first_ms), 0,
		0, 0, TIME_MAX_MS,
		"adds a seeded uniform 0 to this to each session's first token, ms"},
	{"chunks", JSON_FIELD_INT, false, JSON_AT(struct parts, read.chunks), 1, 100000, 0, 0,
		"sends of a turn, the last one its end"},
	{"chunk_bytes", JSON_FIELD_OBJECT, false, JSON_AT(struct parts, chunk_bytes), 0, 0, 0, 0,
		"text of a send, bytes"},
	{"tools", JSON_FIELD_OBJECT, true, JSON_AT(struct parts, tools), 0, 0, 0, 0,
		"the calls of every turn but the last"},
};

/* ---- reading */

static void range_fields(struct scenario_range *range, int64_t min, int64_t max,
	struct json_field fields[RANGE_FIELDS])
{
	fields[0] = (struct json_field){
		"min", JSON_FIELD_INT, false, &range->min, min, max, 0, 0, "smallest"};
	fields[1] = (struct json_field){
		"max", JSON_FIELD_INT, false, &range->max, min, max, 0, 0, "largest"};
}

static int read_range(const json_t *object, const char *where, const char *path, int64_t min,
	int64_t max, struct scenario_range *out, struct error *err)
{
	struct scenario_range range = {0};
	struct json_field fields[RANGE_FIELDS];
	range_fields(&range, min, max, fields);
	if (json_read_fields(object, where, path, fields, RANGE_FIELDS, err))
		return -1;
	if (range.min > range.max)
		return error_set(err, 0, "%s: %s: min must not be above max, is %lld above %lld",
			where, path, (long long)range.min, (long long)range.max);
	*out = range;
	return 0;
}

static int read_timing(const json_t *object, const char *where, const char *path,
	struct scenario_timing *out, struct error *err)
{
	struct timing timing = {-1, -1, -1};
	if (json_read_struct(
		    object, where, path, timing_fields, COUNT(timing_fields), &timing, err))
		return -1;
	double constant = timing.constant, uniform = timing.uniform, spread = timing.spread;
	bool is_constant = constant >= 0 && uniform < 0 && spread < 0;
	bool is_uniform = constant < 0 && uniform >= 0 && spread >= 0;
	if (!is_constant && !is_uniform)
		return refuse(where, path,
			"must be {\"constant\":MS} or {\"uniform\":MS,\"spread\":0 to 1}", err);
	*out = is_constant ? (struct scenario_timing){constant, 0}
			   : (struct scenario_timing){uniform, spread};
	return 0;
}

static int read_tools(
	const json_t *object, const char *where, struct scenario *out, struct error *err)
{
	struct tools read = {0};
	if (json_read_struct(object, where, "tools", tool_fields, COUNT(tool_fields), &read, err) ||
		json_check_choice(read.kind, tool_kinds, where, "tools.kind", err))
		return -1;
	bool is_bin = !strcmp(read.kind, "bin");
	const json_t *sleep_ms = read.sleep_ms;
	if (is_bin && sleep_ms)
		return refuse(where, "tools.sleep_ms", "belongs to kind \"tmtool\" only", err);
	if (!is_bin && !sleep_ms)
		return refuse(where, "tools.sleep_ms", "must be given for kind \"tmtool\"", err);
	if (is_bin && out->system_prompt_bytes < SCENARIO_BIN_OUTPUT_MIN)
		return error_set(err, 0,
			"%s: system_prompt_bytes: must be at least %d for tools of kind \"bin\", "
			"is "
			"%lld",
			where, SCENARIO_BIN_OUTPUT_MIN, (long long)out->system_prompt_bytes);
	int64_t output_min = is_bin ? SCENARIO_BIN_OUTPUT_MIN : 0;
	int64_t output_max = is_bin ? out->system_prompt_bytes : OUTPUT_MAX;
	if (read_range(read.calls, where, "tools.calls", 1, SCENARIO_CALLS_MAX, &out->tool_calls,
		    err) ||
		(sleep_ms && read_range(sleep_ms, where, "tools.sleep_ms", 0, SLEEP_MAX_MS,
				     &out->tool_sleep_ms, err)) ||
		read_range(read.output_bytes, where, "tools.output_bytes", output_min, output_max,
			&out->tool_output_bytes, err))
		return -1;
	out->tool_kind = is_bin ? SCENARIO_TOOLS_BIN : SCENARIO_TOOLS_TMTOOL;
	return 0;
}

static int check_name(const char *name, const char *where, struct error *err)
{
	if (json_text_matches(name, NAME_PATTERN))
		return 0;
	return error_set(err, 0, "%s: name: must be of a-z, 0-9 and '-', is \"%s\"", where, name);
}

struct scenario *scenario_read(const json_t *object, const char *where, struct error *err)
{
	struct parts parts = {.name = NULL};
	if (json_read_struct(
		    object, where, "", scenario_fields, COUNT(scenario_fields), &parts, err) ||
		check_name(parts.name, where, err) ||
		read_timing(parts.ttft, where, "ttft_ms", &parts.read.ttft_ms, err) ||
		read_timing(parts.interval, where, "chunk_interval_ms",
			&parts.read.chunk_interval_ms, err) ||
		read_range(parts.chunk_bytes, where, "chunk_bytes", 1, CHUNK_TEXT_MAX,
			&parts.read.chunk_bytes, err))
		return NULL;
	struct scenario read = parts.read;
	if (read.chunks * read.chunk_bytes.max > TURN_TEXT_MAX) {
		error_set(err, 0,
			"%s: chunks: chunks times chunk_bytes.max must be at most %d, is %" PRId64,
			where, TURN_TEXT_MAX, read.chunks * read.chunk_bytes.max);
		return NULL;
	}
	if (!parts.tools && read.turns > 1) {
		refuse(where, "tools", "must be given when turns is above 1", err);
		return NULL;
	}
	if (parts.tools && read_tools(parts.tools, where, &read, err))
		return NULL;

	struct scenario *scenario = xmalloc(sizeof *scenario);
	*scenario = read;
	memcpy(scenario->name, parts.name, strlen(parts.name) + 1);
	scenario->description = xstrdup(parts.description);
	scenario->task = xstrdup(parts.task);
	return scenario;
}

/* ---- the schema */

static json_t *range_schema(int64_t min, int64_t max)
{
	struct scenario_range unused;
	struct json_field fields[RANGE_FIELDS];
	range_fields(&unused, min, max, fields);
	return json_schema_of(fields, RANGE_FIELDS, false);
}

/* One of two: {"constant": MS}, or {"uniform": MS, "spread": PART}. */
static json_t *timing_schema(void)
{
	json_t *timing = json_schema_of(timing_fields, COUNT(timing_fields), false);
	json_set(timing, "oneOf",
		json_pack(
			"[{s:[s], s:{s:{s:s}, s:{s:s}, s:{s:s}}}, {s:[s, s], s:{s:{s:s}, s:{s:s}, "
			"s:{s:s}}}]",
			"required", "constant", "properties", "constant", "type", "number",
			"uniform", "type", "null", "spread", "type", "null", "required", "uniform",
			"spread", "properties", "constant", "type", "null", "uniform", "type",
			"number", "spread", "type", "number"));
	return timing;
}

static json_t *tools_schema(void)
{
	json_t *tools = json_schema_of(tool_fields, COUNT(tool_fields), false);
	json_schema_choices(tools, "kind", tool_kinds);
	json_schema_refine(tools, "calls", range_schema(1, SCENARIO_CALLS_MAX));
	json_schema_refine(tools, "sleep_ms", range_schema(0, SLEEP_MAX_MS));
	json_schema_refine(tools, "output_bytes", range_schema(0, OUTPUT_MAX));
	json_t *bin = range_schema(SCENARIO_BIN_OUTPUT_MIN, PROMPT_MAX);
	json_set(tools, "if", json_pack("{s:{s:{s:s}}}", "properties", "kind", "const", "tmtool"));
	json_set(tools, "then",
		json_pack("{s:[s], s:{s:{s:s}}}", "required", "sleep_ms", "properties", "sleep_ms",
			"type", "object"));
	json_set(tools, "else",
		json_pack("{s:{s:{s:s}, s:o}}", "properties", "sleep_ms", "type", "null",
			"output_bytes", bin));
	return tools;
}

json_t *scenario_schema(void)
{
	json_t *schema = json_schema_of(scenario_fields, COUNT(scenario_fields), false);
	json_schema_refine(schema, "name", json_schema_text(1, SCENARIO_NAME_MAX, NAME_PATTERN));
	json_schema_refine(schema, "ttft_ms", timing_schema());
	json_schema_refine(schema, "chunk_interval_ms", timing_schema());
	json_schema_refine(schema, "chunk_bytes", range_schema(1, CHUNK_TEXT_MAX));
	json_schema_refine(schema, "tools", tools_schema());
	/* every turn but the last asks for tools */
	json_set(schema, "if",
		json_pack("{s:{s:{s:s, s:i}}}", "properties", "turns", "type", "integer", "minimum",
			2));
	json_set(schema, "then",
		json_pack("{s:[s], s:{s:{s:s}}}", "required", "tools", "properties", "tools",
			"type", "object"));
	return json_schema_document(
		schema, "Turnmeter scenario", "What the mock LLM plays: docs/protocols.md");
}

struct scenario *scenario_read_file(const char *path, struct error *err)
{
	json_auto_t *object = json_read_file(path, err);
	struct scenario *scenario = object ? scenario_read(object, path, err) : NULL;
	if (!scenario)
		return NULL;
	const char *base = strrchr(path, '/');
	base = base ? base + 1 : path;
	size_t length = strlen(scenario->name);
	if (strncmp(base, scenario->name, length) || strcmp(base + length, ".json")) {
		error_set(err, 0, "%s: name: must be the file's name without .json, is \"%s\"",
			path, scenario->name);
		scenario_free(scenario);
		return NULL;
	}
	if (!strcmp(scenario->name, SCENARIO_WARM_UP)) {
		error_set(err, 0,
			"%s: name: must be another than \"" SCENARIO_WARM_UP
			"\", which is what the collector plays before",
			path);
		scenario_free(scenario);
		return NULL;
	}
	return scenario;
}

void scenario_free(struct scenario *scenario)
{
	if (!scenario)
		return;
	free(scenario->description);
	free(scenario->task);
	free(scenario);
}
