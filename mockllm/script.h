/*
 * What the mock says and when: each turn's text, tool calls and times are a function of (scenario,
 * seed, session, turn) and of where the suite's tool lies. Nothing is kept: sender and checker make
 * a turn again whenever they need it. Thread-safe: a script is only read.
 *
 * Sessions and turns count from 1, calls of a turn from 0.
 */
#ifndef MOCKLLM_SCRIPT_H
#define MOCKLLM_SCRIPT_H

#include "common/buf.h"
#include "common/scenario.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SCRIPT_ID_SIZE = 32,
	SCRIPT_FRAGMENTS = 3,           /* of a call: its head, and its arguments in two pieces */
	SCRIPT_TOOL_OUTPUT_MAX = 65536, /* the contract's default of AGENT_TOOL_OUTPUT_MAX */
};

/* The file that the collector fills with the system prompt, in the agent's working directory. */
#define SCRIPT_PROMPT_FILE "system_prompt.txt"

struct script {
	const struct scenario *scenario;
	uint64_t seed;
	const char *tool_path;
	const char *tool_socket; /* abstract name, without the NUL */
	struct buf system_prompt;
};

/* scenario, tool_path and tool_socket are borrowed. */
void script_init(struct script *script, const struct scenario *scenario, uint64_t seed,
	const char *tool_path, const char *tool_socket);
void script_release(struct script *script);

/* The task as session k ("sk") gets it, added to `out`. */
void script_task(const struct script *script, int64_t session, struct buf *out);

enum script_call_kind {
	SCRIPT_CALL_TMTOOL,
	SCRIPT_CALL_ECHO,
	SCRIPT_CALL_CAT,
	SCRIPT_CALL_HEAD,
	SCRIPT_CALL_PRINTF,
};

struct script_call {
	enum script_call_kind kind;
	char id[SCRIPT_ID_SIZE];
	const char *name;     /* "exec" or "shell" */
	struct buf arguments; /* JSON text, ASCII unless the tool's path is not */
	uint64_t key;
	int64_t sleep_ms;     /* tmtool */
	int64_t output_bytes; /* tmtool, head */
	struct buf output;    /* echo, printf: the tool message */
};

struct script_turn {
	struct buf text;    /* UTF-8 */
	size_t *delta_ends; /* where each piece of the text ends */
	size_t deltas;
	size_t calls; /* 0: the last turn */
	struct script_call call[SCENARIO_CALLS_MAX];
};

/* Must be zeroed before its first use; making again reuses its memory. */
void script_turn_make(
	const struct script *script, int64_t session, int64_t turn, struct script_turn *out);
void script_turn_release(struct script_turn *turn);

/* Number of sends of every turn. */
static inline size_t script_sends(const struct script *script)
{
	return (size_t)script->scenario->chunks;
}

/* When the first send of a turn is due, ns after its request was fully read. */
int64_t script_ttft(const struct script *script, int64_t session, int64_t turn);

/* When each send is due, ns after the request was fully read. `out` has script_sends items. */
void script_schedule(const struct script *script, int64_t session, int64_t turn, int64_t *out);

/* The tool message that a call must be answered with. The text lies in the call, in the script or
 * in `scratch`, and is valid as long as all three are left alone. */
const char *script_output(const struct script *script, const struct script_call *call,
	struct buf *scratch, size_t *length);

/* Its length, without making it. */
size_t script_output_length(const struct script *script, const struct script_call *call);

/* "chatcmpl-…" of an answer. */
void script_answer_id(
	const struct script *script, int64_t session, int64_t turn, char out[SCRIPT_ID_SIZE]);

/* A call's key is its place in the run, scrambled by the seed. */
uint64_t script_key(uint64_t seed, int64_t session, int64_t turn, size_t call);
/* The reverse; of any number, so check the ranges. */
void script_key_place(uint64_t seed, uint64_t key, int64_t *session, int64_t *turn, size_t *call);

#endif
