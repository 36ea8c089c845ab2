#include "collector/mock_client.h"

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"

#include <curl/curl.h>
#include <string.h>

enum {
	CONNECT_TIMEOUT_MS = 5000,
	TIMEOUT_MS = 120000,
	ANSWER_MAX = 1 << 30, /* a ledger has about 150 bytes a turn */
};

struct mock_client {
	CURL *curl;
	char *socket_path;
	struct buf answer;
};

struct mock_client *mock_client_new(const char *socket_path, struct error *err)
{
	CURL *curl = curl_easy_init();
	if (!curl) {
		error_set(err, 0, "cannot start libcurl");
		return NULL;
	}
	struct mock_client *mock = xcalloc(1, sizeof *mock);
	mock->curl = curl;
	mock->socket_path = xstrdup(socket_path);
	buf_init(&mock->answer, ANSWER_MAX);
	return mock;
}

void mock_client_free(struct mock_client *mock)
{
	if (!mock)
		return;
	curl_easy_cleanup(mock->curl);
	free(mock->socket_path);
	buf_release(&mock->answer);
	free(mock);
}

static size_t take_body(char *bytes, size_t size, size_t count, void *context)
{
	struct mock_client *mock = context;
	return buf_add(&mock->answer, bytes, size * count) ? 0 : size * count;
}

/* The message of {"error":{"message":…}}, as text of the mock. */
static int refused(const struct mock_client *mock, const char *path, long status,
	const json_t *answer, struct error *err)
{
	const char *message =
		json_string_value(json_object_get(json_object_get(answer, "error"), "message"));
	return error_set(err, 0, "mock at '%s': %s: status %ld: %.300s", mock->socket_path, path,
		status, message ? message : "no message");
}

/* POST with a body (NULL: an empty one) or GET; the JSON answer, new reference, or NULL. */
static json_t *call(struct mock_client *mock, const char *path, bool post, const json_t *body,
	struct error *err)
{
	auto_free char *text = body ? json_dumps(body, JSON_COMPACT) : xstrdup("");
	if (!text)
		die_oom();
	auto_free char *url = xasprintf("http://mock%s", path);
	CURL *curl = mock->curl;
	/* Keeps connections, forgets everything else of the last call. */
	curl_easy_reset(curl);
	curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, mock->socket_path);
	curl_easy_setopt(curl, CURLOPT_URL, url);
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_PROXY, "");
	curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)TIMEOUT_MS);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, mock);
	struct curl_slist *headers = NULL;
	if (post) {
		headers = curl_slist_append(NULL, "Content-Type: application/json");
		/* A body above 1 MB would otherwise wait for a "100 Continue". */
		headers = curl_slist_append(headers, "Expect:");
		curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
		curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(text));
		curl_easy_setopt(curl, CURLOPT_POSTFIELDS, text);
	}
	buf_clear(&mock->answer);
	CURLcode code = curl_easy_perform(curl);
	curl_slist_free_all(headers);
	if (code != CURLE_OK) {
		error_set(err, 0, "mock at '%s': %s: %s", mock->socket_path, path,
			curl_easy_strerror(code));
		return NULL;
	}
	long status = 0;
	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
	json_t *answer = json_read_text(mock->answer.data ? mock->answer.data : "",
		mock->answer.length, mock->socket_path, err);
	if (status / 100 == 2)
		return answer;
	refused(mock, path, status, answer, err);
	json_decref(answer);
	return NULL;
}

json_t *mock_health(struct mock_client *mock, struct error *err)
{
	return call(mock, "/healthz", false, NULL, err);
}

int mock_load_scenario(struct mock_client *mock, const json_t *scenario, struct error *err)
{
	json_t *answer = call(mock, "/control/scenario", true, scenario, err);
	json_decref(answer);
	return answer ? 0 : -1;
}

json_t *mock_begin(struct mock_client *mock, const char *scenario, int64_t sessions, int64_t seed,
	struct error *err)
{
	json_auto_t *body = json_pack("{s:s, s:I, s:I}", "scenario", scenario, "sessions",
		(json_int_t)sessions, "seed", (json_int_t)seed);
	if (!body)
		die_oom();
	json_t *answer = call(mock, "/control/run", true, body, err);
	if (!answer)
		return NULL;
	if (!json_is_string(json_object_get(answer, "system_prompt")) ||
		!json_is_string(json_object_get(answer, "task"))) {
		error_set(err, 0,
			"mock at '%s': /control/run: no system prompt and task in its answer",
			mock->socket_path);
		json_decref(answer);
		return NULL;
	}
	return answer;
}

json_t *mock_end(struct mock_client *mock, struct error *err)
{
	return call(mock, "/control/run/end", true, NULL, err);
}
