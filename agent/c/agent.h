/*
 * The agent: all sessions of this process, each running the loop of agent/CONTRACT.md, section 3,
 * on one event loop.
 */
#ifndef AGENT_C_AGENT_H
#define AGENT_C_AGENT_H

#include "agent/c/chain.h"
#include "agent/c/report.h"
#include "agent/c/tool.h"
#include "common/buf.h"

#include <stdbool.h>
#include <stdint.h>

struct config;
struct error;
struct loop;
struct session;
struct transport;

struct agent {
	struct loop *loop;
	const struct config *config;
	struct report report;
	struct store store;
	struct buf prologue;
	struct tools tools;
	struct transport *transport;
	struct session *sessions;
	int64_t started; /* sessions, in order */
	int64_t live;    /* sessions that have not ended */
	bool failed;     /* a session ended badly */
	bool more_tools; /* that could be started at once */
	uint64_t rng;
};

/*
 * `files` is the limit of descriptors that tools get. On failure there is nothing to release. The
 * loop and the config are borrowed.
 */
int agent_init(struct agent *agent, struct loop *loop, const struct config *config,
	const struct rlimit *files, struct error *err);
void agent_release(struct agent *agent);

/* Wait for events and handle one batch of them. Returns -1 if the loop or stdout fails. */
int agent_step(struct agent *agent, struct error *err);

#endif
