#include "agent/c/answer.h"

#include "agent/c/chunk.h"
#include "agent/c/history.h"
#include "agent/c/server_error.h"
#include "common/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Pieces of text are escaped here before they go where they stay, which is then no larger than they
 * are; used up within each call. */
static struct buf scratch = {.max = SIZE_MAX / 2};

void answer_init(struct answer *answer, struct history *history)
{
	*answer = (struct answer){.history = history, .history_length = history->chain.length};
	escape_init(&answer->text_escape, SIZE_MAX);
}

void answer_release(struct answer *answer)
{
	for (size_t i = 0; i < answer->call_count; i++) {
		struct call *call = &answer->calls[i];
		buf_release(&call->id);
		buf_release(&call->name);
		buf_release(&call->arguments);
	}
	free(answer->calls);
	answer->calls = NULL;
	answer->call_count = 0;
}

void answer_drop(struct answer *answer)
{
	chain_cut(&answer->history->chain, answer->history_length);
	answer_release(answer);
	answer_init(answer, answer->history);
}

static void clear_scratch(void)
{
	enum { KEEP_BYTES = 64 << 10 };
	if (scratch.capacity > KEEP_BYTES)
		buf_release(&scratch);
	buf_clear(&scratch);
}

static void flush_to_history(struct answer *answer)
{
	history_add_bytes(answer->history, scratch.data, scratch.length);
	clear_scratch();
}

static void flush_to(struct buf *text)
{
	buf_add(text, scratch.data, scratch.length);
	clear_scratch();
}

static void add_text(struct answer *answer, struct span text)
{
	if (!answer->has_text)
		history_add(answer->history, ",{\"role\":\"assistant\",\"content\":\"");
	answer->has_text = true;
	escape_json(&answer->text_escape, &scratch, text.at, text.length);
	flush_to_history(answer);
}

static struct call *start_call(struct answer *answer, int64_t order)
{
	answer->calls = xrealloc(answer->calls, (answer->call_count + 1) * sizeof *answer->calls);
	struct call *call = &answer->calls[answer->call_count++];
	*call = (struct call){.order = order};
	buf_init(&call->id, SIZE_MAX / 2);
	buf_init(&call->name, SIZE_MAX / 2);
	buf_init(&call->arguments, SIZE_MAX / 2);
	escape_init(&call->arguments_escape, SIZE_MAX);
	return call;
}

/* Compared as sent: a server that repeats an id does not change its spelling. */
static bool has_id(const struct call *call, struct span id)
{
	return call->id.length == id.length && !memcmp(call->id.data, id.at, id.length);
}

static struct call *start_call_at_end(struct answer *answer)
{
	int64_t order = 0;
	for (size_t i = 0; i < answer->call_count; i++)
		if (answer->calls[i].order >= order)
			order = answer->calls[i].order + 1;
	return start_call(answer, order);
}

/* The call that a fragment belongs to, by agent/CONTRACT.md, "What the server may send". */
static struct call *call_of(struct answer *answer, const struct fragment *fragment)
{
	struct span id = fragment->id;
	if (fragment->has_index) {
		/* From the last: a new id under an old index began a new call. */
		for (size_t i = answer->call_count; i-- > 0;) {
			struct call *call = &answer->calls[i];
			if (call->order != fragment->index)
				continue;
			if (!id.length || !call->id.length || has_id(call, id))
				return call;
			break;
		}
		return start_call(answer, fragment->index);
	}
	if (id.length) {
		for (size_t i = 0; i < answer->call_count; i++)
			if (has_id(&answer->calls[i], id))
				return &answer->calls[i];
		return start_call_at_end(answer);
	}
	return answer->call_count ? &answer->calls[answer->current] : start_call_at_end(answer);
}

/* An id or a name: taken once, when it is not empty. */
static void take_once(struct buf *text, struct span span)
{
	if (text->length || !span.length)
		return;
	struct escape escape;
	escape_init(&escape, SIZE_MAX);
	escape_json(&escape, &scratch, span.at, span.length);
	escape_end(&escape, &scratch);
	flush_to(text);
}

static void take_fragment(struct answer *answer, const struct fragment *fragment)
{
	struct call *call = call_of(answer, fragment);
	answer->current = (size_t)(call - answer->calls);
	take_once(&call->id, fragment->id);
	take_once(&call->name, fragment->name);
	if (fragment->arguments_are_json)
		escape_text(&scratch, fragment->arguments.at, fragment->arguments.length);
	else if (fragment->arguments.length)
		escape_json(&call->arguments_escape, &scratch, fragment->arguments.at,
			fragment->arguments.length);
	flush_to(&call->arguments);
}

static bool is_blank(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (!strchr(" \t\r\n", text[i]) || !text[i])
			return false;
	return true;
}

static bool is_done(const char *text, size_t length)
{
	static const char DONE[] = "[DONE]";
	size_t done_length = sizeof DONE - 1;
	return length >= done_length && !memcmp(text, DONE, done_length) &&
	       is_blank(text + done_length, length - done_length);
}

int answer_take(struct answer *answer, const char *data, size_t length, struct error *err)
{
	struct chunk chunk;
	struct fragment fragment;
	if (answer->done)
		return 0;
	if (is_done(data, length)) {
		answer->done = true;
		return 0;
	}
	if (chunk_read(data, length, &chunk)) {
		if (is_blank(data, length))
			return 0;
		return error_set(err, 0, "event of the stream is not JSON: '%.*s'",
			length < 80 ? (int)length : 80, data);
	}
	if (chunk.error.at)
		return server_error_value(chunk.error.at, chunk.error.length, err);
	if (chunk.content.at)
		add_text(answer, chunk.content);
	while (chunk_next_fragment(&chunk.tool_calls, &fragment))
		take_fragment(answer, &fragment);
	if (chunk.finish_reason.at)
		answer->finished = true;
	return 0;
}

/* Few calls, nearly always in order already; stable. */
static void sort_calls(struct answer *answer)
{
	for (size_t i = 1; i < answer->call_count; i++) {
		struct call call = answer->calls[i];
		size_t at = i;
		for (; at && answer->calls[at - 1].order > call.order; at--)
			answer->calls[at] = answer->calls[at - 1];
		answer->calls[at] = call;
	}
}

static void end_call(struct answer *answer, size_t number, int turn)
{
	struct call *call = &answer->calls[number];
	escape_end(&call->arguments_escape, &scratch);
	flush_to(&call->arguments);
	if (!call->arguments.length)
		buf_add_text(&call->arguments, "{}");
	if (!call->id.length)
		buf_addf(&call->id, "call_%d_%zu", turn, number);
	history_add(answer->history, number ? ",{\"id\":\"" : "{\"id\":\"");
	history_add_bytes(answer->history, call->id.data, call->id.length);
	history_add(answer->history, "\",\"type\":\"function\",\"function\":{\"name\":\"");
	history_add_bytes(answer->history, call->name.data, call->name.length);
	history_add(answer->history, "\",\"arguments\":\"");
	history_add_bytes(answer->history, call->arguments.data, call->arguments.length);
	history_add(answer->history, "\"}}");
}

void answer_end(struct answer *answer, int turn)
{
	if (answer->has_text) {
		escape_end(&answer->text_escape, &scratch);
		flush_to_history(answer);
		history_add(answer->history, "\"");
	} else {
		history_add(answer->history, ",{\"role\":\"assistant\",\"content\":null");
	}
	if (answer->call_count) {
		history_add(answer->history, ",\"tool_calls\":[");
		sort_calls(answer);
		for (size_t i = 0; i < answer->call_count; i++)
			end_call(answer, i, turn);
		history_add(answer->history, "]");
	}
	history_add(answer->history, "}");
}
