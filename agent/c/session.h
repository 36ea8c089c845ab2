/* One session: its history, the request or the tools of its present turn, its retries. */
#ifndef AGENT_C_SESSION_H
#define AGENT_C_SESSION_H

#include "agent/c/answer.h"
#include "agent/c/history.h"
#include "agent/c/sse.h"
#include "agent/c/tool.h"
#include "agent/c/transport.h"
#include "common/buf.h"
#include "common/loop.h"

#include <stdbool.h>
#include <stdint.h>

struct agent;
struct job;

enum session_state {
	SESSION_NEW,       /* the first request is to be sent */
	SESSION_LINGERING, /* the next is, when the last answer's connection has come to its end */
	SESSION_WAITING,   /* until the next attempt */
	SESSION_ANSWER,    /* a request is out */
	SESSION_TOOLS,
	SESSION_ENDED,
};

struct session {
	struct agent *agent;
	enum session_state state;
	char name[8];
	int turn, attempt, retries; /* counted from 1, 1 and 0 */
	int64_t started_ns;         /* this attempt */
	int64_t heard_ns;           /* its last event */
	struct timer timer;
	struct exchange exchange;
	struct history history;
	struct sse sse;
	struct answer answer;
	struct buf error_body; /* of an answer whose status is no success */
	char *failure;         /* why the answer was given up, or NULL */
	bool failure_is_final; /* another attempt would meet the same */
	struct job *jobs;      /* the calls of this turn */
	size_t jobs_left;
};

/* Session number 1, 2, … */
void session_init(struct session *session, struct agent *agent, int number);
void session_release(struct session *session);

/* Send the first request. */
void session_go(struct session *session);

/* Of agent.c: count one that has ended. */
void agent_session_ended(struct agent *agent, bool well);

#endif
