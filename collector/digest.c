#include "collector/digest.h"

#include "common/cleanup.h"
#include "common/error.h"

#include <errno.h>
#include <sha256.h>
#include <stdint.h>
#include <string.h>

void digest_bytes(const void *bytes, size_t length, char hex[DIGEST_HEX])
{
	SHA256Data(bytes, length, hex);
}

void digest_json(const json_t *value, char hex[DIGEST_HEX])
{
	auto_free char *text = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
	if (!text)
		die_oom();
	digest_bytes(text, strlen(text), hex);
}

int digest_fd(int fd, char hex[DIGEST_HEX], struct error *err)
{
	SHA256_CTX context;
	uint8_t block[64 << 10];
	SHA256Init(&context);
	for (off_t at = 0;;) {
		ssize_t got = pread(fd, block, sizeof block, at);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return error_set(err, errno, "cannot read a file for its digest");
		if (!got)
			break;
		SHA256Update(&context, block, (size_t)got);
		at += got;
	}
	SHA256End(&context, hex);
	return 0;
}
