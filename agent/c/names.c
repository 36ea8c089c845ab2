#include "agent/c/names.h"

#include "agent/c/target.h"
#include "common/clock.h"
#include "common/error.h"

#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

enum { NAMES_MAX = 16, LOOK_UP_AGAIN_NS = 1000000000 };

struct name {
	struct name *older;
	char *host, *port;
	struct addrinfo *addresses; /* NULL: the look-up failed */
	int code;                   /* of getaddrinfo(3), for why */
	int64_t looked_up_ns;
};

static void forget(struct name *name)
{
	if (name->addresses)
		freeaddrinfo(name->addresses);
	free(name->host);
	free(name->port);
	free(name);
}

void names_release(struct names *names)
{
	for (struct name *name = names->newest, *older; name; name = older) {
		older = name->older;
		forget(name);
	}
	names->newest = NULL;
}

static void look_up(struct name *name)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
	name->code = getaddrinfo(name->host, name->port, &hints, &name->addresses);
	if (name->code)
		name->addresses = NULL; /* of which a failure says nothing */
	name->looked_up_ns = now_ns();
}

/* The target's, taken out of the list; NULL when it is not known. The oldest goes where there would
 * be too many with another one. */
static struct name *take(struct names *names, const struct target *target)
{
	size_t count = 1;
	for (struct name **link = &names->newest; *link; link = &(*link)->older, count++) {
		struct name *name = *link;
		bool wanted =
			!strcasecmp(name->host, target->host) && !strcmp(name->port, target->port);
		if (!wanted && count < NAMES_MAX)
			continue;
		*link = name->older;
		if (wanted)
			return name;
		forget(name);
		break;
	}
	return NULL;
}

int names_look_up(struct names *names, const struct target *target,
	const struct addrinfo **addresses, struct error *err)
{
	struct name *name = take(names, target);
	if (!name) {
		name = xcalloc(1, sizeof *name);
		name->host = xstrdup(target->host);
		name->port = xstrdup(target->port);
		look_up(name);
	} else if (!name->addresses && now_ns() >= name->looked_up_ns + LOOK_UP_AGAIN_NS) {
		look_up(name);
	}
	name->older = names->newest;
	names->newest = name;
	if (!name->addresses)
		return error_set(err, 0, "cannot look up '%.200s': %s", target->host,
			gai_strerror(name->code));
	*addresses = name->addresses;
	return 0;
}

const struct addrinfo *address_number(const struct addrinfo *addresses, size_t index)
{
	for (; index && addresses; index--)
		addresses = addresses->ai_next;
	return addresses;
}

size_t address_count(const struct addrinfo *addresses)
{
	size_t count = 0;
	for (; addresses; addresses = addresses->ai_next)
		count++;
	return count;
}
