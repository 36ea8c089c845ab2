/*
 * Names under .test (RFC 6761), which only the test knows: this getaddrinfo comes before the
 * system's. Other names go to that one.
 */
#ifndef TESTS_UNIT_AGENT_C_RESOLVER_H
#define TESTS_UNIT_AGENT_C_RESOLVER_H

#include <dlfcn.h>
#include <netdb.h>
#include <string.h>

struct known_name {
	const char *name, *addresses[4];
};

static const struct known_name *known_names; /* up to one without a name */
static int look_ups;                         /* under .test */

typedef int look_up_function(
	const char *, const char *, const struct addrinfo *, struct addrinfo **);

int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
	struct addrinfo **addresses)
{
	look_up_function *system;
	*(void **)&system = dlsym(RTLD_NEXT, "getaddrinfo");
	size_t length = strlen(host);
	if (length < 5 || strcmp(host + length - 5, ".test"))
		return system(host, port, hints, addresses);
	look_ups++;
	for (const struct known_name *known = known_names; known->name; known++) {
		if (strcmp(known->name, host))
			continue;
		struct addrinfo **end = addresses;
		for (size_t i = 0; known->addresses[i]; i++) {
			if (system(known->addresses[i], port, hints, end))
				return EAI_FAIL;
			end = &(*end)->ai_next;
		}
		return 0;
	}
	return EAI_NONAME;
}

#endif
