/*
 * HTTP for the agent: libcurl's multi interface on the event loop.
 *
 * An exchange is one POST of a history and its answer. Redirects 307 and 308 are followed with the
 * body, and a kept-alive connection that the server closed before any byte of its answer is
 * replaced; both without the caller's noticing.
 */
#ifndef AGENT_C_TRANSPORT_H
#define AGENT_C_TRANSPORT_H

#include "agent/c/history.h"
#include "agent/c/retry.h"

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

struct config;
struct error;
struct loop;
struct socket;
struct transport;

/* The loop and the config are borrowed. */
struct transport *transport_new(struct loop *loop, const struct config *config, struct error *err);
/* All exchanges must have been released. Accepts NULL. */
void transport_free(struct transport *transport);

/* To be called after each batch of the loop: send requests that were started and what else is due;
 * serve the sockets that the loop found ready. */
void transport_send(struct transport *transport);
void transport_receive(struct transport *transport);

struct exchange_result {
	const char *failure; /* NULL: an answer came, whole; else why not */
	long status;         /* 0: none came */
	int64_t wait_ms;     /* what Retry-After asks for, or -1 */
};

/* Embedded in what owns it, which sets the callbacks and may read `active` and `status`. */
struct exchange {
	/* Bytes of the answer's body. Not 0 ends the exchange. Must start or abort none. */
	int (*data)(struct exchange *exchange, const char *bytes, size_t length);
	/* It has ended. May start another. Both are called from the two functions above only. */
	void (*over)(struct exchange *exchange, const struct exchange_result *result);
	bool active;
	long status; /* of the answer, from the first byte of its body on */

	struct transport *transport;
	CURL *easy;
	const struct history *history;
	struct socket *upload; /* the connection that the body goes out on */
	size_t sent;           /* bytes of the body */
	bool upload_waits;     /* for room in the socket */
	bool answered;         /* a byte of the answer came */
	bool fresh;            /* on a connection that carried no request before */
	int redirects;
	char *redirect; /* address of this request, if not the usual one */
	enum retry_header wait_header;
	int64_t wait_ms;
	struct curl_slist headers[2]; /* the session's own, before those of all */
	char session_header[32], length_header[48];
};

/* `session` is the value of X-Session-Id. The callbacks are the caller's to set. */
void exchange_init(struct exchange *exchange, struct transport *transport, const char *session);
void exchange_release(struct exchange *exchange);

/* Send the history as it is now; it must not change until the exchange is over or aborted. */
void exchange_start(struct exchange *exchange, const struct history *history);
/* End it without `over`; its connection is closed. No-op for one that is not active. */
void exchange_abort(struct exchange *exchange);

#endif
