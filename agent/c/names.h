/*
 * Hosts' addresses, each host looked up once: for the requests of all sessions, and for those that
 * redirects lead to.
 */
#ifndef AGENT_C_NAMES_H
#define AGENT_C_NAMES_H

#include <stddef.h>

struct addrinfo;
struct error;
struct target;

/* Zeroed is empty. */
struct names {
	struct name *newest; /* the one that was asked for last */
};

void names_release(struct names *names);

/*
 * The addresses of the target's host, one at least; valid until the next call. Waits while a name
 * is looked up; when that fails, which -1 with *err tells, it is asked for again after a second.
 * A few names are known at a time: beyond them those go that were not asked for lately.
 */
int names_look_up(struct names *names, const struct target *target,
	const struct addrinfo **addresses, struct error *err);

/* Number `index` (0, 1, …) of them, or NULL when there is none. */
const struct addrinfo *address_number(const struct addrinfo *addresses, size_t index);
size_t address_count(const struct addrinfo *addresses);

#endif
