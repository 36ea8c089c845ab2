#include "collector/digest.h"

#include "common/cleanup.h"
#include "common/error.h"

#include <errno.h>
#include <fcntl.h>
#include <sha256.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

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

enum { BLOCK_BYTES = 64 << 10 };

/* Bytes read, fewer than a block at the file's end only; -1. */
static ssize_t read_block(int fd, uint8_t block[BLOCK_BYTES], off_t at)
{
	size_t filled = 0;
	while (filled < BLOCK_BYTES) {
		ssize_t got = pread(fd, block + filled, BLOCK_BYTES - filled, at + (off_t)filled);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -1;
		if (!got)
			break;
		filled += (size_t)got;
	}
	return (ssize_t)filled;
}

static bool same_bytes(int first, int second)
{
	uint8_t blocks[2][BLOCK_BYTES];
	for (off_t at = 0;; at += BLOCK_BYTES) {
		ssize_t got = read_block(first, blocks[0], at);
		if (got < 0 || read_block(second, blocks[1], at) != got ||
			memcmp(blocks[0], blocks[1], (size_t)got) != 0)
			return false;
		if (got < BLOCK_BYTES)
			return true;
	}
}

static bool same_file(const struct digest_files *files, int fd, const struct stat *status)
{
	const struct stat *last = &files->status;
	if (files->fd < 0 || last->st_size != status->st_size ||
		last->st_mtim.tv_sec != status->st_mtim.tv_sec ||
		last->st_mtim.tv_nsec != status->st_mtim.tv_nsec)
		return false;
	return (last->st_dev == status->st_dev && last->st_ino == status->st_ino) ||
	       same_bytes(files->fd, fd);
}

int digest_file(struct digest_files *files, int fd, struct error *err)
{
	struct stat status;
	if (fstat(fd, &status))
		return error_set(err, errno, "cannot read a file for its digest");
	if (same_file(files, fd, &status))
		return 0;
	SHA256_CTX context;
	uint8_t block[BLOCK_BYTES];
	SHA256Init(&context);
	ssize_t got = BLOCK_BYTES;
	for (off_t at = 0; got == BLOCK_BYTES; at += got) {
		got = read_block(fd, block, at);
		if (got < 0)
			return error_set(err, errno, "cannot read a file for its digest");
		SHA256Update(&context, block, (size_t)got);
	}
	auto_close int kept = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (kept < 0)
		return error_set(err, errno, "cannot keep a file open");
	digest_files_release(files);
	files->fd = steal_fd(&kept);
	files->status = status;
	SHA256End(&context, files->hex);
	return 0;
}

void digest_files_release(struct digest_files *files)
{
	if (files->fd >= 0)
		close(files->fd);
	*files = (struct digest_files)DIGEST_FILES_EMPTY;
}
