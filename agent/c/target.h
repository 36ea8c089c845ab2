/* Where requests go: an address (a URL) taken apart once for all of them, its host looked up once.
 */
#ifndef AGENT_C_TARGET_H
#define AGENT_C_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct addrinfo;
struct error;

struct target {
	bool tls;
	char *host; /* a name or an address, that of IPv6 without its brackets */
	char *port;
	char *authority; /* host and port, as in the Host header */
	char *path;      /* with its query */
	/* target_look_up's: */
	struct addrinfo *addresses;
	int look_up_code; /* of getaddrinfo(3), for why there are none */
	int64_t looked_up_ns;
};

/*
 * Of an absolute http:// or https:// address without a user's name. A fragment is dropped. Returns
 * -1 with *err when it is none; there is then nothing to release.
 */
int target_init(struct target *target, const char *url, struct error *err);
/* Of what a server at `base` redirects to, absolute or not; what may not stand in an address is
 * percent-encoded. */
int target_init_relative(
	struct target *target, const struct target *base, const char *reference, struct error *err);
void target_release(struct target *target);

/* The same scheme, host and port: one's connection and key serve the other. */
bool target_is_same_origin(const struct target *target, const struct target *other);

/*
 * The host's address number `index` (0, 1, …), or NULL when there is none. Waits while a name is
 * looked up, once; when that fails, which -1 with *err of index 0 tells, again after a second.
 */
int target_look_up(
	struct target *target, size_t index, const struct addrinfo **address, struct error *err);

#endif
