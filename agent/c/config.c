#include "agent/c/config.h"

#include "agent/c/dial.h"
#include "agent/c/target.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"
#include "common/number.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

enum { SYSTEM_PROMPT_MAX = 64 << 20, CA_FILE_MAX = 16 << 20 };

/* An empty variable counts as absent. */
static const char *variable(const char *name)
{
	const char *value = getenv(name);
	return value && *value ? value : NULL;
}

static int required(const char *name, const char **out, struct error *err)
{
	*out = variable(name);
	return *out ? 0 : error_set(err, 0, "%s: is required", name);
}

static int integer(const char *name, int64_t by_default, int64_t min, int64_t max, int64_t *out,
	struct error *err)
{
	const char *text = variable(name);
	*out = by_default;
	return text ? number_parse(text, name, min, max, out, err) : 0;
}

static int check_url(const char *url, struct error *err)
{
	struct target target;
	struct error reason;
	if (strpbrk(url, "?#") || target_init(&target, url, &reason))
		return error_set(err, 0,
			"OPENAI_BASE_URL: must be an http:// or https:// URL without a query, is "
			"'%.200s'",
			url);
	bool refused = target.tls && !dialer_is_there();
	target_release(&target);
	if (refused)
		return error_set(err, 0,
			"OPENAI_BASE_URL: must be an http:// URL, this program was built without "
			"TLS, is '%.200s'",
			url);
	return 0;
}

static int load_url(struct config *config, struct error *err)
{
	const char *base;
	if (required("OPENAI_BASE_URL", &base, err) || check_url(base, err))
		return -1;
	size_t length = strlen(base);
	while (length && base[length - 1] == '/')
		length--;
	config->url = xasprintf("%.*s/chat/completions", (int)length, base);
	return 0;
}

static int load_key(struct config *config, struct error *err)
{
	if (required("OPENAI_API_KEY", &config->api_key, err))
		return -1;
	for (const char *c = config->api_key; *c; c++)
		if (*c <= ' ' || *c > '~')
			return error_set(
				err, 0, "OPENAI_API_KEY: must be printable ASCII without spaces");
	return 0;
}

static int load_system_prompt(struct config *config, struct error *err)
{
	const char *path;
	if (required("AGENT_SYSTEM_PROMPT_FILE", &path, err))
		return -1;
	if (file_read(AT_FDCWD, path, SYSTEM_PROMPT_MAX, &config->system_prompt, err))
		return error_prefix(err, "AGENT_SYSTEM_PROMPT_FILE");
	return 0;
}

static int load_ca_file(struct config *config, struct error *err)
{
	config->ca_file = variable("AGENT_CA_FILE");
	if (!config->ca_file)
		return 0;
	struct buf text auto_buf;
	if (file_read(AT_FDCWD, config->ca_file, CA_FILE_MAX, &text, err))
		return error_prefix(err, "AGENT_CA_FILE");
	if (!text.data || !memmem(text.data, text.length, "-----BEGIN ", 11))
		return error_set(
			err, 0, "AGENT_CA_FILE: '%s' must hold a PEM certificate", config->ca_file);
	return 0;
}

int config_load(struct config *config, struct error *err)
{
	*config = (struct config){0};
	const char *contract = variable("AGENT_CONTRACT");
	if (contract && strcmp(contract, "1"))
		return error_set(err, 0, "AGENT_CONTRACT: must be 1, is '%.60s'", contract);
	int64_t report;
	if (load_url(config, err) || load_key(config, err) ||
		required("OPENAI_MODEL", &config->model, err) ||
		integer("AGENT_SESSIONS", 1, 1, 10000, &config->sessions, err) ||
		load_system_prompt(config, err) || required("AGENT_TASK", &config->task, err) ||
		integer("AGENT_TOOL_TIMEOUT_MS", 60000, 1, 86400000, &config->tool_timeout_ms,
			err) ||
		integer("AGENT_TOOL_OUTPUT_MAX", 65536, 16, 16777216, &config->tool_output_max,
			err) ||
		integer("AGENT_IDLE_TIMEOUT_MS", 60000, 1, 86400000, &config->idle_timeout_ms,
			err) ||
		integer("AGENT_MAX_RETRIES", 4, 0, 100, &config->max_retries, err) ||
		load_ca_file(config, err) || integer("AGENT_REPORT", 0, 0, 1, &report, err))
		return -1;
	config->report = report;
	return 0;
}

void config_release(struct config *config)
{
	free(config->url);
	buf_release(&config->system_prompt);
}
