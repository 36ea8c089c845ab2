#include "agent/c/agent.h"

#include "agent/c/config.h"
#include "agent/c/history.h"
#include "agent/c/session.h"
#include "agent/c/transport.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/rng.h"

#include <stdlib.h>
#include <unistd.h>

/* Started between two looks at the event loop, so that what comes in meanwhile need not wait. */
enum { SESSIONS_AT_ONCE = 64, TOOLS_AT_ONCE = 1 };

int agent_init(struct agent *agent, struct loop *loop, const struct config *config,
	const struct rlimit *files, struct error *err)
{
	*agent = (struct agent){.loop = loop, .config = config};
	if (tools_init(&agent->tools, loop, &agent->store, (size_t)config->tool_output_max,
		    config->tool_timeout_ms * NS_PER_MS, files, err))
		return -1;
	agent->transport = transport_new(loop, config, err);
	if (!agent->transport) {
		tools_release(&agent->tools);
		return -1;
	}
	agent->rng = rng_derive((uint64_t)now_ns(), (uint64_t)getpid());
	report_init(&agent->report, config->report);
	prologue_init(&agent->prologue, config->model, config->system_prompt.data,
		config->system_prompt.length);
	agent->live = config->sessions;
	agent->sessions = xcalloc((size_t)config->sessions, sizeof *agent->sessions);
	for (int i = 0; i < config->sessions; i++)
		session_init(&agent->sessions[i], agent, i + 1);
	return 0;
}

void agent_release(struct agent *agent)
{
	for (int i = 0; i < agent->config->sessions; i++)
		session_release(&agent->sessions[i]);
	free(agent->sessions);
	transport_free(agent->transport);
	tools_release(&agent->tools);
	buf_release(&agent->prologue);
	report_release(&agent->report);
	store_release(&agent->store);
}

void agent_session_ended(struct agent *agent, bool well)
{
	agent->live--;
	agent->failed |= !well;
}

static void start_sessions(struct agent *agent)
{
	for (int i = 0; i < SESSIONS_AT_ONCE && agent->started < agent->config->sessions; i++)
		session_go(&agent->sessions[agent->started++]);
}

int agent_step(struct agent *agent, struct error *err)
{
	start_sessions(agent);
	bool more = agent->more_tools || agent->started < agent->config->sessions;
	if (loop_once(agent->loop, more ? 0 : -1, err))
		return -1;
	/* In this order: tools that have ended and the requests that follow on them (in loop_once),
	 * whose sessions are waited for; then the streams; then new tools. */
	transport_receive(agent->transport);
	agent->more_tools = tools_pump(&agent->tools, TOOLS_AT_ONCE);
	return report_flush(&agent->report, err);
}
