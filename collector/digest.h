/* SHA-256, as 64 hex digits where nothing else is said. */
#ifndef COLLECTOR_DIGEST_H
#define COLLECTOR_DIGEST_H

#include <jansson.h>
#include <stddef.h>
#include <sys/stat.h>

struct error;

enum { DIGEST_HEX = 65, DIGEST_BASE64 = 45 };

void digest_bytes(const void *bytes, size_t length, char hex[DIGEST_HEX]);
/* Of the same bytes as base64, which browsers are told it in. */
void digest_base64(const void *bytes, size_t length, char out[DIGEST_BASE64]);
/* Of the compact text with sorted keys: the same for equal values. */
void digest_json(const json_t *value, char hex[DIGEST_HEX]);

/*
 * Of regular files, one after the other, of which many are the same: contenders often share an
 * executable, and a digest of 100 MB takes half a second. A file with the last one's number is not
 * read again. In containers it has another number in each: there, if size and time are the last
 * one's, its bytes are compared, which is a tenth of the work.
 */
struct digest_files {
	int fd; /* the last file */
	struct stat status;
	char hex[DIGEST_HEX];
};
#define DIGEST_FILES_EMPTY                                                                         \
	{                                                                                          \
		.fd = -1                                                                           \
	}

/* The digest is files->hex, until the next call. */
int digest_file(struct digest_files *files, int fd, struct error *err);
void digest_files_release(struct digest_files *files);
#define auto_digest_files __attribute__((cleanup(digest_files_release)))

#endif
