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

void digest_base64(const void *bytes, size_t length, char out[DIGEST_BASE64])
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	SHA256_CTX context;
	uint8_t digest[SHA256_DIGEST_LENGTH + 1];
	SHA256Init(&context);
	SHA256Update(&context, bytes, length);
	SHA256Final(digest, &context);
	digest[SHA256_DIGEST_LENGTH] = 0; /* the last group has two bytes: one is filled up */
	size_t filled = 0;
	for (size_t i = 0; i < SHA256_DIGEST_LENGTH; i += 3) {
		uint32_t group =
			(uint32_t)digest[i] << 16 | (uint32_t)digest[i + 1] << 8 | digest[i + 2];
		for (int shift = 18; shift >= 0; shift -= 6)
			out[filled++] = digits[group >> shift & 63];
	}
	out[filled - 1] = '=';
	out[filled] = '\0';
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
