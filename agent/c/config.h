/* The agent's settings: section 1 of agent/CONTRACT.md, from the environment. */
#ifndef AGENT_C_CONFIG_H
#define AGENT_C_CONFIG_H

#include "common/buf.h"

#include <stdbool.h>
#include <stdint.h>

struct error;

struct config {
	char *url;                          /* of chat completions */
	const char *api_key, *model, *task; /* of the environment */
	const char *ca_file;                /* NULL: the system's */
	struct buf system_prompt;
	int64_t sessions;
	int64_t tool_timeout_ms, tool_output_max;
	int64_t idle_timeout_ms, max_retries;
	bool report;
};

/* Messages name the variable. What *config holds is the caller's to release, also on failure. */
int config_load(struct config *config, struct error *err);
void config_release(struct config *config);

#endif
