/*
 * HTTP for the agent, on the event loop: requests and answers are ours, on connections of
 * connection.h.
 *
 * An exchange is one POST of a history and its answer. Redirects 307 and 308 are followed with the
 * body, a kept-alive connection that the server closed before any byte of its answer is replaced,
 * and a host's next address is tried where one refuses or does not answer; all without the caller's
 * noticing.
 */
#ifndef AGENT_C_TRANSPORT_H
#define AGENT_C_TRANSPORT_H

#include "agent/c/connection.h"
#include "agent/c/history.h"
#include "agent/c/http.h"
#include "agent/c/retry.h"

#include <stdbool.h>
#include <stdint.h>

struct config;
struct error;
struct inflater;
struct loop;
struct target;
struct transport;

/* The loop and the config are borrowed. */
struct transport *transport_new(struct loop *loop, const struct config *config, struct error *err);
/* All exchanges must have been released. Accepts NULL. */
void transport_free(struct transport *transport);

/* To be called after each batch of the loop: serve the connections that it found ready. */
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
	/* It has ended. May start another. Neither is called from within the functions below. */
	void (*over)(struct exchange *exchange, const struct exchange_result *result);
	bool active;
	long status; /* of the answer, from the first byte of its body on */

	struct transport *transport;
	const char *session;
	const struct history *history;
	struct connection connection;
	uint32_t ready;        /* events of it that are not yet served */
	bool opening;          /* it is being made */
	bool used;             /* it carried an answer before this one */
	bool replaced;         /* by this request, as it was kept and turned out to be closed */
	int send_errno;        /* why no more of the request could be sent, or 0 */
	size_t sent, size;     /* bytes of the request, head and body */
	struct target *target; /* of this request, if it is not the usual one */
	size_t address;        /* number of the one, of those of the target's host, that is tried */
	size_t unanswered; /* 1 + number of the first that was left as it did not answer, or 0 */
	bool patient;      /* it is tried again, after all others: it has as long as it takes */
	int redirects;
	struct http http;
	struct inflater *inflater; /* of an answer that is compressed */
	char *location;            /* where the answer redirects to */
	enum retry_header wait_header;
	int64_t wait_ms;
	struct timer timer; /* tells a failure that was known at once; leaves an address */
	char *failure;      /* that one */
};

/* `session` is the value of X-Session-Id, borrowed. The callbacks are the caller's to set. */
void exchange_init(struct exchange *exchange, struct transport *transport, const char *session);
void exchange_release(struct exchange *exchange);

/* Send the history as it is now; it must not change until the exchange is over or aborted. */
void exchange_start(struct exchange *exchange, const struct history *history);
/* End it without `over`; its connection is closed. No-op for one that is not active. */
void exchange_abort(struct exchange *exchange);

#endif
