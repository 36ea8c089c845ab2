/*
 * A connection to a server, which waits on the event loop: a socket of ours, or with TLS one that
 * dial.h makes.
 */
#ifndef AGENT_C_CONNECTION_H
#define AGENT_C_CONNECTION_H

#include "common/loop.h"

#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>

struct addrinfo;
struct dial;
struct dialer;
struct error;
struct target;

/* Embedded in what owns it, which sets the callbacks. */
struct connection {
	/* It has become readable or writable, has ended or failed (events as of epoll). Each is
	 * told once: read until there is no more, or less than asked for and no end among the
	 * events. */
	void (*ready)(struct connection *connection, uint32_t events);
	/* connection_dial has come to its end: `failure` is NULL or why not. Never from within it.
	 */
	void (*dialled)(struct connection *connection, const char *failure);
	struct loop *loop;
	struct source source;
	struct dial *dial;
	int fd; /* -1 while there is none */
	uint32_t watched;
};

void connection_init(struct connection *connection, struct loop *loop);
static inline bool connection_is_open(const struct connection *connection)
{
	return connection->fd >= 0;
}

/* Open it without TLS. It can be sent to at once: whether the server is there shows as it does with
 * one that is lost later. */
int connection_open(
	struct connection *connection, const struct addrinfo *address, struct error *err);
/* Begin to open it with TLS. */
void connection_dial(
	struct connection *connection, struct dialer *dialer, const struct target *target);
/* No-op for one that is closed. */
void connection_close(struct connection *connection);

/* Call `ready` from now on; for room to send only when `sending`. */
int connection_watch(struct connection *connection, bool sending, struct error *err);

/* As sendmsg(2) and recv(2) without waiting. `more`: these are not the last bytes. */
ssize_t connection_send(
	struct connection *connection, struct iovec *vectors, size_t count, bool more);
/* One that is `layered` holds bytes back that the loop does not see: read it until EAGAIN. */
ssize_t connection_receive(struct connection *connection, void *bytes, size_t length);
static inline bool connection_is_layered(const struct connection *connection)
{
	return connection->dial;
}

#endif
