#include "agent/c/connection.h"

#include "agent/c/dial.h"
#include "common/error.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* A TLS record's most: what is sent at once through one. */
enum { RECORD_BYTES = 16 << 10 };

static void source_ready(struct source *source, uint32_t events)
{
	struct connection *connection = container_of(source, struct connection, source);
	connection->ready(connection, events);
}

void connection_init(struct connection *connection, struct loop *loop)
{
	connection->loop = loop;
	connection->source = (struct source){.fd = -1, .ready = source_ready};
	connection->dial = NULL;
	connection->fd = -1;
	connection->watched = 0;
}

int connection_open(
	struct connection *connection, const struct addrinfo *address, struct error *err)
{
	int fd =
		socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
	if (fd < 0)
		return error_set(err, errno, "cannot open a socket");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	if (connect(fd, address->ai_addr, address->ai_addrlen) && errno != EINPROGRESS) {
		error_set(err, errno, "cannot connect");
		close(fd);
		return -1;
	}
	connection->fd = fd;
	return 0;
}

static void dialled(struct dial *dial, void *client, const char *failure)
{
	struct connection *connection = client;
	if (!failure) {
		connection->fd = dial_socket(dial);
		if (connection->fd < 0)
			failure = "the connection is gone";
	}
	connection->dialled(connection, failure);
}

void connection_dial(
	struct connection *connection, struct dialer *dialer, const struct target *target)
{
	connection->dial = dial_new(dialer, target, dialled, connection);
}

void connection_close(struct connection *connection)
{
	loop_remove(connection->loop, &connection->source);
	if (connection->dial)
		dial_free(connection->dial);
	else if (connection->fd >= 0)
		close(connection->fd);
	connection->dial = NULL;
	connection->fd = -1;
	connection->watched = 0;
}

int connection_watch(struct connection *connection, bool sending, struct error *err)
{
	struct source *source = &connection->source;
	/* Told once for each change, the loop need not ask each time whether it still holds. */
	uint32_t events = EPOLLIN | EPOLLRDHUP | EPOLLET | (sending ? EPOLLOUT : 0U);
	if (source->fd >= 0 && connection->watched == events)
		return 0;
	connection->watched = events;
	return source->fd < 0 ? loop_add(connection->loop, source, connection->fd, events, err)
			      : loop_change(connection->loop, source, events, err);
}

static ssize_t send_layered(struct dial *dial, const struct iovec *vectors, size_t count)
{
	static char record[RECORD_BYTES];
	size_t length = 0;
	for (size_t i = 0; i < count && length < sizeof record; i++) {
		size_t room = sizeof record - length;
		size_t part = vectors[i].iov_len < room ? vectors[i].iov_len : room;
		memcpy(record + length, vectors[i].iov_base, part);
		length += part;
	}
	return dial_send(dial, record, length);
}

ssize_t connection_send(
	struct connection *connection, struct iovec *vectors, size_t count, bool more)
{
	if (connection->dial)
		return send_layered(connection->dial, vectors, count);
	struct msghdr message = {.msg_iov = vectors, .msg_iovlen = count};
	return sendmsg(connection->fd, &message, MSG_NOSIGNAL | (more ? MSG_MORE : 0));
}

ssize_t connection_receive(struct connection *connection, void *bytes, size_t length)
{
	if (connection->dial)
		return dial_receive(connection->dial, bytes, length);
	return recv(connection->fd, bytes, length, 0);
}
