#include "mockllm/chat.h"

#include "common/clock.h"
#include "common/error.h"
#include "mockllm/answer.h"
#include "mockllm/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	BYTES_PER_TOKEN = 4,
	FREE_SESSION = 0, /* the session of all free play: its tool stamps belong to no run */
};

static const char invalid_request[] = "invalid_request_error";

/*
 * One request and its answer. A worker reads and writes the members of `job`'s work while the job
 * is out, and nobody else does.
 */
struct exchange {
	struct mock *mock;
	struct exchange *next, *previous;
	struct peer *peer;
	struct request *request;
	struct stream stream;
	struct run *run;       /* NULL in free play */
	struct loaded *loaded; /* free play */
	int64_t session, turn;
	bool is_open; /* the session's open request is this one */
	bool in_work; /* a worker has it */
	bool is_gone; /* the peer has left, or the run has ended, while it was in work */
	bool has_row;
	size_t row;

	/* the job's */
	struct job job;
	struct check_known known;
	struct check_result result;
	struct check_outline outline;
	char user[SERVER_SESSION_SIZE];
	struct answer *answer;
	size_t tool_calls;
};

/* ---- in a worker */

struct scratch {
	struct check_scratch check;
	struct answer_scratch answer;
};

static void *scratch_new(void)
{
	struct scratch *scratch = xmalloc(sizeof *scratch);
	check_scratch_init(&scratch->check);
	answer_scratch_init(&scratch->answer);
	return scratch;
}

static void scratch_free(void *memory)
{
	struct scratch *scratch = memory;
	check_scratch_release(&scratch->check);
	answer_scratch_release(&scratch->answer);
	free(scratch);
}

const struct worker_setup chat_worker_setup = {scratch_new, scratch_free};

static void make_answer(struct exchange *exchange, const struct script *script,
	const struct answer_wish *wish, struct scratch *scratch)
{
	exchange->answer =
		answer_turn(script, exchange->session, exchange->turn, wish, &scratch->answer);
	exchange->tool_calls = scratch->answer.turn.calls;
}

static void refuse(struct exchange *exchange, int status, const char *code, const char *message)
{
	exchange->answer =
		answer_error(status, invalid_request, code, message, exchange->request->keep_alive);
}

static void work_check(struct job *job, void *memory)
{
	struct exchange *exchange = container_of(job, struct exchange, job);
	struct scratch *scratch = memory;
	const struct request *request = exchange->request;
	const struct script *script = &exchange->run->script;
	struct check_result *result = &exchange->result;
	check_request(script, exchange->session, exchange->turn, request->body, request->length,
		&exchange->known, &scratch->check, result);
	if (result->fault) {
		refuse(exchange, 400, fault_name(result->fault), result->detail);
		return;
	}
	const struct answer_wish wish = {
		.stream = result->stream,
		.include_usage = result->include_usage,
		.keep_alive = request->keep_alive,
		.prompt_tokens = (result->text_bytes + (int64_t)script->system_prompt.length) /
					 BYTES_PER_TOKEN +
				 1,
	};
	make_answer(exchange, script, &wish, scratch);
}

static void work_user(struct job *job, void *memory)
{
	struct exchange *exchange = container_of(job, struct exchange, job);
	(void)memory;
	check_user(exchange->request->body, exchange->request->length, exchange->user,
		sizeof exchange->user);
}

static void work_outline(struct job *job, void *memory)
{
	struct exchange *exchange = container_of(job, struct exchange, job);
	(void)memory;
	check_outline(exchange->request->body, exchange->request->length, &exchange->outline);
}

static void work_free_play(struct job *job, void *memory)
{
	struct exchange *exchange = container_of(job, struct exchange, job);
	const struct check_outline *outline = &exchange->outline;
	const struct answer_wish wish = {
		.stream = outline->stream,
		.include_usage = outline->include_usage,
		.keep_alive = exchange->request->keep_alive,
		.prompt_tokens = (int64_t)exchange->request->length / BYTES_PER_TOKEN + 1,
	};
	make_answer(exchange, &exchange->loaded->script, &wish, memory);
}

/* ---- in the main thread */

static size_t lane_of(const struct exchange *exchange)
{
	return (size_t)exchange->session;
}

static void post(
	struct exchange *exchange, void (*work)(struct job *, void *), void (*done)(struct job *))
{
	exchange->job.work = work;
	exchange->job.done = done;
	exchange->in_work = true;
	workers_post(exchange->mock->workers, &exchange->job, lane_of(exchange));
}

static void unlink_exchange(struct exchange *exchange)
{
	if (exchange->previous)
		exchange->previous->next = exchange->next;
	else
		exchange->mock->exchanges = exchange->next;
	if (exchange->next)
		exchange->next->previous = exchange->previous;
}

static struct run_session *session_of(struct exchange *exchange)
{
	return run_session(exchange->run, exchange->session);
}

static void close_session(struct exchange *exchange)
{
	if (exchange->is_open) {
		session_of(exchange)->open = NULL;
		exchange->run->open_streams--;
	}
	exchange->is_open = false;
}

/* The connection has been given away or closed already. */
static void release(struct exchange *exchange)
{
	struct mock *mock = exchange->mock;
	close_session(exchange);
	unlink_exchange(exchange);
	if (exchange->answer)
		workers_discard(mock->workers, exchange->answer, lane_of(exchange));
	request_free(exchange->request);
	run_drop(exchange->run);
	loaded_drop(exchange->loaded);
	loop_free_later(mock->loop, exchange);
}

/* Write down what the stream knows of this turn, once it has ended one way or the other. */
static void fill_row(struct exchange *exchange)
{
	const struct stream *stream = &exchange->stream;
	if (!exchange->has_row)
		return;
	struct run_row *row = &exchange->run->rows[exchange->row];
	if (stream->first_ns) {
		row->first_ns = stream->first_ns;
		row->late_self_us = stream->late_self_ns / 1000;
		row->late_peer_us = stream->late_peer_ns / 1000;
	}
	if (stream->end_before_ns)
		row->end_before_ns = stream->end_before_ns;
	if (stream->end_after_ns)
		row->end_after_ns = stream->end_after_ns;
	row->bytes_out = stream->bytes_out;
}

/* End without an answer, or in the middle of one. */
static void cut(struct exchange *exchange)
{
	if (exchange->is_gone)
		return;
	fill_row(exchange);
	close_session(exchange);
	int fd = stream_stop(&exchange->stream);
	server_hang_up(exchange->mock->server, exchange->peer, fd);
	exchange->is_gone = true;
	if (!exchange->in_work)
		release(exchange);
}

static void handle_left(struct stream *stream)
{
	struct exchange *exchange = container_of(stream, struct exchange, stream);
	exchange->mock->counters.peers_left++;
	if (exchange->run)
		exchange->run->peers_left++;
	cut(exchange);
}

static void handle_completed(struct stream *stream)
{
	struct exchange *exchange = container_of(stream, struct exchange, stream);
	struct server *server = exchange->mock->server;
	if (exchange->has_row) {
		struct run *run = exchange->run;
		struct run_session *session = session_of(exchange);
		fill_row(exchange);
		session->answered = exchange->turn;
		session->attempts = 0;
		run->tool_calls += run->rows[exchange->row].tool_calls;
		if (session->answered == run->script.scenario->turns)
			run->sessions_complete++;
	}
	int fd = stream_stop(stream);
	if (exchange->answer->keep_alive)
		server_give_back(server, exchange->peer, fd);
	else
		server_hang_up(server, exchange->peer, fd);
	release(exchange);
}

static void send_answer(struct exchange *exchange, int64_t base_ns)
{
	struct mock *mock = exchange->mock;
	stream_start(&exchange->stream, exchange->answer, base_ns,
		exchange->has_row ? &exchange->run->totals : &mock->free_totals);
}

/* An error is due at once, not when the request was read. */
static void answer_now(struct exchange *exchange)
{
	send_answer(exchange, now_ns());
}

static void answer_fault(struct exchange *exchange, enum fault fault, const char *detail)
{
	struct mock *mock = exchange->mock;
	mock->counters.errors[fault]++;
	if (exchange->run)
		run_add_error(
			exchange->run, fault, exchange->session, exchange->turn, "%s", detail);
	if (!exchange->answer)
		refuse(exchange, 400, fault_name(fault), detail);
	answer_now(exchange);
}

/* True if the job came back to nobody. */
static bool came_back_gone(struct exchange *exchange)
{
	exchange->in_work = false;
	if (exchange->is_gone)
		release(exchange);
	return exchange->is_gone;
}

static void done_check(struct job *job)
{
	struct exchange *exchange = container_of(job, struct exchange, job);
	if (came_back_gone(exchange))
		return;
	struct run *run = exchange->run;
	const struct check_result *result = &exchange->result;
	if (result->was_scanned)
		run->checks_scanned++;
	else
		run->checks_parsed++;
	if (result->fault) {
		answer_fault(exchange, result->fault, result->detail);
		return;
	}
	struct run_session *session = session_of(exchange);
	session->known = exchange->known;
	session->text_bytes = result->text_bytes;
	exchange->row = run_add_row(run, exchange->session, exchange->turn, exchange->tool_calls);
	exchange->has_row = true;
	struct run_row *row = &run->rows[exchange->row];
	row->connection = exchange->peer->number;
	row->headers_ns = exchange->request->headers_ns;
	row->read_ns = exchange->request->read_ns;
	row->bytes_in = (int64_t)exchange->request->length;
	/* A large body is not kept for as long as its answer streams. */
	free(exchange->request->body);
	exchange->request->body = NULL;
	send_answer(exchange, exchange->request->read_ns);
}

/* The session's name is known, from the header or the body. */
static void begin_session(struct exchange *exchange, const char *name)
{
	struct run *run = exchange->run;
	char detail[160];
	exchange->session = run_session_number(run, name);
	if (!exchange->session) {
		snprintf(detail, sizeof detail,
			*name ? "the session must be one of s1 to s%lld"
			      : "X-Session-Id (or user) must name the session, s1 to s%lld",
			(long long)run->sessions);
		answer_fault(exchange, FAULT_SESSION, detail);
		return;
	}
	struct run_session *session = session_of(exchange);
	if (!session->seen)
		run->sessions_seen++;
	session->seen = true;
	exchange->turn = session->answered + 1;
	if (session->open) {
		snprintf(detail, sizeof detail, "turn %lld is still being answered",
			(long long)exchange->turn);
		answer_fault(exchange, FAULT_OVERLAP, detail);
		return;
	}
	if (session->answered == run->script.scenario->turns) {
		exchange->turn = session->answered;
		answer_fault(exchange, FAULT_AFTER_END, "the session ended with its last answer");
		return;
	}
	session->open = exchange;
	exchange->is_open = true;
	run->open_streams++;
	exchange->known = session->known;
	post(exchange, work_check, done_check);
}

static void done_user(struct job *job)
{
	struct exchange *exchange = container_of(job, struct exchange, job);
	if (!came_back_gone(exchange))
		begin_session(exchange, exchange->user);
}

static void done_free_play(struct job *job)
{
	struct exchange *exchange = container_of(job, struct exchange, job);
	if (!came_back_gone(exchange))
		send_answer(exchange, exchange->request->read_ns);
}

static void done_outline(struct job *job)
{
	struct exchange *exchange = container_of(job, struct exchange, job);
	if (came_back_gone(exchange))
		return;
	const struct check_outline *outline = &exchange->outline;
	if (outline->fault) {
		answer_fault(exchange, outline->fault, outline->detail);
		return;
	}
	struct loaded *loaded = catalog_find(&exchange->mock->catalog, outline->model);
	if (!loaded) {
		char message[160];
		snprintf(message, sizeof message,
			"the model '%s' does not exist: GET /v1/models lists the scenarios",
			outline->model);
		refuse(exchange, 404, "model_not_found", message);
		answer_now(exchange);
		return;
	}
	exchange->loaded = loaded_hold(loaded);
	exchange->session = FREE_SESSION;
	int64_t turns = loaded->scenario->turns;
	exchange->turn = outline->answers < turns ? outline->answers + 1 : turns;
	post(exchange, work_free_play, done_free_play);
}

void chat_begin(struct mock *mock, struct request *request, int fd)
{
	struct exchange *exchange = xcalloc(1, sizeof *exchange);
	exchange->mock = mock;
	exchange->peer = request->peer;
	exchange->request = request;
	exchange->next = mock->exchanges;
	if (exchange->next)
		exchange->next->previous = exchange;
	mock->exchanges = exchange;
	mock->counters.chats++;
	exchange->stream.loop = mock->loop;
	exchange->stream.completed = handle_completed;
	exchange->stream.left = handle_left;
	struct error ignored;
	if (stream_watch(&exchange->stream, fd, &ignored)) {
		/* The kernel has no memory for one more descriptor to watch. */
		server_hang_up(mock->server, exchange->peer, fd);
		release(exchange);
		return;
	}
	if (!mock->run) {
		post(exchange, work_outline, done_outline);
		return;
	}
	struct run *run = exchange->run = run_hold(mock->run);
	run->requests++;
	if (exchange->peer->last_run != run->id) {
		exchange->peer->last_run = run->id;
		run->connections++;
	}
	if (*request->session)
		begin_session(exchange, request->session);
	else
		post(exchange, work_user, done_user);
}

void chat_cut(struct mock *mock, const struct run *run)
{
	for (struct exchange *exchange = mock->exchanges, *next; exchange; exchange = next) {
		next = exchange->next;
		if (!run || exchange->run == run)
			cut(exchange);
	}
}

void chat_release(struct mock *mock)
{
	while (mock->exchanges) {
		struct exchange *exchange = mock->exchanges;
		free(exchange->answer);
		exchange->answer = NULL;
		release(exchange);
	}
}
