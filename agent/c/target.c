#include "agent/c/target.h"

#include "common/buf.h"
#include "common/error.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { PORT_MAX = 65535 };

static const char HTTP[] = "http", HTTPS[] = "https";

static bool is_alnum(char c)
{
	return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

/* ---- addresses taken apart */

static bool is_host(const char *at, size_t length, bool bracketed)
{
	for (size_t i = 0; i < length; i++)
		if (!is_alnum(at[i]) && !strchr(bracketed ? ":." : "-._~", at[i]))
			return false;
	return length > 0;
}

/* Digits, 1 to 65535. */
static bool is_port(const char *at, size_t length)
{
	long port = 0;
	for (size_t i = 0; i < length && port <= PORT_MAX; i++) {
		if (at[i] < '0' || at[i] > '9')
			return false;
		port = 10 * port + (at[i] - '0');
	}
	return port >= 1 && port <= PORT_MAX;
}

/* "HOST", "HOST:PORT" or "HOST:", the host of IPv6 in brackets. */
static bool take_authority(struct target *target, const char *at, size_t length)
{
	bool bracketed = length && *at == '[';
	const char *end = at + length, *host = at + bracketed;
	const char *host_end = memchr(host, bracketed ? ']' : ':', (size_t)(end - host));
	if (!host_end && bracketed)
		return false;
	if (!host_end)
		host_end = end;
	size_t host_length = (size_t)(host_end - host);
	const char *rest = host_end + bracketed;
	bool has_port = rest < end;
	if (!is_host(host, host_length, bracketed) || (has_port && *rest != ':'))
		return false;
	const char *port = has_port ? rest + 1 : end;
	if (port < end && !is_port(port, (size_t)(end - port)))
		return false;
	bool given = port < end;
	target->host = xasprintf("%.*s", (int)host_length, host);
	target->port = given ? xasprintf("%.*s", (int)(end - port), port)
			     : xstrdup(target->tls ? "443" : "80");
	target->authority = xasprintf(bracketed ? "[%s]%s%s" : "%s%s%s", target->host,
		given ? ":" : "", given ? target->port : "");
	return true;
}

/* Returns what follows "SCHEME://", or NULL. */
static const char *after_scheme(const char *url, const char *scheme)
{
	size_t length = strlen(scheme);
	return !strncasecmp(url, scheme, length) && !strncmp(url + length, "://", 3)
		       ? url + length + 3
		       : NULL;
}

/* Take segments "." and ".." out of a path, with what the latter go up from; its query stays. */
static void remove_dots(char *path)
{
	char *to = path, *at = path;
	while (*at && *at != '?') {
		size_t length = 1 + strcspn(at + 1, "/?");
		char *next = at + length;
		bool same = length == 2 && at[1] == '.';
		bool up = length == 3 && at[1] == '.' && at[2] == '.';
		if (up)
			while (to > path && *--to != '/')
				;
		if (!same && !up) {
			memmove(to, at, length);
			to += length;
		} else if (*next != '/') {
			*to++ = '/'; /* what they name is a folder */
		}
		at = next;
	}
	memmove(to, at, strlen(at) + 1);
}

/* Path and query, up to a fragment. With `encode`, what may not stand there is percent-encoded. */
static char *take_path(const char *at, bool encode)
{
	struct buf path;
	buf_init(&path, SIZE_MAX / 2);
	buf_add_text(&path, *at == '/' ? "" : "/");
	for (; *at && *at != '#'; at++) {
		unsigned char c = (unsigned char)*at;
		if (c > ' ' && c < 0x7f) {
			buf_add_char(&path, *at);
		} else if (encode) {
			buf_addf(&path, "%%%02X", c);
		} else {
			buf_release(&path);
			return NULL;
		}
	}
	remove_dots(path.data);
	return path.data;
}

static int take_url(struct target *target, const char *url, bool encode, struct error *err)
{
	const char *at = after_scheme(url, HTTP);
	*target = (struct target){.tls = !at};
	if (!at)
		at = after_scheme(url, HTTPS);
	size_t length = at ? strcspn(at, "/?#") : 0;
	if (at && take_authority(target, at, length))
		target->path = take_path(at + length, encode);
	if (target->path)
		return 0;
	target_release(target);
	return error_set(err, 0, "no http:// or https:// address: '%.200s'", url);
}

int target_init(struct target *target, const char *url, struct error *err)
{
	return take_url(target, url, false, err);
}

static bool has_scheme(const char *reference)
{
	size_t length = strcspn(reference, ":/?#");
	return length && reference[length] == ':';
}

int target_init_relative(
	struct target *target, const struct target *base, const char *reference, struct error *err)
{
	const char *scheme = base->tls ? HTTPS : HTTP;
	char *url;
	if (has_scheme(reference)) {
		url = xstrdup(reference);
	} else if (!strncmp(reference, "//", 2)) {
		url = xasprintf("%s:%s", scheme, reference);
	} else {
		/* What is kept of the base's path: nothing, all of it, or up to its last slash. */
		size_t kept = strcspn(base->path, "?");
		if (*reference == '/')
			kept = 0;
		else if (!*reference || *reference == '#')
			kept = strlen(base->path);
		else if (*reference != '?')
			while (kept && base->path[kept - 1] != '/')
				kept--;
		url = xasprintf(
			"%s://%s%.*s%s", scheme, base->authority, (int)kept, base->path, reference);
	}
	int result = take_url(target, url, true, err);
	free(url);
	return result;
}

void target_release(struct target *target)
{
	free(target->host);
	free(target->port);
	free(target->authority);
	free(target->path);
	*target = (struct target){0};
}

bool target_is_same_origin(const struct target *target, const struct target *other)
{
	return target->tls == other->tls && !strcasecmp(target->host, other->host) &&
	       !strcmp(target->port, other->port);
}
