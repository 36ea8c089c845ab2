#include "common/scenario.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"

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
};

static const double TIME_MAX_MS = 3600000;

/* Refuse with the path of the field. */
static int refuse(const char *where, const char *path, const char *problem, struct error *err)
{
	return error_set(err, 0, "%s: %s: %s", where, path, problem);
}

static int read_range(const json_t *object, const char *where, const char *path, int64_t min,
	int64_t max, struct scenario_range *out, struct error *err)
{
	struct scenario_range range = {0};
	const struct json_field fields[] = {
		{"min", JSON_FIELD_INT, false, &range.min, min, max, 0, 0, "smallest"},
		{"max", JSON_FIELD_INT, false, &range.max, min, max, 0, 0, "largest"},
	};
	if (json_read_fields(object, where, path, fields, COUNT(fields), err))
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
	double constant = -1, uniform = -1, spread = -1;
	const struct json_field fields[] = {
		{"constant", JSON_FIELD_REAL, true, &constant, 0, 0, 0, TIME_MAX_MS, "always this"},
		{"uniform", JSON_FIELD_REAL, true, &uniform, 0, 0, 0, TIME_MAX_MS, "its middle"},
		{"spread", JSON_FIELD_REAL, true, &spread, 0, 0, 0, 1, "its half width, as a part"},
	};
	if (json_read_fields(object, where, path, fields, COUNT(fields), err))
		return -1;
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
	const char *kind = NULL;
	const json_t *calls = NULL, *sleep_ms = NULL, *output_bytes = NULL;
	const struct json_field fields[] = {
		{"kind", JSON_FIELD_TEXT, false, &kind, 1, 16, 0, 0, "tmtool or bin"},
		{"calls", JSON_FIELD_OBJECT, false, &calls, 0, 0, 0, 0, "calls a turn"},
		{"sleep_ms", JSON_FIELD_OBJECT, true, &sleep_ms, 0, 0, 0, 0,
			"how long a call sleeps; tmtool only"},
		{"output_bytes", JSON_FIELD_OBJECT, false, &output_bytes, 0, 0, 0, 0,
			"what a call prints; bin: of the calls that print the system prompt"},
	};
	if (json_read_fields(object, where, "tools", fields, COUNT(fields), err))
		return -1;
	bool is_bin = !strcmp(kind, "bin");
	if (!is_bin && strcmp(kind, "tmtool"))
		return error_set(err, 0, "%s: tools.kind: must be \"tmtool\" or \"bin\", is %s",
			where, json_describe(json_object_get(object, "kind")));
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
	if (read_range(calls, where, "tools.calls", 1, SCENARIO_CALLS_MAX, &out->tool_calls, err) ||
		(sleep_ms && read_range(sleep_ms, where, "tools.sleep_ms", 0, SLEEP_MAX_MS,
				     &out->tool_sleep_ms, err)) ||
		read_range(output_bytes, where, "tools.output_bytes", output_min, output_max,
			&out->tool_output_bytes, err))
		return -1;
	out->tool_kind = is_bin ? SCENARIO_TOOLS_BIN : SCENARIO_TOOLS_TMTOOL;
	return 0;
}

static int check_name(const char *name, const char *where, struct error *err)
{
	if (strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(name))
		return 0;
	return error_set(err, 0, "%s: name: must be of a-z, 0-9 and '-', is \"%s\"", where, name);
}

struct scenario *scenario_read(const json_t *object, const char *where, struct error *err)
{
	struct scenario read = {.spread_first_ms = 0};
	const char *name = NULL, *description = NULL, *task = NULL;
	const json_t *ttft = NULL, *interval = NULL, *chunk_bytes = NULL, *tools = NULL;
	const struct json_field fields[] = {
		{"name", JSON_FIELD_TEXT, false, &name, 1, SCENARIO_NAME_MAX, 0, 0,
			"name, as of the file"},
		{"description", JSON_FIELD_TEXT, false, &description, 1, 1000, 0, 0,
			"what it is for"},
		{"turns", JSON_FIELD_INT, false, &read.turns, 1, 10000, 0, 0,
			"turns of a session; every one but the last asks for tools"},
		{"system_prompt_bytes", JSON_FIELD_INT, false, &read.system_prompt_bytes, 1,
			PROMPT_MAX, 0, 0, "size of the seeded system prompt, bytes"},
		{"task", JSON_FIELD_TEXT, false, &task, 1, TASK_MAX, 0, 0,
			"user message; {session} is replaced"},
		{"ttft_ms", JSON_FIELD_OBJECT, false, &ttft, 0, 0, 0, 0,
			"from a request fully read to its first token, ms"},
		{"chunk_interval_ms", JSON_FIELD_OBJECT, false, &interval, 0, 0, 0, 0,
			"between two sends, ms"},
		{"spread_first_ms", JSON_FIELD_REAL, true, &read.spread_first_ms, 0, 0, 0,
			TIME_MAX_MS,
			"adds a seeded uniform 0 to this to each session's first token, ms"},
		{"chunks", JSON_FIELD_INT, false, &read.chunks, 1, 100000, 0, 0,
			"sends of a turn, the last one its end"},
		{"chunk_bytes", JSON_FIELD_OBJECT, false, &chunk_bytes, 0, 0, 0, 0,
			"text of a send, bytes"},
		{"tools", JSON_FIELD_OBJECT, true, &tools, 0, 0, 0, 0,
			"the calls of every turn but the last"},
	};
	if (json_read_fields(object, where, "", fields, COUNT(fields), err) ||
		check_name(name, where, err) ||
		read_timing(ttft, where, "ttft_ms", &read.ttft_ms, err) ||
		read_timing(interval, where, "chunk_interval_ms", &read.chunk_interval_ms, err) ||
		read_range(chunk_bytes, where, "chunk_bytes", 1, 65536, &read.chunk_bytes, err))
		return NULL;
	if (read.chunks * read.chunk_bytes.max > TURN_TEXT_MAX) {
		error_set(err, 0,
			"%s: chunks: chunks times chunk_bytes.max must be at most %d, is %" PRId64,
			where, TURN_TEXT_MAX, read.chunks * read.chunk_bytes.max);
		return NULL;
	}
	if (!tools && read.turns > 1) {
		refuse(where, "tools", "must be given when turns is above 1", err);
		return NULL;
	}
	if (tools && read_tools(tools, where, &read, err))
		return NULL;

	struct scenario *scenario = xmalloc(sizeof *scenario);
	*scenario = read;
	memcpy(scenario->name, name, strlen(name) + 1);
	scenario->description = xstrdup(description);
	scenario->task = xstrdup(task);
	return scenario;
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
