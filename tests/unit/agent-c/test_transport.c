/* Requests and the addresses they go to, against a server in a thread. What answers may hold is the
 * conformance suite's. */
#include "agent/c/transport.h"

#include "agent/c/config.h"
#include "common/error.h"
#include "common/loop.h"
#include "tests/unit/agent-c/fixture.h"
#include "tests/unit/agent-c/resolver.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- the server: takes one connection after the other, answers its requests as the table says */

struct server {
	int fd, port;
	pthread_t thread;
	const char *const *answers; /* up to a NULL */
	char paths[8][64];          /* that were asked for */
	int requests;
};

static int listen_at(const char *address, int port, int backlog)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	inet_pton(AF_INET, address, &at.sin_addr);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
	assert_int_equal(listen(fd, backlog), 0);
	return fd;
}

static int port_of(int fd)
{
	struct sockaddr_in at;
	socklen_t length = sizeof at;
	getsockname(fd, (struct sockaddr *)&at, &length);
	return ntohs(at.sin_port);
}

/* Reads one request; returns false at the end of the connection. */
static bool read_request(int fd, char *path, size_t size)
{
	static char bytes[64 << 10];
	size_t length = 0;
	for (;;) {
		bytes[length] = '\0';
		const char *end = strstr(bytes, "\r\n\r\n");
		const char *said = strstr(bytes, "Content-Length: ");
		if (end && length >= (size_t)(end + 4 - bytes) + strtoul(said + 16, NULL, 10))
			break;
		ssize_t got = read(fd, bytes + length, sizeof bytes - 1 - length);
		if (got <= 0)
			return false;
		length += (size_t)got;
	}
	snprintf(path, size, "%.*s", (int)strcspn(bytes + 5, " "), bytes + 5);
	return true;
}

static void *serve(void *argument)
{
	struct server *server = argument;
	while (server->answers[server->requests]) {
		int fd = accept(server->fd, NULL, NULL);
		while (server->answers[server->requests] &&
			read_request(fd, server->paths[server->requests], sizeof *server->paths)) {
			const char *answer = server->answers[server->requests++];
			char text[512];
			/* the port is where answers say %d */
			int length = snprintf(text, sizeof text, answer, server->port);
			if (write(fd, text, (size_t)length) != length)
				break;
		}
		close(fd);
	}
	return NULL;
}

static void start_server(struct server *server, int fd, const char *const *answers)
{
	*server = (struct server){.fd = fd, .port = port_of(fd), .answers = answers};
	pthread_create(&server->thread, NULL, serve, server);
}

static void end_server(struct server *server)
{
	pthread_join(server->thread, NULL);
	close(server->fd);
}

/* ---- an address that never answers: its backlog is full, so the kernel drops who comes */

struct silent {
	int fd, fillers[6];
};

static void be_silent(struct silent *silent, const char *address, int port)
{
	silent->fd = listen_at(address, port, 0);
	struct sockaddr_in at = {
		.sin_family = AF_INET, .sin_port = htons((uint16_t)port_of(silent->fd))};
	inet_pton(AF_INET, address, &at.sin_addr);
	for (size_t i = 0; i < ROWS(silent->fillers); i++) {
		silent->fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		(void)connect(silent->fillers[i], (struct sockaddr *)&at, sizeof at);
	}
}

static void stop_filling(struct silent *silent)
{
	for (size_t i = 0; i < ROWS(silent->fillers); i++)
		close(silent->fillers[i]);
}

/* ---- the client */

struct client {
	struct loop *loop;
	struct config config;
	struct transport *transport;
	struct exchange exchange;
	struct buf prologue;
	struct store store;
	struct history history;
	bool over;
	long status;
	char failure[300];
};

static int take_data(struct exchange *exchange, const char *bytes, size_t length)
{
	(void)exchange, (void)bytes, (void)length;
	return 0;
}

static void exchange_over(struct exchange *exchange, const struct exchange_result *result)
{
	struct client *client = container_of(exchange, struct client, exchange);
	client->over = true;
	client->status = result->status;
	snprintf(client->failure, sizeof client->failure, "%s",
		result->failure ? result->failure : "");
}

static void begin_client(struct client *client, char *url, int64_t idle_timeout_ms)
{
	struct error err;
	*client = (struct client){.loop = loop_new(&err)};
	client->config =
		(struct config){.url = url, .api_key = "key", .idle_timeout_ms = idle_timeout_ms};
	client->transport = transport_new(client->loop, &client->config, &err);
	assert_non_null(client->transport);
	exchange_init(&client->exchange, client->transport, "s1");
	client->exchange.data = take_data;
	client->exchange.over = exchange_over;
	prologue_init(&client->prologue, "model", "prompt", 6);
	history_init(&client->history, &client->prologue, &client->store, "task", "s1");
}

static void end_client(struct client *client)
{
	exchange_release(&client->exchange);
	transport_free(client->transport);
	history_release(&client->history);
	buf_release(&client->prologue);
	store_release(&client->store);
	loop_free(client->loop);
}

static void start(struct client *client)
{
	client->over = false;
	exchange_start(&client->exchange, &client->history);
}

static void step(struct client *client)
{
	struct error err;
	assert_int_equal(loop_once(client->loop, -1, &err), 0);
	transport_receive(client->transport);
}

static void request(struct client *client)
{
	start(client);
	while (!client->over)
		step(client);
}

#define OK "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
#define REDIRECT(location)                                                                         \
	"HTTP/1.1 307 There\r\nContent-Length: 0\r\nLocation: " location "\r\n\r\n"

/* ---- tests */

static void test_silent_address_is_left(void **state)
{
	(void)state;
	static const struct known_name known[] = {{"a.test", {"127.0.0.2", "127.0.0.3"}}, {0}};
	static const char *const answers[] = {OK,
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok", OK, NULL};
	struct server server;
	struct silent silent;
	struct client client;
	char url[64];
	known_names = known;
	start_server(&server, listen_at("127.0.0.3", 0, 8), answers);
	be_silent(&silent, "127.0.0.2", server.port);
	snprintf(url, sizeof url, "http://a.test:%d/x", server.port);
	begin_client(&client, url, 600);
	for (int i = 0; i < 3; i++) {
		start(&client);
		/* What was found out once is known to later connections. */
		assert_int_equal(client.exchange.address, i ? 1 : 0);
		while (!client.over)
			step(&client);
		assert_string_equal(client.failure, "");
		assert_int_equal(client.status, 200);
	}
	end_client(&client);
	end_server(&server);
	stop_filling(&silent);
	close(silent.fd);
}

static void test_slow_address_is_tried_again(void **state)
{
	(void)state;
	static const struct known_name known[] = {
		{"a.test", {"127.0.0.2", "127.0.0.4", "127.0.0.5"}}, {0}};
	static const char *const answers[] = {OK, NULL};
	struct server server;
	struct silent silent;
	struct client client;
	char url[64];
	known_names = known;
	be_silent(&silent, "127.0.0.2", 0);
	snprintf(url, sizeof url, "http://a.test:%d/x", port_of(silent.fd));
	begin_client(&client, url, 400);
	start(&client);
	while (!client.exchange.patient && !client.over)
		step(&client);
	assert_int_equal(client.exchange.address, 0);
	/* Now it takes connections, and the thread those of the fillers first: they have ended. */
	stop_filling(&silent);
	start_server(&server, silent.fd, answers);
	while (!client.over)
		step(&client);
	assert_string_equal(client.failure, "");
	assert_int_equal(client.status, 200);
	assert_int_equal(client.exchange.address, 0);
	end_client(&client);
	end_server(&server);
}

static void test_addresses_all_refuse(void **state)
{
	(void)state;
	static const struct known_name known[] = {{"a.test", {"127.0.0.4", "127.0.0.5"}}, {0}};
	struct client client;
	char url[] = "http://a.test:1/x";
	known_names = known;
	begin_client(&client, url, 60000);
	for (int i = 0; i < 2; i++) {
		request(&client);
		assert_int_equal(client.status, 0);
		assert_string_equal(client.failure, "connection to 'a.test:1': Connection refused");
	}
	end_client(&client);
}

static void test_redirects_look_up_once(void **state)
{
	(void)state;
	static const struct known_name known[] = {
		{"a.test", {"127.0.0.3"}}, {"b.test", {"127.0.0.3"}}, {0}};
	static const char *const answers[] = {REDIRECT("http://b.test:%d/y/../z"), OK,
		REDIRECT("http://b.test:%d/2"), REDIRECT("../3"), OK, OK, NULL};
	struct server server;
	struct client client;
	char url[64];
	known_names = known;
	look_ups = 0;
	start_server(&server, listen_at("127.0.0.3", 0, 8), answers);
	snprintf(url, sizeof url, "http://a.test:%d/v1/x", server.port);
	begin_client(&client, url, 60000);
	for (int i = 0; i < 3; i++) {
		request(&client);
		assert_string_equal(client.failure, "");
		assert_int_equal(client.status, 200);
	}
	end_client(&client);
	end_server(&server);
	assert_int_equal(look_ups, 2);
	static const char *const paths[] = {"/v1/x", "/z", "/v1/x", "/2", "/3", "/v1/x"};
	for (size_t i = 0; i < ROWS(paths); i++)
		assert_string_equal(server.paths[i], paths[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_silent_address_is_left),
		cmocka_unit_test(test_slow_address_is_tried_again),
		cmocka_unit_test(test_addresses_all_refuse),
		cmocka_unit_test(test_redirects_look_up_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
