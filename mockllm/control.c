#include "mockllm/api.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"
#include "mockllm/chat.h"

#include <inttypes.h>
#include <sha2.h>
#include <stdio.h>
#include <string.h>

static void reply_error(struct reply *reply, int status, const char *message)
{
	api_reply(reply, status, json_pack("{s:{s:s}}", "error", "message", message));
}

static void load_scenario(struct mock *mock, const struct request *request, struct reply *reply)
{
	struct error err;
	json_auto_t *object = json_read_text(request->body, request->length, "scenario", &err);
	struct scenario *scenario = object ? scenario_read(object, "scenario", &err) : NULL;
	if (!scenario) {
		reply_error(reply, 400, err.text);
		return;
	}
	if (mock->run && !strcmp(mock->run->script.scenario->name, scenario->name)) {
		scenario_free(scenario);
		reply_error(reply, 409, "a run of this scenario is on: end it first");
		return;
	}
	char digest[SHA256_DIGEST_STRING_LENGTH];
	SHA256Data((const uint8_t *)request->body, request->length, digest);
	json_t *answer = json_pack("{s:s, s:I, s:I, s:s}", "name", scenario->name, "turns",
		(json_int_t)scenario->turns, "system_prompt_bytes",
		(json_int_t)scenario->system_prompt_bytes, "sha256", digest);
	catalog_put(&mock->catalog, scenario);
	api_reply(reply, 200, answer);
}

static void begin_run(struct mock *mock, const struct request *request, struct reply *reply)
{
	struct error err;
	const char *name = NULL;
	int64_t sessions = 0, seed = 0;
	const struct json_field fields[] = {
		{"scenario", JSON_FIELD_TEXT, false, &name, 1, SCENARIO_NAME_MAX, 0, 0,
			"a loaded scenario"},
		{"sessions", JSON_FIELD_INT, false, &sessions, 1, RUN_SESSIONS_MAX, 0, 0,
			"sessions s1 … sN"},
		{"seed", JSON_FIELD_INT, false, &seed, 0, INT64_MAX, 0, 0, "of everything random"},
	};
	json_auto_t *object = json_read_text(request->body, request->length, "run", &err);
	if (!object || json_read_fields(object, "run", "", fields, 3, &err)) {
		reply_error(reply, 400, err.text);
		return;
	}
	if (mock->run) {
		reply_error(reply, 409, "a run is on: end it first");
		return;
	}
	struct loaded *loaded = catalog_find(&mock->catalog, name);
	if (!loaded) {
		reply_error(reply, 404, "run: scenario: not loaded");
		return;
	}
	/* What of free play is still open would show up as load in the run. */
	chat_cut(mock, NULL);
	/* libmicrohttpd can miss that an agent was killed amid a request, and keep its descriptor.
	 */
	server_hang_up_agents(mock->server);
	struct run *run = mock->run =
		run_new(++mock->runs, loaded, sessions, (uint64_t)seed, &mock->catalog);
	mock->counters.runs++;
	api_reply(reply, 200,
		json_pack("{s:I, s:s, s:s, s:I}", "run", (json_int_t)run->id, "system_prompt",
			run->script.system_prompt.data, "task", loaded->scenario->task, "begun_ns",
			(json_int_t)run->begun_ns));
}

static void show_run(const struct run *run, struct reply *reply)
{
	api_reply(reply, 200,
		json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "run", (json_int_t)run->id,
			"sessions_seen", (json_int_t)run->sessions_seen, "sessions_complete",
			(json_int_t)run->sessions_complete, "requests", (json_int_t)run->requests,
			"errors", (json_int_t)run_error_total(run), "open_streams",
			(json_int_t)run->open_streams));
}

static void end_run(struct mock *mock, struct reply *reply)
{
	struct run *run = mock->run;
	run_end(run);
	chat_cut(mock, run);
	mock->run = NULL;
	struct buf ledger;
	buf_init(&ledger, 1 << 30);
	run_add_ledger(run, &ledger);
	run_drop(run);
	*reply = (struct reply){200, ledger.data, ledger.length};
}

static void show_counters(const struct mock *mock, struct reply *reply)
{
	const struct mock_counters *counters = &mock->counters;
	const struct server_counters *server = server_counters(mock->server);
	json_t *errors = json_object();
	for (int i = FAULT_NONE + 1; i < FAULTS; i++)
		json_object_set_new(errors, fault_name(i), json_integer(counters->errors[i]));
	api_reply(reply, 200,
		json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "runs",
			(json_int_t)counters->runs, "connections", (json_int_t)server->connections,
			"requests", (json_int_t)server->requests, "chats",
			(json_int_t)counters->chats, "peers_left", (json_int_t)counters->peers_left,
			"tool_stamps", (json_int_t)counters->tool_stamps, "tool_stamps_stray",
			(json_int_t)counters->tool_stamps_stray, "errors", errors));
}

void control_handle(struct mock *mock, const struct request *request, struct reply *reply)
{
	bool is_get = !strcmp(request->method, "GET"), is_post = !strcmp(request->method, "POST");
	const char *url = request->url;
	if (is_get && !strcmp(url, "/healthz"))
		api_health(mock, reply);
	else if (is_post && !strcmp(url, "/control/scenario"))
		load_scenario(mock, request, reply);
	else if (is_post && !strcmp(url, "/control/run"))
		begin_run(mock, request, reply);
	else if (is_get && !strcmp(url, "/control/counters"))
		show_counters(mock, reply);
	else if ((is_get && !strcmp(url, "/control/run")) ||
		 (is_post && !strcmp(url, "/control/run/end"))) {
		if (!mock->run)
			reply_error(reply, 404, "no run is on");
		else if (is_get)
			show_run(mock->run, reply);
		else
			end_run(mock, reply);
	} else {
		reply_error(reply, 404, "no such address or method: see docs/protocols.md");
	}
}
