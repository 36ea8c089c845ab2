#include "agent/c/session.h"

#include "agent/c/agent.h"
#include "agent/c/command.h"
#include "agent/c/config.h"
#include "agent/c/retry.h"
#include "agent/c/server_error.h"
#include "common/clock.h"
#include "common/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ERROR_BODY_MAX = 64 << 10, LINGER_MS = 100 };

/* A call of the turn in progress. */
struct job {
	struct session *session;
	struct tool tool;   /* running if `message` is empty */
	struct buf message; /* the answer of a call that cannot be run */
};

static void timer_expired(struct timer *timer);
static int take_data(struct exchange *exchange, const char *bytes, size_t length);
static void exchange_over(struct exchange *exchange, const struct exchange_result *result);
static int take_event(struct sse *sse, const char *data, size_t length, struct error *err);

void session_init(struct session *session, struct agent *agent, int number)
{
	*session = (struct session){.agent = agent, .turn = 1, .attempt = 1};
	snprintf(session->name, sizeof session->name, "s%d", number);
	session->timer.expired = timer_expired;
	exchange_init(&session->exchange, agent->transport, session->name);
	session->exchange.data = take_data;
	session->exchange.over = exchange_over;
	history_init(&session->history, &agent->prologue, &agent->store, agent->config->task,
		session->name);
	buf_init(&session->error_body, ERROR_BODY_MAX);
}

static void release_answer(struct session *session)
{
	sse_release(&session->sse);
	answer_release(&session->answer);
	buf_release(&session->error_body);
	free(session->failure);
	session->failure = NULL;
	session->failure_is_final = false;
}

static void release_jobs(struct session *session)
{
	for (size_t i = 0; i < session->answer.call_count; i++) {
		struct job *job = &session->jobs[i];
		if (!job->message.length)
			tool_release(&job->tool);
		buf_release(&job->message);
	}
	free(session->jobs);
	session->jobs = NULL;
}

void session_release(struct session *session)
{
	exchange_release(&session->exchange);
	loop_timer_clear(session->agent->loop, &session->timer);
	if (session->jobs)
		release_jobs(session);
	release_answer(session);
	history_release(&session->history);
}

static void set_timer(struct session *session, int64_t deadline_ns)
{
	loop_timer_set(session->agent->loop, &session->timer, deadline_ns);
}

static void end(struct session *session, const char *failure)
{
	loop_timer_clear(session->agent->loop, &session->timer);
	release_answer(session);
	session->state = SESSION_ENDED;
	if (failure)
		report_error(&session->agent->report, session->name, session->turn, failure);
	agent_session_ended(session->agent, !failure);
}

/* ---- the request */

void session_go(struct session *session)
{
	if (session->exchange.active) {
		/* The answer was complete at [DONE], but its connection is not done with it. */
		session->state = SESSION_LINGERING;
		set_timer(session, now_ns() + LINGER_MS * NS_PER_MS);
		return;
	}
	session->state = SESSION_ANSWER;
	sse_init(&session->sse, take_event);
	answer_init(&session->answer, &session->history);
	session->started_ns = session->heard_ns = now_ns();
	set_timer(session, session->heard_ns + session->agent->config->idle_timeout_ms * NS_PER_MS);
	exchange_start(&session->exchange, &session->history);
}

/* The attempt has failed: again, or never again. `wait_ms` is what the server asks for, or -1. */
static void fail_attempt(
	struct session *session, const char *failure, bool retryable, int64_t wait_ms)
{
	if (!retryable || session->retries == session->agent->config->max_retries) {
		end(session, failure);
		return;
	}
	answer_drop(&session->answer);
	release_answer(session);
	if (wait_ms < 0)
		wait_ms = retry_backoff_ms(session->retries, &session->agent->rng);
	session->retries++;
	session->attempt++;
	session->state = SESSION_WAITING;
	set_timer(session, now_ns() + wait_ms * NS_PER_MS);
}

/* ---- the turn's end */

static void end_turn(struct session *session)
{
	struct agent *agent = session->agent;
	report_turn(&agent->report, session->name, session->turn, session->attempt,
		now_ns() - session->started_ns);
	session->turn++;
	session->attempt = 1;
	session->retries = 0;
}

static void add_tool_messages(struct session *session)
{
	struct history *history = &session->history;
	for (size_t i = 0; i < session->answer.call_count; i++) {
		const struct call *call = &session->answer.calls[i];
		struct job *job = &session->jobs[i];
		history_add(history, ",{\"role\":\"tool\",\"tool_call_id\":\"");
		history_add_bytes(history, call->id.data, call->id.length);
		history_add(history, "\",\"content\":\"");
		if (job->message.length)
			history_add_bytes(history, job->message.data, job->message.length);
		else
			tool_message(&job->tool, &history->chain);
		history_add(history, "\"}");
	}
}

static void tools_over(struct session *session)
{
	add_tool_messages(session);
	release_jobs(session);
	answer_release(&session->answer);
	end_turn(session);
	session_go(session);
}

static void tool_ended(struct tool *tool)
{
	struct job *job = container_of(tool, struct job, tool);
	struct session *session = job->session;
	if (!--session->jobs_left)
		tools_over(session);
}

static void start_tools(struct session *session)
{
	struct answer *answer = &session->answer;
	session->state = SESSION_TOOLS;
	session->jobs = xcalloc(answer->call_count, sizeof *session->jobs);
	session->jobs_left = 0;
	for (size_t i = 0; i < answer->call_count; i++) {
		struct job *job = &session->jobs[i];
		job->session = session;
		buf_init(&job->message, SIZE_MAX / 2);
		char **argv = command_of(&answer->calls[i], &job->message);
		if (!argv)
			continue;
		session->jobs_left++;
		tool_start(&session->agent->tools, &job->tool, argv, tool_ended);
	}
	if (!session->jobs_left)
		tools_over(session);
}

/* The answer is complete. May come from within `data` of the exchange. */
static void complete(struct session *session)
{
	loop_timer_clear(session->agent->loop, &session->timer);
	answer_end(&session->answer, session->turn);
	sse_release(&session->sse);
	if (session->answer.call_count) {
		start_tools(session);
	} else {
		end_turn(session);
		end(session, NULL);
	}
}

/* ---- the answer */

static int take_event(struct sse *sse, const char *data, size_t length, struct error *err)
{
	struct session *session = container_of(sse, struct session, sse);
	session->heard_ns = loop_batch_ns(session->agent->loop);
	return answer_take(&session->answer, data, length, err);
}

static bool is_success(long status)
{
	return status >= 200 && status < 300;
}

static int take_data(struct exchange *exchange, const char *bytes, size_t length)
{
	struct session *session = container_of(exchange, struct session, exchange);
	struct error err;
	if (session->state != SESSION_ANSWER)
		return 0; /* what follows [DONE] */
	if (!is_success(exchange->status)) {
		size_t room = ERROR_BODY_MAX - session->error_body.length;
		(void)buf_add(&session->error_body, bytes, length < room ? length : room);
		return 0;
	}
	if (sse_feed(&session->sse, bytes, length, &err)) {
		session->failure = xstrdup(err.text);
		/* A message of the server may pass, a line without end will not. */
		session->failure_is_final = err.code == EMSGSIZE;
		return -1;
	}
	if (session->answer.done)
		complete(session);
	return 0;
}

/* "WHAT", or "WHAT: MESSAGE" if the body says something. */
static void describe(struct error *err, const char *what, const struct buf *body)
{
	struct error said = {0};
	if (body->length)
		server_error_body(body->data, body->length, &said);
	snprintf(err->text, sizeof err->text, "%.200s%s%.*s", what, said.text[0] ? ": " : "",
		SERVER_ERROR_MAX, said.text);
}

/* The answer has ended without [DONE]. `failure` says why its connection failed, or NULL. */
static void end_of_answer(struct session *session, const char *failure)
{
	struct error err, last;
	bool broken = sse_end(&session->sse, &last);
	if (session->answer.done || session->answer.finished) {
		complete(session);
		return;
	}
	if (broken && !failure)
		err = last;
	else
		describe(&err, failure ? failure : "stream ended before the answer did",
			&session->sse.stray);
	fail_attempt(session, err.text, true, -1);
}

static void exchange_over(struct exchange *exchange, const struct exchange_result *result)
{
	struct session *session = container_of(exchange, struct session, exchange);
	struct error err;
	if (session->state == SESSION_LINGERING) {
		loop_timer_clear(session->agent->loop, &session->timer);
		session_go(session);
	} else if (session->state != SESSION_ANSWER) {
		return; /* it was complete at [DONE] */
	} else if (session->failure) {
		char *failure = session->failure;
		session->failure = NULL;
		fail_attempt(session, failure, !session->failure_is_final, -1);
		free(failure);
	} else if (result->status && !is_success(result->status)) {
		char what[32];
		snprintf(what, sizeof what, "HTTP %ld", result->status);
		describe(&err, what, &session->error_body);
		fail_attempt(session, err.text, retry_status(result->status), result->wait_ms);
	} else if (result->failure) {
		error_set(&err, 0, "connection failed: %s", result->failure);
		end_of_answer(session, err.text);
	} else {
		end_of_answer(session, NULL);
	}
}

static void check_silence(struct session *session)
{
	int64_t idle_timeout_ms = session->agent->config->idle_timeout_ms;
	int64_t deadline_ns = session->heard_ns + idle_timeout_ms * NS_PER_MS;
	struct error err;
	if (now_ns() < deadline_ns) {
		set_timer(session, deadline_ns);
		return;
	}
	exchange_abort(&session->exchange);
	error_set(&err, 0, "server was silent for %lld ms", (long long)idle_timeout_ms);
	end_of_answer(session, err.text);
}

static void timer_expired(struct timer *timer)
{
	struct session *session = container_of(timer, struct session, timer);
	if (session->state == SESSION_ANSWER) {
		check_silence(session);
		return;
	}
	exchange_abort(&session->exchange); /* that was lingering */
	session_go(session);
}
