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

/*
 * Started between two looks at the event loop: tools, so that those that have ended need not wait;
 * requests, so that when all sessions begin, a connection is made before many others are tried (a
 * connection being made takes more of libcurl's memory than one that is).
 */
enum { TOOLS_AT_ONCE = 1, REQUESTS_AT_ONCE = 64 };

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
	/* libcurl opens some that tools would inherit. */
	tools_hide_descriptors();
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

void agent_queue(struct agent *agent, struct session *session)
{
	session->next_ready = NULL;
	if (agent->last_ready)
		agent->last_ready->next_ready = session;
	else
		agent->first_ready = session;
	agent->last_ready = session;
}

void agent_session_ended(struct agent *agent, bool well)
{
	agent->live--;
	agent->failed |= !well;
}

static void send_requests(struct agent *agent)
{
	for (int i = 0; agent->first_ready && i < REQUESTS_AT_ONCE; i++) {
		struct session *session = agent->first_ready;
		agent->first_ready = session->next_ready;
		if (!agent->first_ready)
			agent->last_ready = NULL;
		session_go(session);
	}
	transport_send(agent->transport);
}

int agent_step(struct agent *agent, struct error *err)
{
	if (loop_once(agent->loop, agent->more_tools || agent->first_ready ? 0 : -1, err))
		return -1;
	/* In this order: the requests that follow on tools that have just ended (in loop_once),
	 * whose sessions are waited for; then the streams; then new tools. */
	send_requests(agent);
	transport_receive(agent->transport);
	agent->more_tools = tools_pump(&agent->tools, TOOLS_AT_ONCE);
	return report_flush(&agent->report, err);
}
