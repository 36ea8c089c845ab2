#include "agent/c/transport.h"

#include "agent/c/config.h"
#include "agent/c/dial.h"
#include "agent/c/inflate.h"
#include "agent/c/names.h"
#include "agent/c/target.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/loop.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

/*
 * What is kept for each session decides the agent's memory, and what is done for each event its
 * time: so a request leaves straight from the blocks of its history, and every answer is received
 * into one buffer and read there. libcurl, which would hold some 10 KB for a session and look at
 * the socket twice for an event, makes the connections that have TLS (dial.h).
 */
enum {
	VECTORS_MAX = 512,
	RECEIVE_BYTES = 64 << 10,
	REDIRECTS_MAX = 5,
	CONNECT_MS = 2000, /* the most that an address gets while there are others */
};

struct transport {
	struct loop *loop;
	const struct config *config;
	struct target target;
	struct names names;
	struct buf head;         /* of all requests to it: the lines that do not differ */
	size_t address;          /* number of the one that the target was reached at */
	struct dialer *dialer;   /* made when first needed */
	struct exchange **ready; /* whose connections have events to serve */
	size_t ready_length, ready_capacity;
};

/* ---- the request */

/* The head's lines that all requests to a target have. The key is for the server that it was given
 * for. */
static void make_head(
	struct buf *head, const struct target *target, const struct config *config, bool keyed)
{
	buf_init(head, SIZE_MAX / 2);
	buf_addf(head,
		"POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"
		"Accept: text/event-stream\r\nUser-Agent: turnmeter-agent-c/" TURNMETER_VERSION
		"\r\n",
		target->path, target->authority);
	if (keyed)
		buf_addf(head, "Authorization: Bearer %s\r\n", config->api_key);
}

static struct target *target_of(const struct exchange *exchange)
{
	return exchange->target ? exchange->target : &exchange->transport->target;
}

/* What of the request was not sent yet: head, own lines, history. Returns the number of vectors. */
static size_t request_vectors(const struct exchange *exchange, const struct buf *head,
	const char *own, size_t own_length, struct iovec *vectors)
{
	size_t filled = 0, at = exchange->sent, head_length = head->length + own_length;
	if (at < head->length)
		vectors[filled++] = (struct iovec){head->data + at, head->length - at};
	if (at < head_length) {
		size_t skip = at < head->length ? 0 : at - head->length;
		vectors[filled++] = (struct iovec){(char *)own + skip, own_length - skip};
	}
	return filled + history_vectors(exchange->history, at < head_length ? 0 : at - head_length,
				vectors + filled, VECTORS_MAX - filled);
}

static void watch(struct exchange *exchange)
{
	struct error err;
	bool sending = exchange->active && !exchange->send_errno && exchange->sent < exchange->size;
	/* Fails for want of memory only: the exchange then ends by its idle timeout. */
	(void)connection_watch(&exchange->connection, sending, &err);
}

/* The address that the exchange has now is one that answers. */
static void note_address(struct exchange *exchange)
{
	loop_timer_clear(exchange->transport->loop, &exchange->timer);
	exchange->unanswered = 0;
	exchange->patient = false;
	if (!exchange->target)
		exchange->transport->address = exchange->address;
}

/* Send what the connection takes. What fails here shows again when the answer is received. */
static void send_request(struct exchange *exchange)
{
	static struct iovec vectors[VECTORS_MAX];
	struct transport *transport = exchange->transport;
	struct buf other auto_buf;
	buf_init(&other, SIZE_MAX / 2);
	const struct buf *head = &transport->head;
	if (exchange->target) {
		make_head(&other, exchange->target, transport->config,
			target_is_same_origin(exchange->target, &transport->target));
		head = &other;
	}
	char own[128];
	size_t body = history_size(exchange->history);
	size_t own_length = (size_t)snprintf(own, sizeof own,
		"X-Session-Id: %s\r\nContent-Length: %zu\r\n\r\n", exchange->session, body);
	exchange->size = head->length + own_length + body;
	while (exchange->sent < exchange->size) {
		size_t count = request_vectors(exchange, head, own, own_length, vectors);
		size_t offered = 0;
		for (size_t i = 0; i < count; i++)
			offered += vectors[i].iov_len;
		ssize_t sent = connection_send(&exchange->connection, vectors, count,
			exchange->sent + offered < exchange->size);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0) {
			exchange->send_errno = errno == EAGAIN ? 0 : errno;
			break;
		}
		exchange->sent += (size_t)sent;
	}
	if (exchange->sent)
		note_address(exchange);
	watch(exchange);
}

/* ---- the answer */

static bool is_redirect(long status)
{
	return status == 307 || status == 308;
}

static int take_header(struct http *http, struct span name, struct span value, struct error *err)
{
	struct exchange *exchange = container_of(http, struct exchange, http);
	int64_t wait_ms;
	if (http_is_name(name, "content-encoding") && !inflate_is_none(value)) {
		if (exchange->inflater)
			return error_set(err, 0, "answer is compressed more than once");
		exchange->inflater = inflater_new(value, err);
		return exchange->inflater ? 0 : -1;
	}
	if (http_is_name(name, "location") && is_redirect(http->status)) {
		free(exchange->location);
		exchange->location = xasprintf("%.*s", (int)value.length, value.at);
		return 0;
	}
	size_t length = (size_t)(value.at + value.length - name.at);
	enum retry_header header = retry_header(name.at, length, time(NULL), &wait_ms);
	if (header > exchange->wait_header) {
		exchange->wait_header = header;
		exchange->wait_ms = wait_ms;
	}
	return 0;
}

static int hand_on(void *client, const char *bytes, size_t length, struct error *err)
{
	struct exchange *exchange = client;
	if (exchange->data(exchange, bytes, length))
		return error_set(err, 0, "the answer was given up");
	return 0;
}

static int take_data(struct http *http, const char *bytes, size_t length, struct error *err)
{
	struct exchange *exchange = container_of(http, struct exchange, http);
	exchange->status = http->status;
	if (is_redirect(http->status))
		return 0;
	if (exchange->inflater)
		return inflater_feed(exchange->inflater, bytes, length, hand_on, exchange, err);
	return hand_on(exchange, bytes, length, err);
}

/* ---- exchanges */

static void begin(struct exchange *exchange);

/* What the request and its answer held. */
static void clear(struct exchange *exchange)
{
	loop_timer_clear(exchange->transport->loop, &exchange->timer);
	exchange->active = exchange->opening = false;
	http_release(&exchange->http);
	inflater_free(exchange->inflater);
	exchange->inflater = NULL;
	free(exchange->location);
	exchange->location = NULL;
	free(exchange->failure);
	exchange->failure = NULL;
}

static void drop_target(struct exchange *exchange)
{
	if (exchange->target)
		target_release(exchange->target);
	free(exchange->target);
	exchange->target = NULL;
}

static void close_connection(struct exchange *exchange)
{
	connection_close(&exchange->connection);
	exchange->ready = 0;
	exchange->used = false;
}

/* Let the host's addresses be tried from number `address` on. */
static void start_at(struct exchange *exchange, size_t address)
{
	exchange->address = address;
	exchange->unanswered = 0;
	exchange->patient = false;
}

/* Whether the request goes on at the address that the answer points to. */
static bool follow(struct exchange *exchange, const char *location)
{
	struct target *target = xcalloc(1, sizeof *target);
	struct error err;
	if (exchange->redirects == REDIRECTS_MAX ||
		target_init_relative(target, target_of(exchange), location, &err)) {
		free(target);
		return false;
	}
	if (!target_is_same_origin(target, target_of(exchange)))
		close_connection(exchange);
	drop_target(exchange);
	exchange->target = target;
	exchange->redirects++;
	exchange->replaced = false;
	start_at(exchange, 0);
	begin(exchange);
	return true;
}

/* The exchange has come to its end: with `failure`, or with an answer. `surplus`: more was received
 * than the answer. */
static void end(struct exchange *exchange, const char *failure, bool surplus)
{
	struct http *http = &exchange->http;
	struct error err;
	if (!failure && exchange->inflater && inflater_end(exchange->inflater, &err))
		failure = err.text;
	struct exchange_result result = {.failure = failure, .wait_ms = exchange->wait_ms};
	bool heard = http->heard, kept = exchange->used && !exchange->replaced;
	if (http->state > HTTP_HEADERS)
		result.status = http->status;
	if (failure || surplus || !http->keeps_alive || exchange->sent < exchange->size)
		close_connection(exchange);
	else
		exchange->used = true;
	char *location = exchange->location;
	exchange->location = NULL;
	clear(exchange);
	bool goes_on = false;
	if (!failure && location) {
		goes_on = follow(exchange, location);
	} else if (failure && !heard && kept) {
		exchange->replaced = goes_on = true;
		begin(exchange);
	}
	free(location);
	if (!goes_on)
		exchange->over(exchange, &result);
}

static bool try_next_address(struct exchange *exchange);

static void timer_expired(struct timer *timer)
{
	struct exchange *exchange = container_of(timer, struct exchange, timer);
	char *failure = exchange->failure;
	exchange->failure = NULL;
	if (failure) {
		end(exchange, failure, false);
		free(failure);
		return;
	}
	if (!exchange->unanswered)
		exchange->unanswered = 1 + exchange->address;
	/* With none left this one is waited for: whoever started the exchange limits its time. */
	(void)try_next_address(exchange);
}

static void connection_dialled(struct connection *connection, const char *failure)
{
	struct exchange *exchange = container_of(connection, struct exchange, connection);
	exchange->opening = false;
	if (failure)
		end(exchange, failure, false);
	else
		send_request(exchange);
}

/* Open a connection to the host's address number `address`, or the next one that takes it; after
 * the last to the one that did not answer. */
static int open_plain(struct exchange *exchange, struct target *target, struct error *err)
{
	const struct addrinfo *all, *address;
	if (names_look_up(&exchange->transport->names, target, &all, err))
		return -1;
	error_set(err, 0, "'%.200s' has no more addresses", target->host);
	address = address_number(all, exchange->address);
	for (; address; address = address->ai_next, exchange->address++)
		if (!connection_open(&exchange->connection, address, err))
			return 0;
	if (!exchange->unanswered || exchange->patient)
		return -1;
	exchange->patient = true;
	exchange->address = exchange->unanswered - 1;
	address = address_number(all, exchange->address);
	return address ? connection_open(&exchange->connection, address, err) : -1;
}

static int open_connection(struct exchange *exchange, struct error *err)
{
	struct transport *transport = exchange->transport;
	struct target *target = target_of(exchange);
	if (!target->tls)
		return open_plain(exchange, target, err);
	if (!transport->dialer)
		transport->dialer = dialer_new(transport->loop, transport->config->ca_file, err);
	if (!transport->dialer)
		return -1;
	connection_dial(&exchange->connection, transport->dialer, target);
	exchange->opening = true;
	return 0;
}

/* The addresses of the exchange's host if another one may be tried: nothing was sent on the
 * connection, and it is a new one without TLS. Else NULL. */
static const struct addrinfo *other_addresses(struct exchange *exchange)
{
	const struct addrinfo *all;
	struct error err;
	if (target_of(exchange)->tls || exchange->sent || exchange->used || exchange->patient ||
		names_look_up(&exchange->transport->names, target_of(exchange), &all, &err))
		return NULL;
	return exchange->unanswered || address_number(all, exchange->address + 1) ? all : NULL;
}

/* Returns false if there is none. */
static bool try_next_address(struct exchange *exchange)
{
	if (!other_addresses(exchange))
		return false;
	close_connection(exchange);
	clear(exchange);
	exchange->address++;
	begin(exchange);
	return true;
}

/* An address that neither answers nor refuses is left for another one, so that each has its turn
 * before the server counts as silent. */
static void limit_connecting(struct exchange *exchange)
{
	const struct addrinfo *others = other_addresses(exchange);
	if (!others)
		return;
	int64_t limit_ms =
		exchange->transport->config->idle_timeout_ms / (int64_t)(1 + address_count(others));
	if (limit_ms > CONNECT_MS)
		limit_ms = CONNECT_MS;
	loop_timer_set(
		exchange->transport->loop, &exchange->timer, now_ns() + limit_ms * NS_PER_MS);
}

/* Send the request, to the address it has now. */
static void begin(struct exchange *exchange)
{
	struct transport *transport = exchange->transport;
	struct error err;
	exchange->active = true;
	exchange->status = 0;
	exchange->sent = 0;
	exchange->size = SIZE_MAX; /* not known before it is sent */
	exchange->send_errno = 0;
	exchange->wait_header = RETRY_HEADER_NONE;
	exchange->wait_ms = -1;
	http_begin(&exchange->http);
	if (connection_is_open(&exchange->connection)) {
		send_request(exchange);
		return;
	}
	if (open_connection(exchange, &err)) {
		exchange->failure = xstrdup(err.text);
		loop_timer_set(transport->loop, &exchange->timer, now_ns());
	} else if (!exchange->opening) {
		send_request(exchange);
		limit_connecting(exchange);
	}
}

void exchange_start(struct exchange *exchange, const struct history *history)
{
	exchange->history = history;
	exchange->redirects = 0;
	exchange->replaced = false;
	start_at(exchange, exchange->transport->address);
	/* A redirect's connection may lead elsewhere, where the key must not go. */
	if (exchange->target &&
		!target_is_same_origin(exchange->target, &exchange->transport->target))
		close_connection(exchange);
	drop_target(exchange);
	begin(exchange);
}

void exchange_abort(struct exchange *exchange)
{
	if (!exchange->active)
		return;
	close_connection(exchange);
	clear(exchange);
}

/* ---- the loop's side */

static void connection_ready(struct connection *connection, uint32_t events)
{
	struct exchange *exchange = container_of(connection, struct exchange, connection);
	struct transport *transport = exchange->transport;
	if (!exchange->ready) {
		if (transport->ready_length == transport->ready_capacity) {
			transport->ready_capacity = 2 * transport->ready_capacity + 16;
			transport->ready = xrealloc(transport->ready,
				transport->ready_capacity * sizeof *transport->ready);
		}
		transport->ready[transport->ready_length++] = exchange;
	}
	exchange->ready |= events;
}

/* The connection has ended, or failed for the reason `code`. */
static void lose(struct exchange *exchange, int code)
{
	struct error err;
	if (try_next_address(exchange))
		return;
	/* Others may try them all again. */
	if (!exchange->sent && !exchange->target)
		exchange->transport->address = 0;
	if (exchange->send_errno && !exchange->http.heard)
		code = exchange->send_errno;
	if (code)
		error_set(&err, code, "connection to '%.200s'", target_of(exchange)->authority);
	bool whole = !code && !http_end(&exchange->http, &err);
	end(exchange, whole ? NULL : err.text, false);
}

/* `events` are what the loop saw: an end of the connection stands behind what was received before.
 */
static void receive(struct exchange *exchange, uint32_t events)
{
	static char bytes[RECEIVE_BYTES];
	struct connection *connection = &exchange->connection;
	bool ended = events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR);
	struct error err;
	ssize_t got = sizeof bytes;
	while (connection_is_open(connection) &&
		(ended || got == sizeof bytes || connection_is_layered(connection))) {
		got = connection_receive(connection, bytes, sizeof bytes);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno == EAGAIN)
			return;
		if (!exchange->active) {
			/* Closed by the server while kept, or no server to talk to any more. */
			close_connection(exchange);
			return;
		}
		if (got <= 0) {
			lose(exchange, got ? errno : 0);
			return;
		}
		int64_t took = http_feed(&exchange->http, bytes, (size_t)got, &err);
		if (took < 0 || exchange->http.state == HTTP_OVER)
			end(exchange, took < 0 ? err.text : NULL, took < got);
	}
}

void transport_receive(struct transport *transport)
{
	for (size_t i = 0; i < transport->ready_length; i++) {
		struct exchange *exchange = transport->ready[i];
		uint32_t events = exchange->ready;
		exchange->ready = 0;
		if ((events & EPOLLOUT) && exchange->active)
			send_request(exchange);
		if (events & ~(uint32_t)EPOLLOUT)
			receive(exchange, events);
	}
	transport->ready_length = 0;
}

void exchange_init(struct exchange *exchange, struct transport *transport, const char *session)
{
	*exchange = (struct exchange){.transport = transport, .session = session};
	connection_init(&exchange->connection, transport->loop);
	exchange->connection.ready = connection_ready;
	exchange->connection.dialled = connection_dialled;
	exchange->timer.expired = timer_expired;
	exchange->http.header = take_header;
	exchange->http.data = take_data;
}

void exchange_release(struct exchange *exchange)
{
	exchange_abort(exchange);
	close_connection(exchange);
	drop_target(exchange);
}

struct transport *transport_new(struct loop *loop, const struct config *config, struct error *err)
{
	struct transport *transport = xcalloc(1, sizeof *transport);
	transport->loop = loop;
	transport->config = config;
	if (target_init(&transport->target, config->url, err)) {
		free(transport);
		return NULL;
	}
	make_head(&transport->head, &transport->target, config, true);
	return transport;
}

void transport_free(struct transport *transport)
{
	if (!transport)
		return;
	dialer_free(transport->dialer);
	target_release(&transport->target);
	names_release(&transport->names);
	buf_release(&transport->head);
	free(transport->ready);
	free(transport);
}
