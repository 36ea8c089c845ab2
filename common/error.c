#include "common/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void make_printable(char *text)
{
	for (unsigned char *c = (unsigned char *)text; *c; c++)
		if (*c < 0x20 || *c == 0x7f)
			*c = '?';
}

/*
 * Take a text over, however long it is: of one that does not fit the middle is left out, for the
 * reason stands at its end and the subject at its beginning.
 */
static void fit(struct error *err, const char *text)
{
	static const char gap[] = " ... ";
	size_t length = strlen(text), room = sizeof err->text - 1;
	if (length <= room) {
		memmove(err->text, text, length + 1);
	} else {
		size_t head = (room - (sizeof gap - 1)) / 2, tail = room - (sizeof gap - 1) - head;
		const char *end = text + length - tail;
		/* not within a character of UTF-8 */
		while (head && ((unsigned char)text[head] & 0xc0) == 0x80)
			head--;
		while (((unsigned char)*end & 0xc0) == 0x80)
			end++;
		snprintf(err->text, sizeof err->text, "%.*s%s%s", (int)head, text, gap, end);
	}
	make_printable(err->text);
}

int(error_set)(struct error *err, int code, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	char *text, *with_reason = NULL;
	if (vasprintf(&text, format, args) < 0)
		die_oom();
	va_end(args);
	if (code && asprintf(&with_reason, "%s: %s", text, strerror(code)) < 0)
		die_oom();
	fit(err, with_reason ? with_reason : text);
	err->code = code;
	free(with_reason);
	free(text);
	return -1;
}

int(error_prefix)(struct error *err, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	char *context, *text;
	if (vasprintf(&context, format, args) < 0 ||
		asprintf(&text, "%s: %s", context, err->text) < 0)
		die_oom();
	va_end(args);
	fit(err, text);
	free(context);
	free(text);
	return -1;
}

_Noreturn void die_oom(void)
{
	fputs("out of memory\n", stderr);
	abort();
}

void *xmalloc(unsigned long size)
{
	void *memory = malloc(size ? size : 1);
	if (!memory)
		die_oom();
	return memory;
}

void *xcalloc(unsigned long count, unsigned long size)
{
	void *memory = calloc(count ? count : 1, size ? size : 1);
	if (!memory)
		die_oom();
	return memory;
}

void *xrealloc(void *old, unsigned long size)
{
	void *memory = realloc(old, size ? size : 1);
	if (!memory)
		die_oom();
	return memory;
}

char *xstrdup(const char *text)
{
	char *copy = strdup(text);
	if (!copy)
		die_oom();
	return copy;
}

char *xasprintf(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	char *text = NULL;
	int length = vasprintf(&text, format, args);
	va_end(args);
	if (length < 0)
		die_oom();
	return text;
}
