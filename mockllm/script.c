#include "mockllm/script.h"

#include "common/clock.h"
#include "common/error.h"
#include "common/rng.h"
#include "common/toolgen.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Streams of random numbers of one turn; a new kind of text must not move the others. */
enum stream {
	STREAM_PROMPT = 1,
	STREAM_TEXT,
	STREAM_CALLS,
	STREAM_TIMES,
	STREAM_IDS,
	STREAM_KEYS,
};

enum { TEXT_MAX = 64 << 20 };

static uint64_t turn_state(
	const struct script *script, enum stream stream, int64_t session, int64_t turn)
{
	uint64_t state = rng_derive(script->seed, stream);
	return rng_derive(rng_derive(state, (uint64_t)session), (uint64_t)turn);
}

/* All texts of a script are far below TEXT_MAX: scenario.c bounds them. */
static void add(struct buf *buf, const void *bytes, size_t length)
{
	if (buf_add(buf, bytes, length))
		die_oom();
}

static void add_text(struct buf *buf, const char *text)
{
	add(buf, text, strlen(text));
}

/*
 * Exactly `size` bytes of words in which about one character in 20 must be escaped in JSON or
 * takes several bytes of UTF-8; code points are whole.
 */
static void add_words(struct buf *buf, uint64_t *state, size_t size)
{
	static const char letters[] = "etaoinshrdlucmfwypvbgkjqxz";
	while (size) {
		uint64_t bits = rng_next(state);
		for (int i = 0; i < 9 && size; i++, bits >>= 7) {
			const char *unit = letters + bits % 26;
			size_t length = 1;
			unsigned pick = bits & 127;
			if (pick < 20)
				unit = " ";
			else if (pick == 20)
				unit = "\n";
			else if (pick == 21)
				unit = "\"";
			else if (pick == 22)
				unit = "\\";
			else if (pick == 23)
				unit = "\t";
			else if (pick == 24 && size >= 2)
				unit = "\u00e9", length = 2;
			else if (pick == 25 && size >= 3)
				unit = "\u2014", length = 3;
			else if (pick == 26 && size >= 4)
				unit = "\U0001f600", length = 4;
			add(buf, unit, length);
			size -= length;
		}
	}
}

/*
 * `head -c` of the bin tools cuts the prompt anywhere from byte SCENARIO_BIN_OUTPUT_MIN on, so it
 * has code points of several bytes in its first line only.
 */
static void make_system_prompt(struct script *script)
{
	static const char greeting[] =
		"You are a coding agent \u2014 na\u00efve, but \u201cthorough\u201d.\n";
	_Static_assert(sizeof greeting <= SCENARIO_BIN_OUTPUT_MIN, "a cut would fall into it");
	size_t size = (size_t)script->scenario->system_prompt_bytes;
	struct buf *prompt = &script->system_prompt;
	size_t start = size >= 2 * sizeof greeting ? sizeof greeting - 1 : 0;
	add(prompt, greeting, start);
	if (buf_reserve(prompt, size - start))
		die_oom();
	toolgen_fill(rng_derive(script->seed, STREAM_PROMPT), prompt->data + start, size - start);
	prompt->length = size;
	prompt->data[size] = '\0';
}

void script_init(struct script *script, const struct scenario *scenario, uint64_t seed,
	const char *tool_path, const char *tool_socket)
{
	*script = (struct script){.scenario = scenario,
		.seed = seed,
		.tool_path = tool_path,
		.tool_socket = tool_socket};
	buf_init(&script->system_prompt, TEXT_MAX);
	make_system_prompt(script);
}

void script_release(struct script *script)
{
	buf_release(&script->system_prompt);
}

void script_task(const struct script *script, int64_t session, struct buf *out)
{
	static const char mark[] = "{session}";
	const char *rest = script->scenario->task;
	char name[32];
	snprintf(name, sizeof name, "s%" PRId64, session);
	for (const char *at; (at = strstr(rest, mark)); rest = at + sizeof mark - 1) {
		add(out, rest, (size_t)(at - rest));
		add_text(out, name);
	}
	add_text(out, rest);
}

/* A JSON string of bytes that are valid UTF-8. */
static void add_json_string(struct buf *buf, const char *text)
{
	add_text(buf, "\"");
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;
		char escaped[8] = {(char)c};
		if (c == '"' || c == '\\')
			snprintf(escaped, sizeof escaped, "\\%c", c);
		else if (c < 0x20)
			snprintf(escaped, sizeof escaped, "\\u%04x", c);
		add_text(buf, escaped);
	}
	add_text(buf, "\"");
}

/* {"argv": ["…", …]} with blanks as many a model puts them. */
static void add_argv(struct buf *out, const char *const *argv)
{
	add_text(out, "{\"argv\": [");
	for (size_t i = 0; argv[i]; i++) {
		if (i)
			add_text(out, ", ");
		add_json_string(out, argv[i]);
	}
	add_text(out, "]}");
}

static void add_command(struct buf *out, const char *command)
{
	add_text(out, "{\"command\": ");
	add_json_string(out, command);
	add_text(out, "}");
}

static int64_t pick(uint64_t *state, const struct scenario_range *range)
{
	return rng_between(state, range->min, range->max);
}

static void make_tmtool_call(const struct script *script, uint64_t *state, struct script_call *call)
{
	const struct scenario *scenario = script->scenario;
	call->kind = SCRIPT_CALL_TMTOOL;
	call->name = "exec";
	call->sleep_ms = pick(state, &scenario->tool_sleep_ms);
	call->output_bytes = pick(state, &scenario->tool_output_bytes);
	char key[17], sleep_ms[24], output_bytes[24];
	snprintf(key, sizeof key, "%016" PRIx64, call->key);
	snprintf(sleep_ms, sizeof sleep_ms, "%" PRId64, call->sleep_ms);
	snprintf(output_bytes, sizeof output_bytes, "%" PRId64, call->output_bytes);
	const char *const argv[] = {
		script->tool_path, script->tool_socket, key, sleep_ms, output_bytes, NULL};
	add_argv(&call->arguments, argv);
}

static void add_exit_line(struct buf *output, int status)
{
	char line[24];
	snprintf(line, sizeof line, "[exit %d]", status);
	if (output->length && output->data[output->length - 1] != '\n')
		add_text(output, "\n");
	add_text(output, line);
}

/* printf to stdout, in every second call to stderr too, in every second one with an exit status. */
static void make_printf_call(uint64_t *state, struct script_call *call)
{
	uint64_t bits = rng_next(state);
	bool has_stderr = bits & 1, has_status = bits & 2;
	unsigned number = (unsigned)(bits >> 8) % 10000;
	int status = 1 + (int)((bits >> 32) % 125);
	char command[160];
	snprintf(command, sizeof command, "printf 'line one\\nvalue \"%u\"\\n'%s", number,
		has_stderr ? "; printf 'warning: \\303\\251' >&2" : "");
	if (has_status) {
		size_t length = strlen(command);
		snprintf(command + length, sizeof command - length, "; exit %d", status);
	}
	call->kind = SCRIPT_CALL_PRINTF;
	call->name = "shell";
	add_command(&call->arguments, command);
	char text[80];
	snprintf(text, sizeof text, "line one\nvalue \"%u\"\n%s", number,
		has_stderr ? "warning: \u00e9" : "");
	add_text(&call->output, text);
	if (has_status)
		add_exit_line(&call->output, status);
}

static void make_echo_call(uint64_t *state, struct script_call *call)
{
	call->kind = SCRIPT_CALL_ECHO;
	call->name = "exec";
	char words[3][24];
	for (size_t i = 0; i < 3; i++)
		snprintf(words[i], sizeof words[i], "w%" PRIx64 "\u00e9", rng_next(state) >> 40);
	const char *const argv[] = {"/bin/echo", words[0], words[1], words[2], NULL};
	add_argv(&call->arguments, argv);
	char text[80];
	snprintf(text, sizeof text, "%s %s %s\n", words[0], words[1], words[2]);
	add_text(&call->output, text);
}

/* Of every 8 calls: 3 echo, 1 cat, 2 head, 2 printf. */
static void make_bin_call(const struct script *script, uint64_t *state, struct script_call *call)
{
	static const char *const cat[] = {"/bin/cat", SCRIPT_PROMPT_FILE, NULL};
	int64_t kind = rng_between(state, 0, 7);
	if (kind < 3) {
		make_echo_call(state, call);
	} else if (kind == 3) {
		call->kind = SCRIPT_CALL_CAT;
		call->name = "exec";
		add_argv(&call->arguments, cat);
	} else if (kind < 6) {
		call->kind = SCRIPT_CALL_HEAD;
		call->name = "shell";
		call->output_bytes = pick(state, &script->scenario->tool_output_bytes);
		char command[64];
		snprintf(command, sizeof command, "head -c %" PRId64 " " SCRIPT_PROMPT_FILE,
			call->output_bytes);
		add_command(&call->arguments, command);
	} else {
		make_printf_call(state, call);
	}
}

static void make_calls(
	const struct script *script, int64_t session, int64_t turn, struct script_turn *out)
{
	uint64_t state = turn_state(script, STREAM_CALLS, session, turn);
	uint64_t ids = turn_state(script, STREAM_IDS, session, turn);
	out->calls = (size_t)pick(&state, &script->scenario->tool_calls);
	for (size_t i = 0; i < out->calls; i++) {
		struct script_call *call = &out->call[i];
		struct buf arguments = call->arguments, output = call->output;
		*call = (struct script_call){.arguments = arguments, .output = output};
		if (!call->arguments.max) {
			buf_init(&call->arguments, TEXT_MAX);
			buf_init(&call->output, TEXT_MAX);
		}
		buf_clear(&call->arguments);
		buf_clear(&call->output);
		uint64_t high = rng_next(&ids), low = rng_next(&ids);
		snprintf(call->id, sizeof call->id, "call_%016" PRIx64 "%08" PRIx64, high,
			low >> 32);
		call->key = script_key(script->seed, session, turn, i);
		if (script->scenario->tool_kind == SCENARIO_TOOLS_BIN)
			make_bin_call(script, &state, call);
		else
			make_tmtool_call(script, &state, call);
	}
}

void script_turn_make(
	const struct script *script, int64_t session, int64_t turn, struct script_turn *out)
{
	out->calls = 0;
	if (turn < script->scenario->turns)
		make_calls(script, session, turn, out);

	/* Each fragment of a call is a send of its own; text has the others, one at least. */
	size_t sends = script_sends(script);
	size_t fragments = SCRIPT_FRAGMENTS * out->calls;
	out->deltas = sends > fragments ? sends - fragments : 1;
	if (!out->text.max)
		buf_init(&out->text, TEXT_MAX);
	buf_clear(&out->text);
	out->delta_ends = xrealloc(out->delta_ends, sends * sizeof *out->delta_ends);
	uint64_t state = turn_state(script, STREAM_TEXT, session, turn);
	for (size_t i = 0; i < out->deltas; i++) {
		int64_t size = pick(&state, &script->scenario->chunk_bytes);
		add_words(&out->text, &state, (size_t)size);
		out->delta_ends[i] = out->text.length;
	}
}

void script_turn_release(struct script_turn *turn)
{
	buf_release(&turn->text);
	free(turn->delta_ends);
	for (size_t i = 0; i < SCENARIO_CALLS_MAX; i++) {
		buf_release(&turn->call[i].arguments);
		buf_release(&turn->call[i].output);
	}
	*turn = (struct script_turn){0};
}

static int64_t pick_ns(uint64_t *state, const struct scenario_timing *timing)
{
	double factor = 1 + timing->spread * (2 * rng_unit(state) - 1);
	return llround(timing->base_ms * factor * (double)NS_PER_MS);
}

static int64_t first_ns(const struct script *script, uint64_t *state, int64_t turn)
{
	const struct scenario *scenario = script->scenario;
	int64_t at_ns = pick_ns(state, &scenario->ttft_ms);
	double spread = rng_unit(state);
	if (turn == 1)
		at_ns += llround(spread * scenario->spread_first_ms * (double)NS_PER_MS);
	return at_ns;
}

int64_t script_ttft(const struct script *script, int64_t session, int64_t turn)
{
	uint64_t state = turn_state(script, STREAM_TIMES, session, turn);
	return first_ns(script, &state, turn);
}

void script_schedule(const struct script *script, int64_t session, int64_t turn, int64_t *out)
{
	uint64_t state = turn_state(script, STREAM_TIMES, session, turn);
	int64_t at_ns = out[0] = first_ns(script, &state, turn);
	for (size_t i = 1; i < script_sends(script); i++)
		out[i] = at_ns += pick_ns(&state, &script->scenario->chunk_interval_ms);
}

static const char truncated_line[] = "[truncated]";

const char *script_output(const struct script *script, const struct script_call *call,
	struct buf *scratch, size_t *length)
{
	switch (call->kind) {
	case SCRIPT_CALL_ECHO:
	case SCRIPT_CALL_PRINTF:
		*length = call->output.length;
		return call->output.data;
	case SCRIPT_CALL_CAT:
	case SCRIPT_CALL_HEAD: {
		const struct buf *prompt = &script->system_prompt;
		size_t size =
			call->kind == SCRIPT_CALL_CAT ? prompt->length : (size_t)call->output_bytes;
		if (size <= SCRIPT_TOOL_OUTPUT_MAX) {
			*length = size;
			return prompt->data;
		}
		buf_clear(scratch);
		add(scratch, prompt->data, SCRIPT_TOOL_OUTPUT_MAX);
		break;
	}
	case SCRIPT_CALL_TMTOOL: {
		size_t size = (size_t)call->output_bytes;
		buf_clear(scratch);
		if (buf_reserve(scratch, size))
			die_oom();
		toolgen_fill(call->key, scratch->data, size);
		if (size <= SCRIPT_TOOL_OUTPUT_MAX) {
			*length = size;
			return scratch->data;
		}
		scratch->length = SCRIPT_TOOL_OUTPUT_MAX;
		break;
	}
	}
	/* Tool texts beyond the first line of a prompt are ASCII: the cut is between characters. */
	if (scratch->data[scratch->length - 1] != '\n')
		add_text(scratch, "\n");
	add_text(scratch, truncated_line);
	*length = scratch->length;
	return scratch->data;
}

size_t script_output_length(const struct script *script, const struct script_call *call)
{
	const struct buf *prompt = &script->system_prompt;
	size_t size = (size_t)call->output_bytes, cut = SCRIPT_TOOL_OUTPUT_MAX;
	if (call->kind == SCRIPT_CALL_ECHO || call->kind == SCRIPT_CALL_PRINTF)
		return call->output.length;
	if (call->kind == SCRIPT_CALL_CAT)
		size = prompt->length;
	if (size <= cut)
		return size;
	bool is_line =
		call->kind == SCRIPT_CALL_TMTOOL ? cut % 80 == 0 : prompt->data[cut - 1] == '\n';
	return cut + !is_line + sizeof truncated_line - 1;
}

void script_answer_id(
	const struct script *script, int64_t session, int64_t turn, char out[SCRIPT_ID_SIZE])
{
	uint64_t state = turn_state(script, STREAM_IDS, session, turn) ^ 1;
	snprintf(out, SCRIPT_ID_SIZE, "chatcmpl-%016" PRIx64, rng_next(&state));
}

static uint64_t key_mask(uint64_t seed)
{
	return rng_derive(seed, STREAM_KEYS);
}

uint64_t script_key(uint64_t seed, int64_t session, int64_t turn, size_t call)
{
	uint64_t place = (uint64_t)session << 32 | (uint64_t)turn << 8 | call;
	return rng_mix(place ^ key_mask(seed));
}

/* The inverse of rng_mix: its multipliers are odd and its shifts at least 22 bits. */
static uint64_t unmix(uint64_t value)
{
	value = (value ^ value >> 31 ^ value >> 62) * UINT64_C(0x319642b2d24d8ec3);
	value = (value ^ value >> 27 ^ value >> 54) * UINT64_C(0x96de1b173f119089);
	return value ^ value >> 30 ^ value >> 60;
}

void script_key_place(uint64_t seed, uint64_t key, int64_t *session, int64_t *turn, size_t *call)
{
	uint64_t place = unmix(key) ^ key_mask(seed);
	*session = (int64_t)(place >> 32);
	*turn = (int64_t)(place >> 8 & 0xffffff);
	*call = (size_t)(place & 0xff);
}
