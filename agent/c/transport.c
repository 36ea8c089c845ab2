#include "agent/c/transport.h"

#include "agent/c/config.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/loop.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * What libcurl keeps for each transfer decides the agent's memory, so:
 *
 * - Over http:// the request body does not go through libcurl. It sends the headers (a request
 *   without a body to it, with our own Content-Length), and when it has, we write the history's
 *   blocks to the same socket with sendmsg: no copy and no buffer. An upload through libcurl holds
 *   at least 16 KiB for each stream until the answer's end (8.x, and 64 KiB unless told), or for a
 *   body in one piece needs a second copy of the history. The socket is corked meanwhile, so that
 *   headers and body still leave as one segment.
 * - Over https:// libcurl reads the body by callback, through the smallest upload buffer there is.
 * - Receive buffer: 1 KiB where each transfer has its own (before 8.7), which holds several events.
 */
enum {
	VECTORS_MAX = 512,
	RECEIVE_BYTES = 1024,
	SHARED_RECEIVE_BYTES = 16 << 10,
	UPLOAD_BYTES = 16 << 10,
	REDIRECTS_MAX = 5,
	HEADERS_MAX = 5,
	FIRST_SHARED_BUFFER = 0x080700, /* libcurl with one receive buffer for all transfers */
};

/* A descriptor that libcurl watches. */
struct socket {
	struct source source;
	struct transport *transport;
	struct exchange *exchange; /* that it serves now */
	int fd;
	int curl_events;  /* CURL_POLL_…; CURL_POLL_NONE while the connection is kept for later */
	uint32_t watched; /* events that the loop watches for */
	uint32_t ready;   /* events seen and not yet served */
	bool own;         /* made by open_socket; others are libcurl's own business */
};

struct transport {
	struct loop *loop;
	CURLM *multi;
	struct timer timer;
	bool timer_due;
	struct socket **sockets; /* by descriptor */
	size_t sockets_length;
	int *ready_fds; /* sockets with events to serve */
	size_t ready_length, ready_capacity;
	const char *url, *ca_file;
	bool scoped; /* the server's address is an IPv4 literal */
	long last_scope;
	struct curl_slist headers[HEADERS_MAX]; /* that all requests have; the key is first */
	char *authorization;
	long receive_bytes;
};

static const char USER_AGENT[] = "User-Agent: turnmeter-agent-c/" TURNMETER_VERSION;

static bool is_plain(const char *url)
{
	return !strncasecmp(url, "http://", 7);
}

static bool has_ipv4_host(const char *url)
{
	struct in_addr address;
	char host[INET_ADDRSTRLEN];
	const char *at = strstr(url, "://");
	at = at ? at + 3 : url;
	size_t length = strcspn(at, ":/");
	if (length >= sizeof host)
		return false;
	memcpy(host, at, length);
	host[length] = '\0';
	return inet_pton(AF_INET, host, &address) == 1;
}

/* ---- sockets */

static struct socket *find_socket(const struct transport *transport, int fd)
{
	return (size_t)fd < transport->sockets_length ? transport->sockets[fd] : NULL;
}

static void socket_ready(struct source *source, uint32_t events)
{
	struct socket *socket = container_of(source, struct socket, source);
	struct transport *transport = socket->transport;
	if (socket->curl_events == CURL_POLL_NONE) {
		/* Closed by the server while kept: libcurl sees that when it would use it. */
		loop_remove(transport->loop, source);
		return;
	}
	if (!socket->ready) {
		if (transport->ready_length == transport->ready_capacity) {
			transport->ready_capacity = 2 * transport->ready_capacity + 16;
			transport->ready_fds = xrealloc(transport->ready_fds,
				transport->ready_capacity * sizeof *transport->ready_fds);
		}
		transport->ready_fds[transport->ready_length++] = socket->fd;
	}
	socket->ready |= events;
}

static struct socket *add_socket(struct transport *transport, int fd, bool own)
{
	if ((size_t)fd >= transport->sockets_length) {
		size_t length = (size_t)fd + 64;
		transport->sockets =
			xrealloc(transport->sockets, length * sizeof *transport->sockets);
		memset(transport->sockets + transport->sockets_length, 0,
			(length - transport->sockets_length) * sizeof *transport->sockets);
		transport->sockets_length = length;
	}
	struct socket *socket = xcalloc(1, sizeof *socket);
	socket->source = (struct source){.fd = -1, .ready = socket_ready};
	socket->transport = transport;
	socket->fd = fd;
	socket->own = own;
	transport->sockets[fd] = socket;
	return socket;
}

static void remove_socket(struct socket *socket)
{
	loop_remove(socket->transport->loop, &socket->source);
	socket->transport->sockets[socket->fd] = NULL;
	free(socket);
}

static void watch_socket(struct socket *socket)
{
	struct error err;
	bool uploading = socket->exchange && socket->exchange->upload == socket &&
			 socket->exchange->upload_waits;
	uint32_t events = 0;
	if (socket->curl_events & CURL_POLL_IN)
		events |= EPOLLIN;
	if ((socket->curl_events & CURL_POLL_OUT) || uploading)
		events |= EPOLLOUT;
	struct source *source = &socket->source;
	struct loop *loop = socket->transport->loop;
	if (source->fd >= 0 && socket->watched == events)
		return;
	socket->watched = events;
	int result = source->fd < 0 ? loop_add(loop, source, socket->fd, events, &err)
				    : loop_change(loop, source, events, &err);
	/* Fails for want of memory only: the exchange then ends by its idle timeout. */
	(void)result;
}

static curl_socket_t open_socket(void *client, curlsocktype purpose, struct curl_sockaddr *address)
{
	struct exchange *exchange = client;
	(void)purpose;
	int fd = socket(address->family, address->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
		address->protocol);
	if (fd < 0)
		return CURL_SOCKET_BAD;
	if (is_plain(exchange->redirect ? exchange->redirect : exchange->transport->url))
		setsockopt(fd, IPPROTO_TCP, TCP_CORK, &(int){1}, sizeof(int));
	add_socket(exchange->transport, fd, true);
	/* Whatever was sent on an earlier connection is to be sent again. */
	exchange->upload = NULL;
	return fd;
}

static int close_socket(void *client, curl_socket_t fd)
{
	struct transport *transport = client;
	struct socket *socket = find_socket(transport, fd);
	if (socket) {
		if (socket->exchange && socket->exchange->upload == socket)
			socket->exchange->upload = NULL;
		remove_socket(socket);
	}
	return close(fd);
}

/* ---- the request's body */

static bool goes_plain(const struct exchange *exchange)
{
	return is_plain(exchange->redirect ? exchange->redirect : exchange->transport->url);
}

/* Write what the socket takes. */
static void upload(struct exchange *exchange)
{
	struct socket *socket = exchange->upload;
	size_t size = history_size(exchange->history);
	while (exchange->sent < size) {
		static struct iovec vectors[VECTORS_MAX];
		struct msghdr message = {.msg_iov = vectors};
		message.msg_iovlen =
			history_vectors(exchange->history, exchange->sent, vectors, VECTORS_MAX);
		ssize_t wrote = sendmsg(socket->fd, &message, MSG_NOSIGNAL);
		if (wrote < 0) {
			/* A connection that is lost is for libcurl to find, when it reads. */
			exchange->upload_waits = errno == EAGAIN || errno == EINTR;
			return;
		}
		exchange->sent += (size_t)wrote;
	}
	exchange->upload_waits = false;
	/* Sends what the cork holds back, and leaves the cork in for the next request. */
	setsockopt(socket->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	curl_easy_setopt(exchange->easy, CURLOPT_FORBID_REUSE, 0L);
}

static size_t read_body(char *to, size_t size, size_t count, void *client)
{
	struct exchange *exchange = client;
	size_t length = history_read(exchange->history, exchange->sent, to, size * count);
	exchange->sent += length;
	return length;
}

static int seek_body(void *client, curl_off_t offset, int origin)
{
	struct exchange *exchange = client;
	if (origin != SEEK_SET)
		return CURL_SEEKFUNC_CANTSEEK;
	exchange->sent = (size_t)offset;
	return CURL_SEEKFUNC_OK;
}

/* ---- libcurl's callbacks */

static int socket_changed(CURL *easy, curl_socket_t fd, int what, void *client, void *unused)
{
	struct transport *transport = client;
	struct socket *socket = find_socket(transport, fd);
	struct exchange *exchange;
	(void)unused;
	if (what == CURL_POLL_REMOVE) {
		if (!socket)
			return 0;
		/* Most likely until the next turn only: it stays watched, which costs nothing. */
		socket->curl_events = CURL_POLL_NONE;
		socket->exchange = NULL;
		socket->ready = 0;
		if (!socket->own)
			remove_socket(socket);
		return 0;
	}
	if (!socket)
		socket = add_socket(transport, fd, false);
	curl_easy_getinfo(easy, CURLINFO_PRIVATE, &exchange);
	socket->curl_events = what;
	socket->exchange = exchange;
	/* libcurl wants nothing but to read: its part of the request, the headers, is out. */
	if (what == CURL_POLL_IN && socket->own && exchange->upload != socket &&
		goes_plain(exchange)) {
		exchange->upload = socket;
		exchange->sent = 0;
		upload(exchange);
	}
	watch_socket(socket);
	return 0;
}

static void timer_expired(struct timer *timer)
{
	struct transport *transport = container_of(timer, struct transport, timer);
	transport->timer_due = true;
}

static int timer_changed(CURLM *multi, long wait_ms, void *client)
{
	struct transport *transport = client;
	(void)multi;
	if (wait_ms < 0)
		loop_timer_clear(transport->loop, &transport->timer);
	else
		loop_timer_set(transport->loop, &transport->timer, now_ns() + wait_ms * NS_PER_MS);
	return 0;
}

static size_t take_header(char *line, size_t size, size_t count, void *client)
{
	struct exchange *exchange = client;
	size_t length = size * count;
	int64_t wait_ms;
	exchange->answered = true;
	enum retry_header header = retry_header(line, length, time(NULL), &wait_ms);
	if (header > exchange->wait_header) {
		exchange->wait_header = header;
		exchange->wait_ms = wait_ms;
	}
	return length;
}

static bool is_redirect(long status)
{
	return status == 307 || status == 308;
}

static size_t take_data(char *bytes, size_t size, size_t count, void *client)
{
	struct exchange *exchange = client;
	size_t length = size * count;
	if (!exchange->status)
		curl_easy_getinfo(exchange->easy, CURLINFO_RESPONSE_CODE, &exchange->status);
	if (is_redirect(exchange->status))
		return length;
	return exchange->data(exchange, bytes, length) ? 0 : length;
}

/* ---- exchanges */

void exchange_init(struct exchange *exchange, struct transport *transport, const char *session)
{
	exchange->transport = transport;
	exchange->active = false;
	exchange->redirect = NULL;
	snprintf(exchange->session_header, sizeof exchange->session_header, "X-Session-Id: %s",
		session);
	exchange->headers[0] = (struct curl_slist){exchange->session_header, NULL};
	exchange->headers[1] = (struct curl_slist){exchange->length_header, &exchange->headers[0]};

	CURL *easy = exchange->easy = curl_easy_init();
	if (!easy)
		die_oom();
	curl_easy_setopt(easy, CURLOPT_PRIVATE, exchange);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_PROXY, "");
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, transport->receive_bytes);
	curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, (long)UPLOAD_BYTES);
	/*
	 * A limit that is none, for its side effect: with one, libcurl (from 8.7 on) is content
	 * with what one recv() brought and leaves the rest to the loop; without, it asks again each
	 * time only to hear that there is no more.
	 */
	curl_easy_setopt(easy, CURLOPT_MAX_RECV_SPEED_LARGE, (curl_off_t)1 << 50);
	/*
	 * libcurl looks for a connection to use again in a list of all to one address, in order:
	 * with thousands, that is much of a turn's work. The scope means nothing to an IPv4
	 * address, but makes it one of its own, and the list one connection long.
	 */
	if (transport->scoped)
		curl_easy_setopt(easy, CURLOPT_ADDRESS_SCOPE, ++transport->last_scope);
	/* Asks for no compression, and has libcurl undo it where it comes all the same. */
	curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, "identity");
	curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
	curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, exchange);
	curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, close_socket);
	curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, transport);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, exchange);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_data);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, exchange);
	curl_easy_setopt(easy, CURLOPT_READFUNCTION, read_body);
	curl_easy_setopt(easy, CURLOPT_READDATA, exchange);
	curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, seek_body);
	curl_easy_setopt(easy, CURLOPT_SEEKDATA, exchange);
	if (transport->ca_file) {
		curl_easy_setopt(easy, CURLOPT_CAINFO, transport->ca_file);
		curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
	}
}

void exchange_release(struct exchange *exchange)
{
	exchange_abort(exchange);
	curl_easy_cleanup(exchange->easy);
	exchange->easy = NULL;
	free(exchange->redirect);
	exchange->redirect = NULL;
}

/* Scheme, host and port are spelled alike. */
static bool same_origin(const char *url, const char *other)
{
	const char *host = strstr(url, "://");
	if (!host)
		return false;
	size_t length = (size_t)(host - url) + 3 + strcspn(host + 3, "/?#");
	return !strncasecmp(url, other, length) && (!other[length] || strchr("/?#", other[length]));
}

/* Send the request, to the address it has now. */
static void begin(struct exchange *exchange)
{
	CURL *easy = exchange->easy;
	curl_off_t size = (curl_off_t)history_size(exchange->history);
	bool plain = goes_plain(exchange);
	/* The key is for the server that it was given for. */
	bool keyed =
		!exchange->redirect || same_origin(exchange->transport->url, exchange->redirect);
	exchange->headers[0].next = &exchange->transport->headers[keyed ? 0 : 1];
	exchange->upload = NULL;
	exchange->upload_waits = false;
	exchange->sent = 0;
	exchange->status = 0;
	exchange->answered = false;
	exchange->wait_header = RETRY_HEADER_NONE;
	exchange->wait_ms = -1;

	curl_easy_setopt(easy, CURLOPT_URL,
		exchange->redirect ? exchange->redirect : exchange->transport->url);
	if (plain) {
		snprintf(exchange->length_header, sizeof exchange->length_header,
			"Content-Length: %lld", (long long)size);
		curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
		curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, "POST");
	} else {
		curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, NULL);
		curl_easy_setopt(easy, CURLOPT_POST, 1L);
		curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, size);
	}
	curl_easy_setopt(
		easy, CURLOPT_HTTPHEADER, plain ? &exchange->headers[1] : &exchange->headers[0]);
	/* Until the body is out, an answer leaves the connection of no further use. */
	curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, plain ? 1L : 0L);
	curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, exchange->fresh ? 1L : 0L);

	if (curl_multi_add_handle(exchange->transport->multi, easy))
		die_oom();
	exchange->active = true;
	exchange->transport->timer_due = true;
}

void exchange_start(struct exchange *exchange, const struct history *history)
{
	exchange->history = history;
	exchange->fresh = false;
	exchange->redirects = 0;
	free(exchange->redirect);
	exchange->redirect = NULL;
	begin(exchange);
}

void exchange_abort(struct exchange *exchange)
{
	if (!exchange->active)
		return;
	exchange->active = false;
	curl_multi_remove_handle(exchange->transport->multi, exchange->easy);
}

/* Whether the request goes on at the address that the answer points to. */
static bool follow(struct exchange *exchange)
{
	char *address = NULL;
	curl_easy_getinfo(exchange->easy, CURLINFO_REDIRECT_URL, &address);
	if (!address || exchange->redirects == REDIRECTS_MAX ||
		(!is_plain(address) && strncasecmp(address, "https://", 8)))
		return false;
	address = xstrdup(address);
	free(exchange->redirect);
	exchange->redirect = address;
	exchange->redirects++;
	exchange->fresh = false;
	begin(exchange);
	return true;
}

static void end(struct exchange *exchange, CURLcode code)
{
	struct exchange_result result = {.wait_ms = exchange->wait_ms};
	long connections = 0;
	curl_easy_getinfo(exchange->easy, CURLINFO_RESPONSE_CODE, &result.status);
	curl_easy_getinfo(exchange->easy, CURLINFO_NUM_CONNECTS, &connections);
	exchange_abort(exchange);
	if (!code && is_redirect(result.status) && follow(exchange))
		return;
	if (code && !exchange->answered && !connections && !exchange->fresh) {
		exchange->fresh = true;
		begin(exchange);
		return;
	}
	result.failure = code ? curl_easy_strerror(code) : NULL;
	exchange->over(exchange, &result);
}

/* ---- the loop's side */

static void end_exchanges(struct transport *transport)
{
	int left;
	CURLMsg *message;
	while ((message = curl_multi_info_read(transport->multi, &left))) {
		struct exchange *exchange;
		CURLcode code = message->data.result;
		curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &exchange);
		end(exchange, code);
	}
}

void transport_send(struct transport *transport)
{
	int running;
	if (!transport->timer_due)
		return;
	transport->timer_due = false;
	curl_multi_socket_action(transport->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	end_exchanges(transport);
}

static void serve_socket(struct transport *transport, struct socket *socket)
{
	struct exchange *exchange = socket->exchange;
	uint32_t events = socket->ready;
	int action = 0, running;
	socket->ready = 0;
	if ((events & EPOLLOUT) && exchange && exchange->upload == socket &&
		exchange->upload_waits) {
		upload(exchange);
		watch_socket(socket);
	}
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		action |= CURL_CSELECT_IN;
	if ((events & EPOLLOUT) && (socket->curl_events & CURL_POLL_OUT))
		action |= CURL_CSELECT_OUT;
	if (events & EPOLLERR)
		action |= CURL_CSELECT_ERR;
	if (action)
		curl_multi_socket_action(transport->multi, socket->fd, action, &running);
}

void transport_receive(struct transport *transport)
{
	for (size_t i = 0; i < transport->ready_length; i++) {
		struct socket *socket = find_socket(transport, transport->ready_fds[i]);
		if (socket && socket->ready)
			serve_socket(transport, socket);
	}
	transport->ready_length = 0;
	end_exchanges(transport);
}

struct transport *transport_new(struct loop *loop, const struct config *config, struct error *err)
{
	if (curl_global_init(CURL_GLOBAL_DEFAULT)) {
		error_set(err, 0, "cannot initialise libcurl");
		return NULL;
	}
	const curl_version_info_data *version = curl_version_info(CURLVERSION_NOW);
	if (!is_plain(config->url) && !(version->features & CURL_VERSION_SSL)) {
		error_set(err, 0, "OPENAI_BASE_URL: this build knows http:// only");
		return NULL;
	}
	struct transport *transport = xcalloc(1, sizeof *transport);
	transport->loop = loop;
	transport->url = config->url;
	transport->scoped = has_ipv4_host(config->url);
	transport->ca_file = config->ca_file;
	transport->timer.expired = timer_expired;
	transport->receive_bytes =
		version->version_num < FIRST_SHARED_BUFFER ? RECEIVE_BYTES : SHARED_RECEIVE_BYTES;
	transport->authorization = xasprintf("Authorization: Bearer %s", config->api_key);
	const char *const headers[HEADERS_MAX] = {transport->authorization,
		"Content-Type: application/json", "Accept: text/event-stream", USER_AGENT,
		"Expect:" /* none, however large the body */};
	for (int i = 0; i < HEADERS_MAX; i++)
		transport->headers[i] = (struct curl_slist){(char *)headers[i],
			i + 1 < HEADERS_MAX ? &transport->headers[i + 1] : NULL};

	transport->multi = curl_multi_init();
	if (!transport->multi)
		die_oom();
	curl_multi_setopt(transport->multi, CURLMOPT_SOCKETFUNCTION, socket_changed);
	curl_multi_setopt(transport->multi, CURLMOPT_SOCKETDATA, transport);
	curl_multi_setopt(transport->multi, CURLMOPT_TIMERFUNCTION, timer_changed);
	curl_multi_setopt(transport->multi, CURLMOPT_TIMERDATA, transport);
	curl_multi_setopt(transport->multi, CURLMOPT_PIPELINING, CURLPIPE_NOTHING);
	/* Left to itself, libcurl closes connections when few transfers are in progress. */
	curl_multi_setopt(transport->multi, CURLMOPT_MAXCONNECTS, (long)config->sessions + 1);
	return transport;
}

void transport_free(struct transport *transport)
{
	if (!transport)
		return;
	curl_multi_cleanup(transport->multi);
	loop_timer_clear(transport->loop, &transport->timer);
	free(transport->sockets);
	free(transport->ready_fds);
	free(transport->authorization);
	free(transport);
	curl_global_cleanup();
}
