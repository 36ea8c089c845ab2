/* Where requests go: an address (a URL) taken apart once for all of them. */
#ifndef AGENT_C_TARGET_H
#define AGENT_C_TARGET_H

#include <stdbool.h>

struct error;

struct target {
	bool tls;
	char *host; /* a name or an address, that of IPv6 without its brackets */
	char *port;
	char *authority; /* host and port, as in the Host header */
	char *path;      /* with its query */
};

/*
 * Of an absolute http:// or https:// address without a user's name. A fragment is dropped. Returns
 * -1 with *err when it is none; there is then nothing to release.
 */
int target_init(struct target *target, const char *url, struct error *err);
/* Of what a server at `base` redirects to, absolute or not (RFC 3986, 5.2); what may not stand in
 * an address is percent-encoded. */
int target_init_relative(
	struct target *target, const struct target *base, const char *reference, struct error *err);
void target_release(struct target *target);

/* The same scheme, host and port: one's connection and key serve the other. */
bool target_is_same_origin(const struct target *target, const struct target *other);

#endif
