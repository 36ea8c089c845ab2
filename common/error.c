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

int(error_set)(struct error *err, int code, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	int length = vsnprintf(err->text, sizeof err->text, format, args);
	va_end(args);
	if (code && length >= 0 && (size_t)length < sizeof err->text)
		snprintf(err->text + length, sizeof err->text - (size_t)length, ": %s",
			strerror(code));
	err->code = code;
	make_printable(err->text);
	return -1;
}

int(error_prefix)(struct error *err, const char *format, ...)
{
	char text[2 * sizeof err->text];
	va_list args;
	va_start(args, format);
	int length = vsnprintf(text, sizeof err->text - 2, format, args);
	va_end(args);
	if (length < 0)
		return -1;
	if ((size_t)length > sizeof err->text - 3)
		length = sizeof err->text - 3;
	snprintf(text + length, sizeof text - (size_t)length, ": %s", err->text);
	text[sizeof err->text - 1] = '\0';
	memcpy(err->text, text, sizeof err->text);
	make_printable(err->text);
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
