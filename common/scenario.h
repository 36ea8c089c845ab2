/*
 * Scenario files: what the mock LLM plays. Read strictly (docs/protocols.md has the table); the
 * mock and `collector check` share this. Messages name file and field.
 */
#ifndef COMMON_SCENARIO_H
#define COMMON_SCENARIO_H

#include <jansson.h>
#include <stdint.h>

struct error;

enum {
	SCENARIO_NAME_MAX = 64,
	SCENARIO_CALLS_MAX = 16,      /* of one turn */
	SCENARIO_BIN_OUTPUT_MIN = 64, /* bytes; less would cut into the prompt's first line */
};

/* Uniform in min … max, both included. */
struct scenario_range {
	int64_t min, max;
};

/* Uniform in base_ms·(1 − spread) … base_ms·(1 + spread); spread 0 is a constant. */
struct scenario_timing {
	double base_ms;
	double spread;
};

enum scenario_tool_kind {
	SCENARIO_TOOLS_NONE, /* only where turns is 1 */
	SCENARIO_TOOLS_TMTOOL,
	SCENARIO_TOOLS_BIN,
};

struct scenario {
	char name[SCENARIO_NAME_MAX + 1];
	char *description;
	char *task; /* every "{session}" is replaced by the session's name */
	int64_t turns;
	int64_t system_prompt_bytes;
	struct scenario_timing ttft_ms;
	struct scenario_timing chunk_interval_ms;
	double spread_first_ms; /* adds a uniform 0 … this to each session's first ttft */
	int64_t chunks;         /* sends of a turn; the last one is its end */
	struct scenario_range chunk_bytes;
	enum scenario_tool_kind tool_kind;
	struct scenario_range tool_calls;
	struct scenario_range tool_sleep_ms; /* tmtool only */
	struct scenario_range tool_output_bytes;
};

/* A name that no file may have: the collector plays a scenario's shape under it beforehand. */
#define SCENARIO_WARM_UP "warm-up"

/* Of a file NAME.json; its name member must be NAME. */
struct scenario *scenario_read_file(const char *path, struct error *err);

/* Of a JSON object that came from `where`. */
struct scenario *scenario_read(const json_t *object, const char *where, struct error *err);

/* The JSON Schema of such files. New reference. */
json_t *scenario_schema(void);

void scenario_free(struct scenario *scenario); /* accepts NULL */

#endif
