/*
 * A growing byte buffer with a hard cap. buf_init sets the cap; adding beyond it returns -1 and
 * leaves the buffer unchanged. Out of memory aborts. `data` is NUL-terminated after every add,
 * and may be NULL while nothing was added; it moves when the buffer grows.
 */
#ifndef COMMON_BUF_H
#define COMMON_BUF_H

#include <stddef.h>

struct buf {
	char *data;
	size_t length;
	size_t capacity; /* allocated, the NUL's byte included */
	size_t max;      /* cap of length */
};

void buf_init(struct buf *buf, size_t max);
void buf_release(struct buf *buf); /* frees; the buffer may be used again after buf_init */
void buf_clear(struct buf *buf);   /* length 0, memory kept */

/* Make room for `more` bytes beyond length. */
int buf_reserve(struct buf *buf, size_t more);
int buf_add(struct buf *buf, const void *bytes, size_t length);
int buf_add_text(struct buf *buf, const char *text);
int buf_add_char(struct buf *buf, char c);
int buf_addf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Drop the first `length` bytes (length <= buf->length). */
void buf_drop(struct buf *buf, size_t length);

#define auto_buf __attribute__((cleanup(buf_release)))

#endif
