#include "mockllm/answer.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "mockllm/escape.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	BYTES_MAX = 1 << 30,
	CREATED = 1767225600, /* any time does; the same for every answer, so that bytes repeat */
	BYTES_PER_TOKEN = 4,
};

static void add(struct buf *buf, const char *bytes, size_t length)
{
	if (buf_add(buf, bytes, length))
		die_oom();
}

static void add_text(struct buf *buf, const char *text)
{
	add(buf, text, strlen(text));
}

#define addf(buf, ...)                                                                             \
	do {                                                                                       \
		if (buf_addf(buf, __VA_ARGS__))                                                    \
			die_oom();                                                                 \
	} while (0)

void answer_scratch_init(struct answer_scratch *scratch)
{
	*scratch = (struct answer_scratch){0};
	buf_init(&scratch->bytes, BYTES_MAX);
	buf_init(&scratch->events, BYTES_MAX);
	buf_init(&scratch->event_head, BYTES_MAX);
}

void answer_scratch_release(struct answer_scratch *scratch)
{
	script_turn_release(&scratch->turn);
	buf_release(&scratch->bytes);
	buf_release(&scratch->events);
	buf_release(&scratch->event_head);
	free(scratch->send);
}

/* ---- server-sent events */

struct maker {
	const struct script *script;
	const struct answer_wish *wish;
	struct answer_scratch *scratch;
	char id[SCRIPT_ID_SIZE];
};

/* What all events of an answer begin with. */
static void make_event_head(struct maker *maker)
{
	buf_clear(&maker->scratch->event_head);
	addf(&maker->scratch->event_head,
		"data: {\"id\":\"%s\",\"object\":\"chat.completion.chunk\",\"created\":%d,"
		"\"model\":\"%s\",\"choices\":[",
		maker->id, CREATED, maker->script->scenario->name);
}

static void begin_event(struct maker *maker)
{
	const struct buf *head = &maker->scratch->event_head;
	add(&maker->scratch->events, head->data, head->length);
}

static void begin_delta(struct maker *maker)
{
	begin_event(maker);
	add_text(&maker->scratch->events, "{\"index\":0,\"delta\":{");
}

static void end_delta(struct maker *maker)
{
	add_text(&maker->scratch->events, "},\"finish_reason\":null}]}\n\n");
}

static void add_text_delta(struct maker *maker, size_t index)
{
	const struct script_turn *turn = &maker->scratch->turn;
	size_t start = index ? turn->delta_ends[index - 1] : 0;
	begin_delta(maker);
	if (!index)
		add_text(&maker->scratch->events, "\"role\":\"assistant\",");
	add_text(&maker->scratch->events, "\"content\":\"");
	escape_json(
		&maker->scratch->events, turn->text.data + start, turn->delta_ends[index] - start);
	add_text(&maker->scratch->events, "\"");
	end_delta(maker);
}

/* Where the arguments are cut in two: anywhere but within a character. */
static size_t cut_of(const struct buf *arguments, uint64_t key)
{
	size_t cut = 1 + (size_t)(key >> 8) % (arguments->length - 1);
	while (cut < arguments->length && (arguments->data[cut] & 0xc0) == 0x80)
		cut++;
	return cut;
}

/* Fragment 0 of a call is its head, the others are its arguments. */
static void add_call_delta(struct maker *maker, size_t index, size_t fragment)
{
	const struct script_call *call = &maker->scratch->turn.call[index];
	struct buf *events = &maker->scratch->events;
	const struct buf *arguments = &call->arguments;
	size_t cut = cut_of(arguments, call->key);
	begin_delta(maker);
	addf(events, "\"tool_calls\":[{\"index\":%zu,", index);
	if (!fragment)
		addf(events, "\"id\":\"%s\",\"type\":\"function\",", call->id);
	add_text(events, "\"function\":{");
	if (!fragment)
		addf(events, "\"name\":\"%s\",", call->name);
	add_text(events, "\"arguments\":\"");
	if (fragment == 1)
		escape_json(events, arguments->data, cut);
	else if (fragment == 2)
		escape_json(events, arguments->data + cut, arguments->length - cut);
	add_text(events, "\"}}]");
	end_delta(maker);
}

static int64_t completion_tokens(const struct script_turn *turn)
{
	size_t bytes = turn->text.length;
	for (size_t i = 0; i < turn->calls; i++)
		bytes += turn->call[i].arguments.length;
	return (int64_t)(bytes / BYTES_PER_TOKEN) + 1;
}

static void add_usage(struct buf *out, const struct maker *maker)
{
	int64_t prompt = maker->wish->prompt_tokens;
	int64_t completion = completion_tokens(&maker->scratch->turn);
	addf(out,
		"\"usage\":{\"prompt_tokens\":%" PRId64 ",\"completion_tokens\":%" PRId64
		",\"total_tokens\":%" PRId64 "}",
		prompt, completion, prompt + completion);
}

static const char *finish_reason(const struct script_turn *turn)
{
	return turn->calls ? "tool_calls" : "stop";
}

static void add_ending(struct maker *maker)
{
	struct buf *events = &maker->scratch->events;
	begin_event(maker);
	addf(events, "{\"index\":0,\"delta\":{},\"finish_reason\":\"%s\"}]}\n\n",
		finish_reason(&maker->scratch->turn));
	if (maker->wish->include_usage) {
		begin_event(maker);
		add_text(events, "],");
		add_usage(events, maker);
		add_text(events, "}\n\n");
	}
	add_text(events, "data: [DONE]\n\n");
}

static void add_piece(struct maker *maker, size_t piece)
{
	size_t deltas = maker->scratch->turn.deltas;
	if (piece < deltas)
		add_text_delta(maker, piece);
	else
		add_call_delta(maker, (piece - deltas) / SCRIPT_FRAGMENTS,
			(piece - deltas) % SCRIPT_FRAGMENTS);
}

/* What was collected in events, as one HTTP chunk. */
static void flush_chunk(struct answer_scratch *scratch)
{
	addf(&scratch->bytes, "%zx\r\n", scratch->events.length);
	add(&scratch->bytes, scratch->events.data, scratch->events.length);
	add_text(&scratch->bytes, "\r\n");
	buf_clear(&scratch->events);
}

/* Texts for the status lines in use. */
static const char *reason(int status)
{
	switch (status) {
	case 200:
		return "OK";
	case 400:
		return "Bad Request";
	case 404:
		return "Not Found";
	case 405:
		return "Method Not Allowed";
	case 409:
		return "Conflict";
	case 413:
		return "Content Too Large";
	default:
		return "Internal Server Error";
	}
}

static void add_head(struct buf *out, int status, const char *type, bool keep_alive)
{
	addf(out, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\n%s", status, reason(status), type,
		keep_alive ? "" : "Connection: close\r\n");
}

/*
 * The pieces (text, then fragments of calls) go out one a send; the last send takes what is left of
 * them, and the ending.
 */
static size_t add_stream(struct maker *maker)
{
	struct answer_scratch *scratch = maker->scratch;
	const struct script_turn *turn = &scratch->turn;
	size_t sends = script_sends(maker->script), piece = 0;
	size_t pieces = turn->deltas + SCRIPT_FRAGMENTS * turn->calls;
	make_event_head(maker);
	add_head(&scratch->bytes, 200, "text/event-stream; charset=utf-8", maker->wish->keep_alive);
	add_text(&scratch->bytes, "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n"
				  "Transfer-Encoding: chunked\r\n\r\n");
	for (size_t i = 0; i < sends; i++) {
		bool last = i + 1 == sends;
		do
			add_piece(maker, piece++);
		while (last && piece < pieces);
		if (last)
			add_ending(maker);
		flush_chunk(scratch);
		if (last)
			add_text(&scratch->bytes, "0\r\n\r\n");
		scratch->send[i].end = scratch->bytes.length;
	}
	return sends;
}

/* ---- one JSON object */

static void add_message(struct maker *maker)
{
	struct buf *out = &maker->scratch->events;
	const struct script_turn *turn = &maker->scratch->turn;
	add_text(out, "{\"role\":\"assistant\",\"content\":\"");
	escape_json(out, turn->text.data, turn->text.length);
	add_text(out, "\",\"refusal\":null");
	for (size_t i = 0; i < turn->calls; i++) {
		const struct script_call *call = &turn->call[i];
		addf(out,
			"%s{\"id\":\"%s\",\"type\":\"function\",\"function\":{\"name\":\"%s\","
			"\"arguments\":\"",
			i ? "," : ",\"tool_calls\":[", call->id, call->name);
		escape_json(out, call->arguments.data, call->arguments.length);
		add_text(out, "\"}}");
	}
	add_text(out, turn->calls ? "]}" : "}");
}

static size_t add_whole(struct maker *maker)
{
	struct answer_scratch *scratch = maker->scratch;
	struct buf *body = &scratch->events;
	addf(body,
		"{\"id\":\"%s\",\"object\":\"chat.completion\",\"created\":%d,\"model\":\"%s\","
		"\"choices\":[{\"index\":0,\"message\":",
		maker->id, CREATED, maker->script->scenario->name);
	add_message(maker);
	addf(body, ",\"logprobs\":null,\"finish_reason\":\"%s\"}],", finish_reason(&scratch->turn));
	add_usage(body, maker);
	add_text(body, "}");
	add_head(&scratch->bytes, 200, "application/json", maker->wish->keep_alive);
	addf(&scratch->bytes, "Content-Length: %zu\r\n\r\n", body->length);
	add(&scratch->bytes, body->data, body->length);
	buf_clear(body);
	size_t last = script_sends(maker->script) - 1;
	scratch->send[0] = (struct answer_send){scratch->send[last].due_ns, scratch->bytes.length};
	return 1;
}

static struct answer *pack(
	const struct buf *bytes, const struct answer_send *send, size_t sends, bool keep_alive)
{
	size_t head = sizeof(struct answer) + sends * sizeof *send;
	struct answer *answer = xmalloc(head + bytes->length);
	*answer = (struct answer){
		.bytes = (char *)answer + head, .sends = sends, .keep_alive = keep_alive};
	memcpy(answer->send, send, sends * sizeof *send);
	memcpy(answer->bytes, bytes->data, bytes->length);
	return answer;
}

struct answer *answer_turn(const struct script *script, int64_t session, int64_t turn,
	const struct answer_wish *wish, struct answer_scratch *scratch)
{
	struct maker maker = {.script = script, .wish = wish, .scratch = scratch};
	size_t sends = script_sends(script);
	script_answer_id(script, session, turn, maker.id);
	script_turn_make(script, session, turn, &scratch->turn);
	scratch->send = xrealloc(scratch->send, sends * sizeof *scratch->send);
	auto_free int64_t *due_ns = xmalloc(sends * sizeof *due_ns);
	script_schedule(script, session, turn, due_ns);
	for (size_t i = 0; i < sends; i++)
		scratch->send[i].due_ns = due_ns[i];
	buf_clear(&scratch->bytes);
	buf_clear(&scratch->events);
	sends = wish->stream ? add_stream(&maker) : add_whole(&maker);
	return pack(&scratch->bytes, scratch->send, sends, wish->keep_alive);
}

char *answer_error_body(const char *type, const char *code, const char *message)
{
	json_auto_t *body = json_pack("{s:{s:s, s:s, s:n, s:s?}}", "error", "message", message,
		"type", type, "param", "code", code);
	char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	if (!text)
		die_oom();
	return text;
}

struct answer *answer_error(
	int status, const char *type, const char *code, const char *message, bool keep_alive)
{
	auto_free char *body = answer_error_body(type, code, message);
	auto_buf struct buf bytes;
	buf_init(&bytes, BYTES_MAX);
	add_head(&bytes, status, "application/json", keep_alive);
	addf(&bytes, "Content-Length: %zu\r\n\r\n%s", strlen(body), body);
	struct answer_send send = {0, bytes.length};
	return pack(&bytes, &send, 1, keep_alive);
}
