/* The body that a right agent sends, made from the script: for the load client and the tests. */
#ifndef MOCKLLM_BENCH_RIGHT_REQUEST_H
#define MOCKLLM_BENCH_RIGHT_REQUEST_H

#include "common/error.h"
#include "mockllm/escape.h"
#include "mockllm/script.h"

#include <stddef.h>

struct right_request {
	struct script_turn turn;
	struct buf task, output;
	struct buf body;
};

static inline void right_request_init(struct right_request *request)
{
	*request = (struct right_request){0};
	buf_init(&request->task, 64 << 20);
	buf_init(&request->output, 64 << 20);
	buf_init(&request->body, 64 << 20);
}

static inline void right_request_release(struct right_request *request)
{
	script_turn_release(&request->turn);
	buf_release(&request->task);
	buf_release(&request->output);
	buf_release(&request->body);
}

static inline void right_request_add(struct right_request *request, const char *text)
{
	if (buf_add_text(&request->body, text))
		die_oom();
}

static inline void right_request_add_string(
	struct right_request *request, const char *text, size_t length)
{
	right_request_add(request, "\"");
	escape_json(&request->body, text, length);
	right_request_add(request, "\"");
}

static inline void right_request_add_turn(
	struct right_request *request, const struct script *script, int64_t session, int64_t t)
{
	struct script_turn *turn = &request->turn;
	script_turn_make(script, session, t, turn);
	right_request_add(request, ",{\"role\":\"assistant\",\"content\":");
	right_request_add_string(request, turn->text.data, turn->text.length);
	right_request_add(request, ",\"tool_calls\":[");
	for (size_t i = 0; i < turn->calls; i++) {
		right_request_add(request, i ? ",{\"id\":\"" : "{\"id\":\"");
		right_request_add(request, turn->call[i].id);
		right_request_add(request, "\",\"type\":\"function\",\"function\":{\"name\":\"");
		right_request_add(request, turn->call[i].name);
		right_request_add(request, "\",\"arguments\":");
		right_request_add_string(
			request, turn->call[i].arguments.data, turn->call[i].arguments.length);
		right_request_add(request, "}}");
	}
	right_request_add(request, "]}");
	for (size_t i = 0; i < turn->calls; i++) {
		size_t length;
		const char *output =
			script_output(script, &turn->call[i], &request->output, &length);
		right_request_add(request, ",{\"role\":\"tool\",\"tool_call_id\":\"");
		right_request_add(request, turn->call[i].id);
		right_request_add(request, "\",\"content\":");
		right_request_add_string(request, output, length);
		right_request_add(request, "}");
	}
}

/* Into request->body. */
static inline void right_request_make(
	struct right_request *request, const struct script *script, int64_t session, int64_t turn)
{
	buf_clear(&request->body);
	buf_clear(&request->task);
	right_request_add(request, "{\"model\":\"");
	right_request_add(request, script->scenario->name);
	right_request_add(request, "\",\"stream\":true,\"stream_options\":{\"include_usage\":true},"
				   "\"messages\":[{\"role\":\"system\",\"content\":");
	right_request_add_string(request, script->system_prompt.data, script->system_prompt.length);
	right_request_add(request, "},{\"role\":\"user\",\"content\":");
	script_task(script, session, &request->task);
	right_request_add_string(request, request->task.data, request->task.length);
	right_request_add(request, "}");
	for (int64_t t = 1; t < turn; t++)
		right_request_add_turn(request, script, session, t);
	right_request_add(request, "]}");
}

#endif
