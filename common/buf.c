#include "common/buf.h"

#include "common/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_init(struct buf *buf, size_t max)
{
	*buf = (struct buf){.max = max};
}

void buf_release(struct buf *buf)
{
	free(buf->data);
	buf->data = NULL;
	buf->length = 0;
	buf->capacity = 0;
}

void buf_clear(struct buf *buf)
{
	buf->length = 0;
	if (buf->data)
		buf->data[0] = '\0';
}

int buf_reserve(struct buf *buf, size_t more)
{
	if (more > buf->max - buf->length)
		return -1;
	size_t wanted = buf->length + more + 1;
	if (wanted <= buf->capacity)
		return 0;
	size_t capacity = buf->capacity + buf->capacity / 2;
	if (capacity < wanted)
		capacity = wanted;
	if (capacity < 64)
		capacity = 64;
	buf->data = xrealloc(buf->data, capacity);
	buf->capacity = capacity;
	return 0;
}

int buf_add(struct buf *buf, const void *bytes, size_t length)
{
	if (buf_reserve(buf, length))
		return -1;
	if (length)
		memcpy(buf->data + buf->length, bytes, length);
	buf->length += length;
	buf->data[buf->length] = '\0';
	return 0;
}

int buf_add_text(struct buf *buf, const char *text)
{
	return buf_add(buf, text, strlen(text));
}

int buf_add_char(struct buf *buf, char c)
{
	return buf_add(buf, &c, 1);
}

int buf_addf(struct buf *buf, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	va_list again;
	va_copy(again, args);
	int length = vsnprintf(NULL, 0, format, args);
	va_end(args);
	int result = -1;
	if (length >= 0 && !buf_reserve(buf, (size_t)length)) {
		vsnprintf(buf->data + buf->length, (size_t)length + 1, format, again);
		buf->length += (size_t)length;
		result = 0;
	}
	va_end(again);
	return result;
}

void buf_drop(struct buf *buf, size_t length)
{
	if (!length)
		return;
	buf->length -= length;
	memmove(buf->data, buf->data + length, buf->length);
	buf->data[buf->length] = '\0';
}
