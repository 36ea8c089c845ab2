/*
 * HTTP over libmicrohttpd, on our loop: one daemon for all listening sockets, no threads.
 *
 * libmicrohttpd accepts nothing itself and waits for nothing: our sockets accept, connections are
 * added, its epoll descriptor is watched by the loop. Plain requests are answered through it. A
 * chat completion is different: its answer must leave in writes of our own, at our times, the end
 * with the terminator in one. So when the headers of such a request and the beginning of its body
 * are there, the server takes the connection out of libmicrohttpd (a duplicate of the descriptor
 * stays open when libmicrohttpd closes its own; with MHD_USE_TURBO it does not shut the socket
 * down), reads the rest of the body in large parts, and hands all to the handler; afterwards
 * server_give_back puts the connection in again for the next request.
 */
#ifndef MOCKLLM_SERVER_H
#define MOCKLLM_SERVER_H

#include "common/loop.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct server;

enum {
	SERVER_BODY_MAX = 64 << 20,
	SERVER_SESSION_SIZE = 64,
};

/* One connection, over all its requests. */
struct peer {
	int64_t number;   /* from 1, in order of arrival */
	int64_t last_run; /* the handler's: of which run it was counted a connection */
	bool is_control;  /* came over the Unix socket */
};

struct request {
	struct peer *peer;
	char *method, *url; /* url without query */
	bool keep_alive;
	char session[SERVER_SESSION_SIZE]; /* X-Session-Id, "" if absent or too long */
	char *body;                        /* NUL-terminated beyond its length */
	size_t length;
	int64_t headers_ns; /* they were seen */
	int64_t read_ns;    /* the last byte was read */

	/* the server's own */
	size_t capacity;
	size_t announced; /* Content-Length; 0 if there is none */
	bool too_large;
};

struct reply {
	int status;
	char *body; /* malloc'ed JSON */
	size_t length;
};

struct server_handler {
	/* A chat completion on a connection that is now the handler's: `fd` ends with
	 * server_give_back or server_hang_up, the request with request_free. */
	void (*chat)(void *context, struct request *request, int fd);
	/* Anything else: must fill *reply. */
	void (*plain)(void *context, const struct request *request, struct reply *reply);
	/* The server itself refuses: the JSON body for status 413 (larger than SERVER_BODY_MAX) or
	 * 503 (no descriptor is left), malloc'ed. */
	char *(*refusal)(int status);
};

struct server_counters {
	int64_t connections; /* accepted */
	int64_t requests;
};

struct server *server_new(
	struct loop *loop, const struct server_handler *handler, void *context, struct error *err);
void server_free(struct server *server); /* accepts NULL */

/* 127.0.0.1, and ::1 where there is one. Port 0: any free one. Returns the port or -1. */
int server_listen_tcp(struct server *server, int port, struct error *err);

/* A socket file that nobody listens on any more is replaced; it is removed by server_free. */
int server_listen_unix(struct server *server, const char *path, struct error *err);

void server_give_back(struct server *server, struct peer *peer, int fd);
void server_hang_up(struct server *server, struct peer *peer, int fd);
/* End the connections of agents that the server has; those that are the handler's go on. */
void server_hang_up_agents(struct server *server);
void request_free(struct request *request); /* accepts NULL */

const struct server_counters *server_counters(const struct server *server);

#endif
