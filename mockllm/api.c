#include "mockllm/api.h"

#include "common/error.h"
#include "mockllm/answer.h"

#include <jansson.h>
#include <microhttpd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char models_url[] = "/v1/models";
static const char invalid_request[] = "invalid_request_error";

void api_reply(struct reply *reply, int status, json_t *object)
{
	char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
	if (!text)
		die_oom();
	json_decref(object);
	*reply = (struct reply){status, text, strlen(text)};
}

static void reply_error(struct reply *reply, int status, const char *code, const char *message)
{
	char *body = answer_error_body(invalid_request, code, message);
	*reply = (struct reply){status, body, strlen(body)};
}

void api_health(struct mock *mock, struct reply *reply)
{
	api_reply(reply, 200,
		json_pack("{s:s, s:s, s:s, s:i, s:i}", "status", "ok", "version", TURNMETER_VERSION,
			"libmicrohttpd", MHD_get_version(), "pid", (int)getpid(), "port",
			mock->port));
}

char *api_refusal(int status)
{
	if (status != 413)
		return answer_error_body("server_error", "no_descriptors",
			"the mock has no file descriptor left: raise its limit (ulimit -n)");
	char message[80];
	snprintf(message, sizeof message, "the body must be at most %d bytes", SERVER_BODY_MAX);
	return answer_error_body(invalid_request, "body_too_large", message);
}

static json_t *describe_model(const struct scenario *scenario)
{
	return json_pack("{s:s, s:s, s:i, s:s}", "id", scenario->name, "object", "model", "created",
		1767225600, "owned_by", "turnmeter");
}

static void list_models(struct mock *mock, struct reply *reply)
{
	json_t *models = json_array();
	for (size_t i = 0; i < mock->catalog.count; i++)
		json_array_append_new(models, describe_model(mock->catalog.items[i]->scenario));
	api_reply(reply, 200, json_pack("{s:s, s:o}", "object", "list", "data", models));
}

static void show_model(struct mock *mock, const char *name, struct reply *reply)
{
	const struct loaded *loaded = catalog_find(&mock->catalog, name);
	if (loaded)
		api_reply(reply, 200, describe_model(loaded->scenario));
	else
		reply_error(reply, 404, "model_not_found", "the model does not exist");
}

/* A wrong use of the one address that a run is about is a mistake of the agent. */
static void refuse_chat(struct mock *mock, const struct request *request, struct reply *reply)
{
	static const char message[] = "chat completions are asked for by POST over HTTP/1.1";
	mock->counters.errors[FAULT_MALFORMED]++;
	if (mock->run) {
		mock->run->requests++;
		run_add_error(mock->run, FAULT_MALFORMED,
			run_session_number(mock->run, request->session), 0, "%s", message);
	}
	bool is_post = !strcmp(request->method, "POST");
	reply_error(reply, is_post ? 400 : 405, fault_name(FAULT_MALFORMED), message);
}

void api_handle(struct mock *mock, const struct request *request, struct reply *reply)
{
	bool is_get = !strcmp(request->method, "GET") || !strcmp(request->method, "HEAD");
	size_t models = sizeof models_url - 1;
	if (!strcmp(request->url, "/v1/chat/completions"))
		refuse_chat(mock, request, reply);
	else if (is_get && !strcmp(request->url, "/healthz"))
		api_health(mock, reply);
	else if (is_get && !strcmp(request->url, models_url))
		list_models(mock, reply);
	else if (is_get && !strncmp(request->url, models_url, models) &&
		 request->url[models] == '/')
		show_model(mock, request->url + models + 1, reply);
	else
		reply_error(reply, 404, "unknown_url",
			"no such address: there are POST /v1/chat/completions, GET /v1/models, "
			"GET /v1/models/NAME and GET /healthz");
}
