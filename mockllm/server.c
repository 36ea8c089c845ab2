#include "mockllm/server.h"

#include "common/clock.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "mockllm/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	LISTENERS_MAX = 3,
	ACCEPT_BATCH = 64,
	CONNECTIONS_MAX = 100000,      /* the descriptor limit comes first */
	CONNECTION_MEMORY = 16 * 1024, /* headers and the part of a body read at once */
	SPARE_DESCRIPTORS = 32,
	FIRST_BODY = 4096,
	PART_MAX = 64 * 1024, /* of a body, read at once by ourselves: some 15 µs */
};

static const char chat_url[] = "/v1/chat/completions";

struct listener {
	struct source source;
	struct server *server;
	bool is_control;
};

struct server {
	struct loop *loop;
	struct server_handler handler;
	void *context;
	struct MHD_Daemon *daemon;
	struct source daemon_source;
	struct timer again;  /* libmicrohttpd has more to do */
	struct timer accept; /* descriptors had run out */
	bool in_daemon;
	struct listener listener[LISTENERS_MAX];
	size_t listeners;
	char *socket_path;
	struct peer **adding; /* by descriptor: on its way into libmicrohttpd */
	size_t adding_size;
	struct returned {
		struct peer *peer;
		int fd;
	} * returned; /* given back while libmicrohttpd was at work */
	size_t returned_count, returned_capacity;
	struct reading *readings; /* a list */
	struct seat *seats;       /* a list */
	int64_t peers;
	int64_t open_peers, open_peers_max;
	struct server_counters counters;
};

/* A chat completion whose body is still coming in, out of libmicrohttpd. */
struct reading {
	struct server *server;
	struct reading *next, *previous;
	struct source source;
	struct request *request;
};

void request_free(struct request *request)
{
	if (!request)
		return;
	free(request->method);
	free(request->url);
	free(request->body);
	free(request);
}

/* ---- libmicrohttpd on the loop */

static void free_peer(struct server *server, struct peer *peer)
{
	if (peer)
		server->open_peers--;
	free(peer);
}

static void run_again_soon(struct server *server)
{
	loop_timer_set(server->loop, &server->again, now_ns());
}

/* The number of a peer's descriptor tells the callback that libmicrohttpd makes who it is. */
static void add_connection(struct server *server, struct peer *peer, int fd)
{
	static const struct sockaddr_in nowhere = {.sin_family = AF_INET};
	if ((size_t)fd >= server->adding_size) {
		size_t size = 2 * (size_t)fd + 64;
		server->adding = xrealloc(server->adding, size * sizeof *server->adding);
		memset(server->adding + server->adding_size, 0,
			(size - server->adding_size) * sizeof *server->adding);
		server->adding_size = size;
	}
	server->adding[fd] = peer;
	/* On failure it has closed the descriptor. */
	if (MHD_add_connection(server->daemon, fd, (const struct sockaddr *)&nowhere,
		    sizeof nowhere) != MHD_YES) {
		server->adding[fd] = NULL;
		free_peer(server, peer);
		return;
	}
	run_again_soon(server);
}

static void run_daemon(struct server *server)
{
	loop_timer_clear(server->loop, &server->again);
	server->in_daemon = true;
	MHD_run(server->daemon);
	server->in_daemon = false;
	for (size_t i = 0; i < server->returned_count; i++)
		add_connection(server, server->returned[i].peer, server->returned[i].fd);
	server->returned_count = 0;
	MHD_UNSIGNED_LONG_LONG wait_ms;
	if (MHD_get_timeout(server->daemon, &wait_ms) == MHD_YES && !wait_ms)
		run_again_soon(server);
}

static void handle_daemon(struct source *source, uint32_t events)
{
	(void)events;
	run_daemon(container_of(source, struct server, daemon_source));
}

static void handle_again(struct timer *timer)
{
	run_daemon(container_of(timer, struct server, again));
}

static int descriptor_of(struct MHD_Connection *connection)
{
	return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
}

/* What a connection of libmicrohttpd knows of its peer: NULL once that was taken out. */
struct seat {
	struct peer *peer;
	int fd;
	struct seat *next, *previous;
};

static struct seat *seat_of(struct MHD_Connection *connection)
{
	return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)
		->socket_context;
}

static void notify_connection(void *context, struct MHD_Connection *connection, void **slot,
	enum MHD_ConnectionNotificationCode code)
{
	struct server *server = context;
	struct seat *seat = *slot;
	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		int fd = descriptor_of(connection);
		*slot = seat = xmalloc(sizeof *seat);
		*seat = (struct seat){server->adding[fd], fd, server->seats, NULL};
		if (seat->next)
			seat->next->previous = seat;
		server->seats = seat;
		server->adding[fd] = NULL;
		return;
	}
	if (seat->previous)
		seat->previous->next = seat->next;
	else
		server->seats = seat->next;
	if (seat->next)
		seat->next->previous = seat->previous;
	free_peer(server, seat->peer);
	free(seat);
	*slot = NULL;
}

static void notify_completed(void *context, struct MHD_Connection *connection, void **slot,
	enum MHD_RequestTerminationCode code)
{
	(void)context;
	(void)connection;
	(void)code;
	request_free(*slot);
	*slot = NULL;
}

static enum MHD_Result queue_reply(
	struct MHD_Connection *connection, int status, char *body, size_t length)
{
	struct MHD_Response *response =
		MHD_create_response_from_buffer(length, body, MHD_RESPMEM_MUST_FREE);
	if (!response)
		die_oom();
	MHD_add_response_header(response, "Content-Type", "application/json");
	enum MHD_Result result = MHD_queue_response(connection, (unsigned)status, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result queue_refusal(
	const struct server *server, struct MHD_Connection *connection, int status)
{
	char *body = server->handler.refusal(status);
	return queue_reply(connection, status, body, strlen(body));
}

/* ---- requests */

static const char *header_of(struct MHD_Connection *connection, const char *name)
{
	return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

/* Content-Length as far as it is sane; libmicrohttpd has refused what is no number. */
static unsigned long long announced_length(struct MHD_Connection *connection)
{
	const char *text = header_of(connection, "Content-Length");
	return text ? strtoull(text, NULL, 10) : 0;
}

static struct request *begin_request(
	struct MHD_Connection *connection, const char *method, const char *url, const char *version)
{
	struct request *request = xcalloc(1, sizeof *request);
	request->headers_ns = now_ns();
	request->peer = seat_of(connection)->peer;
	request->method = xstrdup(method);
	request->url = xstrdup(url);
	const char *connection_header = header_of(connection, "Connection");
	request->keep_alive = !strcmp(version, "HTTP/1.1") &&
			      !(connection_header && !strcasecmp(connection_header, "close"));
	const char *session = header_of(connection, "X-Session-Id");
	if (session && strlen(session) < sizeof request->session)
		memcpy(request->session, session, strlen(session) + 1);
	unsigned long long length = announced_length(connection);
	request->too_large = length > SERVER_BODY_MAX;
	request->capacity = request->announced = request->too_large ? 0 : (size_t)length;
	request->body = xmalloc(request->capacity + 1);
	request->body[0] = '\0';
	return request;
}

/* What comes beyond the cap is read and dropped, so that the client gets to read the answer. */
static void add_to_body(struct request *request, const char *bytes, size_t length)
{
	if (request->too_large)
		return;
	if (length > request->capacity - request->length) {
		if (length > SERVER_BODY_MAX - request->length) {
			request->too_large = true;
			return;
		}
		size_t capacity = 2 * request->capacity + FIRST_BODY;
		if (capacity < request->length + length)
			capacity = request->length + length;
		if (capacity > SERVER_BODY_MAX)
			capacity = SERVER_BODY_MAX;
		request->body = xrealloc(request->body, capacity + 1);
		request->capacity = capacity;
	}
	memcpy(request->body + request->length, bytes, length);
	request->length += length;
	request->body[request->length] = '\0';
}

static void begin_chat(struct server *server, struct request *request, int fd)
{
	request->read_ns = now_ns();
	server->counters.requests++;
	server->handler.chat(server->context, request, fd);
}

static void free_reading(struct reading *reading)
{
	if (reading->previous)
		reading->previous->next = reading->next;
	else
		reading->server->readings = reading->next;
	if (reading->next)
		reading->next->previous = reading->previous;
	loop_free_later(reading->server->loop, reading);
}

static void abandon_reading(struct reading *reading)
{
	int fd = reading->source.fd;
	loop_remove(reading->server->loop, &reading->source);
	if (fd >= 0)
		close(fd);
	free_peer(reading->server, reading->request->peer);
	request_free(reading->request);
	free_reading(reading);
}

/* Read what has come of the body. 1: it is complete, 0: not yet, -1: the peer has gone. */
static int read_part(struct request *request, int fd)
{
	size_t left = request->announced - request->length;
	ssize_t length;
	do
		length = recv(
			fd, request->body + request->length, left < PART_MAX ? left : PART_MAX, 0);
	while (length < 0 && errno == EINTR);
	if (length <= 0)
		return length < 0 && errno == EAGAIN ? 0 : -1;
	request->length += (size_t)length;
	request->body[request->length] = '\0';
	return (size_t)length == left;
}

static void handle_reading(struct source *source, uint32_t events)
{
	(void)events;
	struct reading *reading = container_of(source, struct reading, source);
	struct server *server = reading->server;
	loop_run_due(server->loop);
	if (source->fd < 0) /* a run that began meanwhile has hung up all agents */
		return;
	int got = read_part(reading->request, source->fd);
	if (!got)
		return;
	if (got < 0) {
		abandon_reading(reading);
		return;
	}
	int fd = source->fd;
	loop_remove(server->loop, source);
	begin_chat(server, reading->request, fd);
	free_reading(reading);
}

static void begin_reading(struct server *server, struct request *request, int fd)
{
	struct reading *reading = xcalloc(1, sizeof *reading);
	reading->server = server;
	reading->request = request;
	reading->source = (struct source){.fd = -1, .ready = handle_reading};
	reading->next = server->readings;
	if (reading->next)
		reading->next->previous = reading;
	server->readings = reading;
	struct error ignored;
	if (loop_add(server->loop, &reading->source, fd, EPOLLIN, &ignored)) {
		/* The kernel has no memory for one more descriptor to watch. */
		close(fd);
		abandon_reading(reading);
	}
}

/*
 * Keep a duplicate of the descriptor and have libmicrohttpd drop its connection: MHD_NO makes it
 * close its own descriptor, nothing more. All it had read of the body is in the request. False if
 * there is no descriptor left.
 */
static bool take_out(struct server *server, struct MHD_Connection *connection,
	struct request *request, bool is_whole)
{
	int fd = fcntl(descriptor_of(connection), F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return false;
	seat_of(connection)->peer = NULL;
	int got = is_whole ? 1 : read_part(request, fd);
	if (got > 0)
		begin_chat(server, request, fd);
	else
		begin_reading(server, request, fd);
	return true;
}

/* May the request leave libmicrohttpd now, as far as it has come? */
static bool is_for_chat(const struct request *request, const char *version)
{
	return !request->peer->is_control && !strcmp(request->method, "POST") &&
	       !strcmp(request->url, chat_url) && !strcmp(version, "HTTP/1.1");
}

static enum MHD_Result handle_request(void *context, struct MHD_Connection *connection,
	const char *url, const char *method, const char *version, const char *part,
	size_t *part_length, void **slot)
{
	struct server *server = context;
	struct request *request = *slot;
	/* Reading many large bodies must not hold up streams; none of them is libmicrohttpd's. */
	loop_run_due(server->loop);
	if (!request) {
		*slot = request = begin_request(connection, method, url, version);
		if (request->too_large && header_of(connection, "Expect"))
			return queue_refusal(server, connection, 413);
		return MHD_YES;
	}
	if (*part_length) {
		add_to_body(request, part, *part_length);
		*part_length = 0;
		if (request->length < request->announced && is_for_chat(request, version) &&
			take_out(server, connection, request, false)) {
			*slot = NULL;
			return MHD_NO;
		}
		return MHD_YES;
	}
	if (request->too_large)
		return queue_refusal(server, connection, 413);
	if (is_for_chat(request, version)) {
		if (!take_out(server, connection, request, true))
			return queue_refusal(server, connection, 503);
		*slot = NULL;
		return MHD_NO;
	}
	request->read_ns = now_ns();
	server->counters.requests++;
	struct reply reply = {0};
	server->handler.plain(server->context, request, &reply);
	return queue_reply(connection, reply.status, reply.body, reply.length);
}

/* ---- listening */

/* Whoever controls us must get through when agents have taken all there is. */
static void watch_agents(struct server *server, uint32_t events)
{
	struct error ignored;
	for (size_t i = 0; i < server->listeners; i++)
		if (!server->listener[i].is_control)
			loop_change(server->loop, &server->listener[i].source, events, &ignored);
}

/*
 * Each connection is one descriptor, and two from when it is taken out until libmicrohttpd, at the
 * end of its pass, closes its own: all of them may be at once. Some are spared for all else.
 */
static int64_t peers_for_limit(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur > CONNECTIONS_MAX)
		return CONNECTIONS_MAX;
	int64_t descriptors = (int64_t)limit.rlim_cur;
	int64_t most = (descriptors - SPARE_DESCRIPTORS) / 2;
	return most > 1 ? most : 1;
}

static void pause_accepting(struct server *server)
{
	watch_agents(server, 0);
	loop_timer_set(server->loop, &server->accept, now_ns() + 20 * NS_PER_MS);
}

static void accept_one(struct listener *listener, int fd)
{
	struct server *server = listener->server;
	struct peer *peer = xcalloc(1, sizeof *peer);
	peer->number = ++server->peers;
	server->open_peers++;
	peer->is_control = listener->is_control;
	if (!listener->is_control)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	server->counters.connections++;
	add_connection(server, peer, fd);
}

static void handle_listener(struct source *source, uint32_t events)
{
	(void)events;
	struct listener *listener = container_of(source, struct listener, source);
	struct server *server = listener->server;
	for (int i = 0; i < ACCEPT_BATCH; i++) {
		/* Out of descriptors: those that come now wait until some are free again. */
		if (!listener->is_control && server->open_peers >= server->open_peers_max) {
			pause_accepting(server);
			return;
		}
		int fd = accept4(source->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0) {
			if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
				errno == ENOMEM)
				pause_accepting(server);
			return;
		}
		accept_one(listener, fd);
	}
}

static void handle_accept_again(struct timer *timer)
{
	watch_agents(container_of(timer, struct server, accept), EPOLLIN);
}

/* Takes the descriptor. */
static int add_listener(struct server *server, int fd, bool is_control, struct error *err)
{
	struct listener *listener = &server->listener[server->listeners];
	*listener = (struct listener){
		.source = {.fd = -1, .ready = handle_listener},
		.server = server,
		.is_control = is_control,
	};
	if (loop_add(server->loop, &listener->source, fd, EPOLLIN, err)) {
		close(fd);
		return -1;
	}
	server->listeners++;
	return 0;
}

int server_listen_tcp(struct server *server, int port, struct error *err)
{
	int fd = listen_tcp(port, err);
	if (fd < 0)
		return -1;
	port = listen_port(fd);
	if (add_listener(server, fd, false, err))
		return -1;
	int fd6 = listen_tcp6(port);
	if (fd6 >= 0 && add_listener(server, fd6, false, err))
		return -1;
	return port;
}

int server_listen_unix(struct server *server, const char *path, struct error *err)
{
	int fd = listen_unix(path, err);
	if (fd < 0)
		return -1;
	server->socket_path = xstrdup(path);
	return add_listener(server, fd, true, err);
}

/* ---- all of it */

struct server *server_new(
	struct loop *loop, const struct server_handler *handler, void *context, struct error *err)
{
	struct server *server = xcalloc(1, sizeof *server);
	server->loop = loop;
	server->handler = *handler;
	server->context = context;
	server->open_peers_max = peers_for_limit();
	server->again = (struct timer){.expired = handle_again};
	server->accept = (struct timer){.expired = handle_accept_again};
	server->daemon_source = (struct source){.fd = -1, .ready = handle_daemon};
	server->daemon = MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_TURBO | MHD_USE_NO_LISTEN_SOCKET |
						  MHD_USE_SUPPRESS_DATE_NO_CLOCK,
		0, NULL, NULL, handle_request, server, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned)CONNECTIONS_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		(size_t)CONNECTION_MEMORY, MHD_OPTION_CONNECTION_TIMEOUT, 0u,
		MHD_OPTION_NOTIFY_CONNECTION, notify_connection, server,
		MHD_OPTION_NOTIFY_COMPLETED, notify_completed, server, MHD_OPTION_END);
	if (!server->daemon) {
		error_set(err, 0, "cannot start libmicrohttpd %s", MHD_get_version());
		server_free(server);
		return NULL;
	}
	int fd = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
	if (loop_add(loop, &server->daemon_source, fd, EPOLLIN, err)) {
		server_free(server);
		return NULL;
	}
	return server;
}

void server_free(struct server *server)
{
	if (!server)
		return;
	for (size_t i = 0; i < server->listeners; i++) {
		int fd = server->listener[i].source.fd;
		loop_remove(server->loop, &server->listener[i].source);
		close(fd);
	}
	if (server->socket_path)
		unlink(server->socket_path);
	loop_timer_clear(server->loop, &server->again);
	loop_timer_clear(server->loop, &server->accept);
	loop_remove(server->loop, &server->daemon_source);
	if (server->daemon)
		MHD_stop_daemon(server->daemon);
	while (server->readings)
		abandon_reading(server->readings);
	for (size_t i = 0; i < server->returned_count; i++) {
		close(server->returned[i].fd);
		free_peer(server, server->returned[i].peer);
	}
	free(server->returned);
	free(server->adding);
	free(server->socket_path);
	free(server);
}

void server_give_back(struct server *server, struct peer *peer, int fd)
{
	if (!server->in_daemon) {
		add_connection(server, peer, fd);
		return;
	}
	if (server->returned_count == server->returned_capacity) {
		server->returned_capacity = 2 * server->returned_capacity + 16;
		server->returned = xrealloc(
			server->returned, server->returned_capacity * sizeof *server->returned);
	}
	server->returned[server->returned_count++] = (struct returned){peer, fd};
}

void server_hang_up(struct server *server, struct peer *peer, int fd)
{
	close(fd);
	free_peer(server, peer);
}

void server_hang_up_agents(struct server *server)
{
	/* libmicrohttpd learns of it by the descriptor, and then closes it. */
	for (struct seat *seat = server->seats; seat; seat = seat->next)
		if (seat->peer && !seat->peer->is_control)
			shutdown(seat->fd, SHUT_RDWR);
	while (server->readings)
		abandon_reading(server->readings);
}

const struct server_counters *server_counters(const struct server *server)
{
	return &server->counters;
}
