/* Addresses that servers redirect to: nothing of them can end a header line, and what was taken
 * apart means the same when it is put together. */
#include "agent/c/target.h"
#include "common/error.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text <= ' ' || (unsigned char)*text >= 0x7f)
			abort();
}

static void check(const struct target *target)
{
	struct target again;
	struct error err;
	check_text(target->authority);
	check_text(target->path);
	if (target->path[0] != '/')
		abort();
	char *url = xasprintf(
		"%s://%s%s", target->tls ? "https" : "http", target->authority, target->path);
	if (target_init(&again, url, &err) || !target_is_same_origin(target, &again) ||
		strcmp(again.path, target->path) != 0 ||
		strcmp(again.authority, target->authority) != 0)
		abort();
	free(url);
	target_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = xmalloc(size + 1);
	memcpy(text, data, size);
	text[size] = '\0';
	struct target base, target;
	struct error err;
	if (target_init(&base, "https://[::1]:8443/v1/chat/completions?a=b", &err))
		abort();
	if (!target_init(&target, text, &err)) {
		check(&target);
		target_release(&target);
	}
	if (!target_init_relative(&target, &base, text, &err)) {
		check(&target);
		target_release(&target);
	}
	target_release(&base);
	free(text);
	return 0;
}
