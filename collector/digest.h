/* SHA-256, as 64 hex digits where nothing else is said. */
#ifndef COLLECTOR_DIGEST_H
#define COLLECTOR_DIGEST_H

#include <jansson.h>
#include <stddef.h>

struct error;

enum { DIGEST_HEX = 65, DIGEST_BASE64 = 45 };

void digest_bytes(const void *bytes, size_t length, char hex[DIGEST_HEX]);
/* Of the same bytes as base64, which browsers are told it in. */
void digest_base64(const void *bytes, size_t length, char out[DIGEST_BASE64]);
/* Of the compact text with sorted keys: the same for equal values. */
void digest_json(const json_t *value, char hex[DIGEST_HEX]);
/* Of a regular file from its beginning. */
int digest_fd(int fd, char hex[DIGEST_HEX], struct error *err);

#endif
