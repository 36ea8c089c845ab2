/* Agents that leave, ask again or are cut off while the main thread scans their requests. */
#include "mockllm/chat.h"

#include "common/clock.h"
#include "common/rng.h"
#include "mockllm/api.h"
#include "mockllm/bench/right_request.h"
#include "tests/unit/mockllm/fixture.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SESSIONS = 12, ASKS = 3, ROUNDS = 6, PROMPT = 600000 };

static struct mock mock;
static int port;
static atomic_bool occupied, done;

/* The one worker has something else to do, so the main thread must scan all there is. */
static void occupy(struct job *job, void *scratch)
{
	(void)job;
	(void)scratch;
	while (atomic_load(&occupied))
		usleep(1000);
}

static void nothing(struct job *job)
{
	(void)job;
}

static void handle_chat(void *context, struct request *request, int fd)
{
	(void)context;
	chat_begin(&mock, request, fd);
}

static void handle_plain(void *context, const struct request *request, struct reply *reply)
{
	(void)context;
	api_handle(&mock, request, reply);
}

static int ask(struct right_request *right, int64_t session)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	char head[256];
	right_request_make(right, &mock.run->script, session, 1);
	int length = snprintf(head, sizeof head,
		"POST /v1/chat/completions HTTP/1.1\r\nHost: mock\r\nX-Session-Id: s%lld\r\n"
		"Content-Length: %zu\r\n\r\n",
		(long long)session, right->body.length);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address))
		return fd;
	/* The mock may have cut it off already: then these fail. */
	if (send(fd, head, (size_t)length, MSG_NOSIGNAL) == length)
		(void)!send(fd, right->body.data, right->body.length, MSG_NOSIGNAL);
	return fd;
}

/* Each session asks a few times, mostly having left its last attempt. */
static void *play_agents(void *argument)
{
	(void)argument;
	struct right_request right;
	right_request_init(&right);
	uint64_t state = 5;
	for (int round = 0; round < ROUNDS; round++) {
		int fds[ASKS][SESSIONS];
		for (int i = 0; i < ASKS; i++)
			for (int session = 0; session < SESSIONS; session++) {
				if (i && rng_between(&state, 0, 2))
					shutdown(fds[i - 1][session], SHUT_RDWR);
				fds[i][session] = ask(&right, session + 1);
				usleep((useconds_t)rng_between(&state, 0, 1500));
			}
		for (int i = 0; i < ASKS; i++)
			for (int session = 0; session < SESSIONS; session++)
				close(fds[i][session]);
	}
	right_request_release(&right);
	atomic_store(&done, true);
	return NULL;
}

/* As a run's end and the next one's begin do, at any time that timers run. */
static void cut_all(struct timer *timer)
{
	static uint64_t state = 9;
	if (rng_between(&state, 0, 1))
		chat_cut(&mock, mock.run);
	else
		server_hang_up_agents(mock.server);
	loop_timer_set(mock.loop, timer, now_ns() + rng_between(&state, 1, 15) * NS_PER_MS);
}

static void agents_leave_at_any_time(void **state)
{
	(void)state;
	static const struct server_handler handler = {handle_chat, handle_plain, api_refusal};
	struct error err;
	mock.loop = loop_new(&err);
	mock.catalog.tool_path = "/opt/tools/tmtool";
	mock.catalog.tool_socket = "turnmeter-08080";
	struct scenario *scenario = fixture_scenario(tool_tmtool, 20);
	scenario->system_prompt_bytes = PROMPT;
	catalog_put(&mock.catalog, scenario);
	mock.server = server_new(mock.loop, &handler, NULL, &err);
	assert_non_null(mock.server);
	port = server_listen_tcp(mock.server, 0, &err);
	assert_true(port > 0);
	chat_setup(&mock);
	mock.workers = workers_new(mock.loop, 1, &chat_worker_setup, &err);
	assert_non_null(mock.workers);
	atomic_store(&occupied, true);
	struct job job = {.work = occupy, .done = nothing};
	workers_post(mock.workers, &job, 0);
	struct run *run = mock.run =
		run_new(1, catalog_find(&mock.catalog, "fixture"), SESSIONS, 7, &mock.catalog);

	pthread_t agents;
	assert_int_equal(pthread_create(&agents, NULL, play_agents, NULL), 0);
	struct timer timer = {.expired = cut_all};
	loop_timer_set(mock.loop, &timer, now_ns() + NS_PER_MS);
	while (!atomic_load(&done))
		assert_int_equal(loop_once(mock.loop, NS_PER_MS, &err), 0);
	pthread_join(agents, NULL);

	assert_true(run->checks_inline > 0);
	assert_true(run->peers_left > 0);
	for (int fault = FAULT_NONE + 1; fault < FAULTS; fault++)
		if (fault != FAULT_OVERLAP)
			assert_int_equal(run->error_counts[fault], 0);
	chat_cut(&mock, NULL);
	assert_int_equal(run->open_streams, 0);
	atomic_store(&occupied, false);
	workers_free(mock.workers);
	chat_release(&mock);
	run_drop(run);
	server_free(mock.server);
	catalog_release(&mock.catalog);
	loop_free(mock.loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(agents_leave_at_any_time)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
