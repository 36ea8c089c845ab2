#include "mockllm/chat.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "mockllm/answer.h"
#include "mockllm/check.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	BYTES_PER_TOKEN = 4,
	FREE_SESSION = 0, /* the session of all free play: its tool stamps belong to no run */
};

static const int64_t PATIENCE_MARGIN_NS = 3 * NS_PER_MS;
static const int64_t SCAN_NS = 200000; /* about what one takes */

static const char invalid_request[] = "invalid_request_error";

struct scratch {
	struct check_scratch check;
	struct answer_scratch answer;
};

/* What a check came to. */
struct verdict {
	struct check_known known;
	struct check_result result;
	struct answer *answer; /* to be sent, also when it is an error */
	size_t tool_calls;
};

/*
 * One request and its answer. `job` and what follows it belong to the worker while in_work.
 *
 * A worker has the lowest priority: on a machine whose CPUs are all busy it may not get to a
 * request for long. So the main thread waits for it until shortly before the first token is due,
 * then scans the request itself, in parts between which other streams get their sends; a request
 * that needs a full parse still waits. Whatever the worker then comes to is dropped.
 */
struct exchange {
	struct mock *mock;
	struct exchange *next, *previous;
	struct peer *peer;
	struct request *request;
	struct stream stream;
	struct timer patience; /* with the worker */
	struct run *run;       /* NULL in free play */
	struct loaded *loaded; /* free play */
	int64_t session, turn;
	bool is_open;    /* the session's open request is this one */
	bool in_work;    /* a worker has it */
	bool is_settled; /* without the worker */
	bool is_over;    /* nothing but the return of the worker or the scan is waited for */
	bool has_row;
	size_t row;
	struct answer *answer; /* what is sent */
	bool is_workers;       /* a worker allocated it */

	struct job job;
	void (*work)(struct exchange *exchange, struct scratch *scratch);
	atomic_bool is_claimed; /* by the worker when it begins, or by us so that it does not */
	struct verdict verdict;
	struct check_outline outline;
	char user[SERVER_SESSION_SIZE];
};

/* ---- in a worker */

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

static struct answer *make_refusal(
	const struct exchange *exchange, int status, const char *code, const char *message)
{
	return answer_error(status, invalid_request, code, message, exchange->request->keep_alive);
}

static void make_answer(
	const struct exchange *exchange, struct scratch *scratch, struct verdict *verdict)
{
	const struct script *script = &exchange->run->script;
	const struct check_result *result = &verdict->result;
	const struct answer_wish wish = {
		.stream = result->stream,
		.include_usage = result->include_usage,
		.keep_alive = exchange->request->keep_alive,
		.prompt_tokens = (result->text_bytes + (int64_t)script->system_prompt.length) /
					 BYTES_PER_TOKEN +
				 1,
	};
	verdict->answer =
		answer_turn(script, exchange->session, exchange->turn, &wish, &scratch->answer);
	verdict->tool_calls = scratch->answer.turn.calls;
}

static void work_check(struct exchange *exchange, struct scratch *scratch)
{
	const struct request *request = exchange->request;
	struct verdict *verdict = &exchange->verdict;
	check_request(&exchange->run->script, exchange->session, exchange->turn, request->body,
		request->length, &verdict->known, &scratch->check, &verdict->result);
	if (verdict->result.fault)
		verdict->answer = make_refusal(
			exchange, 400, fault_name(verdict->result.fault), verdict->result.detail);
	else
		make_answer(exchange, scratch, verdict);
}

static void work_user(struct exchange *exchange, struct scratch *scratch)
{
	(void)scratch;
	check_user(exchange->request->body, exchange->request->length, exchange->user,
		sizeof exchange->user);
}

static void work_outline(struct exchange *exchange, struct scratch *scratch)
{
	(void)scratch;
	check_outline(exchange->request->body, exchange->request->length, &exchange->outline);
}

static void work_free_play(struct exchange *exchange, struct scratch *scratch)
{
	const struct check_outline *outline = &exchange->outline;
	const struct answer_wish wish = {
		.stream = outline->stream,
		.include_usage = outline->include_usage,
		.keep_alive = exchange->request->keep_alive,
		.prompt_tokens = (int64_t)exchange->request->length / BYTES_PER_TOKEN + 1,
	};
	exchange->verdict.answer = answer_turn(&exchange->loaded->script, exchange->session,
		exchange->turn, &wish, &scratch->answer);
}

static void run_job(struct job *job, void *memory)
{
	struct exchange *exchange = container_of(job, struct exchange, job);
	if (!atomic_exchange(&exchange->is_claimed, true))
		exchange->work(exchange, memory);
}

/* ---- in the main thread */

static size_t lane_of(const struct exchange *exchange)
{
	return (size_t)exchange->session;
}

static void post(struct exchange *exchange, void (*work)(struct exchange *, struct scratch *),
	void (*done)(struct job *))
{
	exchange->work = work;
	atomic_store(&exchange->is_claimed, false);
	exchange->in_work = true;
	exchange->job.work = run_job;
	exchange->job.done = done;
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

static void drop_answer(struct exchange *exchange, struct answer *answer, bool is_workers)
{
	if (answer && is_workers)
		workers_discard(exchange->mock->workers, answer, lane_of(exchange));
	else
		free(answer);
}

/* A large body is not kept for as long as its answer streams. */
static void drop_body(struct exchange *exchange)
{
	free(exchange->request->body);
	exchange->request->body = NULL;
}

/* True if the worker has not begun, and now will not. */
static bool take_from_worker(struct exchange *exchange)
{
	return !atomic_exchange(&exchange->is_claimed, true);
}

/* The connection has been given away or closed already. Waits for the worker if it must. */
static void release(struct exchange *exchange)
{
	struct mock *mock = exchange->mock;
	close_session(exchange);
	loop_timer_clear(mock->loop, &exchange->patience);
	exchange->is_over = true;
	if (mock->scanned == exchange)
		return;
	if (exchange->in_work) {
		if (take_from_worker(exchange))
			drop_body(exchange);
		return;
	}
	unlink_exchange(exchange);
	drop_answer(exchange, exchange->answer, exchange->is_workers);
	request_free(exchange->request);
	run_drop(exchange->run);
	loaded_drop(exchange->loaded);
	loop_free_later(mock->loop, exchange);
}

/* Write down what the stream knows of this turn, once it has ended one way or the other. */
static void fill_row(struct exchange *exchange)
{
	const struct stream *stream = &exchange->stream;
	if (!exchange->run || !exchange->has_row)
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
	if (exchange->is_over)
		return;
	fill_row(exchange);
	int fd = stream_stop(&exchange->stream);
	server_hang_up(exchange->mock->server, exchange->peer, fd);
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

/* While the rest waits for room in the peer's socket, the tools of this turn may start. */
static void handle_ending(struct stream *stream)
{
	struct exchange *exchange = container_of(stream, struct exchange, stream);
	if (exchange->has_row)
		exchange->run->rows[exchange->row].end_before_ns = stream->end_before_ns;
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
		exchange->answer = make_refusal(exchange, 400, fault_name(fault), detail);
	answer_now(exchange);
}

/* The request is right: its turn begins. */
static void accept_request(struct exchange *exchange, const struct verdict *verdict)
{
	struct run *run = exchange->run;
	struct run_session *session = session_of(exchange);
	session->known = verdict->known;
	session->text_bytes = verdict->result.text_bytes;
	exchange->row = run_add_row(run, exchange->session, exchange->turn, verdict->tool_calls);
	exchange->has_row = true;
	struct run_row *row = &run->rows[exchange->row];
	row->connection = exchange->peer->number;
	row->headers_ns = exchange->request->headers_ns;
	row->read_ns = exchange->request->read_ns;
	row->bytes_in = (int64_t)exchange->request->length;
	send_answer(exchange, exchange->request->read_ns);
}

/* The worker has given the exchange back. True if nothing is to be done with what it found. */
static bool came_back_late(struct exchange *exchange)
{
	exchange->in_work = false;
	loop_timer_clear(exchange->mock->loop, &exchange->patience);
	if (!exchange->is_over && !exchange->is_settled)
		return false;
	drop_answer(exchange, exchange->verdict.answer, true);
	drop_body(exchange);
	if (exchange->is_over)
		release(exchange);
	return true;
}

static void take_answer(struct exchange *exchange)
{
	exchange->answer = steal_ptr(exchange->verdict.answer);
	exchange->is_workers = true;
}

static void done_check(struct job *job)
{
	struct exchange *exchange = container_of(job, struct exchange, job);
	if (came_back_late(exchange))
		return;
	const struct check_result *result = &exchange->verdict.result;
	if (result->was_scanned)
		exchange->run->checks_scanned++;
	else
		exchange->run->checks_parsed++;
	take_answer(exchange);
	if (result->fault) {
		answer_fault(exchange, result->fault, result->detail);
		return;
	}
	drop_body(exchange);
	accept_request(exchange, &exchange->verdict);
}

/* Between two parts of a scan: whatever is due, but no other scan. */
static void run_due(void *context)
{
	struct mock *mock = context;
	loop_run_due(mock->loop);
}

static void lose_patience(struct timer *timer)
{
	struct exchange *exchange = container_of(timer, struct exchange, patience);
	struct mock *mock = exchange->mock;
	if (mock->scanned) {
		loop_timer_set(mock->loop, timer, now_ns() + SCAN_NS);
		return;
	}
	struct scratch *scratch = mock->chat_scratch;
	struct verdict verdict = {.known = session_of(exchange)->known};
	mock->scanned = exchange;
	bool is_right = check_scan(&exchange->run->script, exchange->session, exchange->turn,
		exchange->request->body, exchange->request->length, &verdict.known, &scratch->check,
		&verdict.result);
	mock->scanned = NULL;
	if (exchange->is_over) {
		release(exchange);
		return;
	}
	if (!is_right)
		return;
	exchange->is_settled = true;
	exchange->run->checks_inline++;
	make_answer(exchange, scratch, &verdict);
	if (take_from_worker(exchange))
		drop_body(exchange);
	exchange->answer = verdict.answer;
	accept_request(exchange, &verdict);
}

static void post_check(struct exchange *exchange)
{
	exchange->verdict.known = session_of(exchange)->known;
	post(exchange, work_check, done_check);
	int64_t ttft_ns = script_ttft(&exchange->run->script, exchange->session, exchange->turn);
	int64_t margin_ns = ttft_ns / 2 < PATIENCE_MARGIN_NS ? ttft_ns / 2 : PATIENCE_MARGIN_NS;
	exchange->patience = (struct timer){.expired = lose_patience};
	loop_timer_set(exchange->mock->loop, &exchange->patience,
		exchange->request->read_ns + ttft_ns - margin_ns);
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
	/* An agent that gave up on its last attempt may be heard again before that is noticed. */
	struct exchange *open = session->open;
	if (open && stream_is_left(&open->stream))
		handle_left(&open->stream);
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
	post_check(exchange);
}

static void done_user(struct job *job)
{
	struct exchange *exchange = container_of(job, struct exchange, job);
	if (!came_back_late(exchange))
		begin_session(exchange, exchange->user);
}

static void done_free_play(struct job *job)
{
	struct exchange *exchange = container_of(job, struct exchange, job);
	if (came_back_late(exchange))
		return;
	take_answer(exchange);
	send_answer(exchange, exchange->request->read_ns);
}

static void done_outline(struct job *job)
{
	struct exchange *exchange = container_of(job, struct exchange, job);
	if (came_back_late(exchange))
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
		exchange->answer = make_refusal(exchange, 404, "model_not_found", message);
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
	exchange->stream.ending = handle_ending;
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

void chat_setup(struct mock *mock)
{
	struct scratch *scratch = mock->chat_scratch = scratch_new();
	scratch->check.pause = run_due;
	scratch->check.pause_context = mock;
}

void chat_release(struct mock *mock)
{
	while (mock->exchanges) {
		struct exchange *exchange = mock->exchanges;
		free(exchange->verdict.answer);
		exchange->in_work = false;
		release(exchange);
	}
	if (mock->chat_scratch)
		scratch_free(mock->chat_scratch);
}
