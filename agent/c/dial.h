/*
 * Connections with TLS. libcurl makes them (look-up, all addresses in turn, handshake,
 * certificates), on the event loop, and they are sent and received through it.
 */
#ifndef AGENT_C_DIAL_H
#define AGENT_C_DIAL_H

#include <stdbool.h>
#include <sys/types.h>

struct dial;
struct dialer;
struct error;
struct loop;
struct target;

/* Whether this build has TLS; without it, dialer_new fails. */
bool dialer_is_there(void);
/* Of the libraries that it is built on. */
const char *dialer_version(void);
/* The loop and `ca_file` (NULL: the system's authorities) are borrowed. */
struct dialer *dialer_new(struct loop *loop, const char *ca_file, struct error *err);
/* All dials must have been freed. Accepts NULL. */
void dialer_free(struct dialer *dialer);

/* Connect to the target's host. `done` is called from the loop, with `failure` NULL or why not; it
 * may free the dial. */
struct dial *dial_new(struct dialer *dialer, const struct target *target,
	void (*done)(struct dial *dial, void *client, const char *failure), void *client);
/* Close the connection. Accepts NULL. */
void dial_free(struct dial *dial);

/* The connection's descriptor, for waiting. */
int dial_socket(const struct dial *dial);
/* As send(2) and recv(2), through TLS. What was to be sent when it was not (EAGAIN) must come first
 * and unchanged when it is tried again. Read until EAGAIN: the loop sees only what TLS did not take
 * in yet. */
ssize_t dial_send(struct dial *dial, const void *bytes, size_t length);
ssize_t dial_receive(struct dial *dial, void *bytes, size_t length);

#endif
