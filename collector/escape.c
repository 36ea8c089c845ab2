#include "collector/escape.h"

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/error.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static void add(struct buf *out, const void *bytes, size_t length)
{
	if (buf_add(out, bytes, length))
		die_oom();
}

/* The character at text and its length; bytes that are no UTF-8 count as one character each. */
static uint32_t next_character(const unsigned char *text, size_t *length)
{
	static const struct {
		unsigned char mask, lead;
		size_t length;
	} forms[] = {{0x80, 0, 1}, {0xe0, 0xc0, 2}, {0xf0, 0xe0, 3}, {0xf8, 0xf0, 4}};
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
		if ((text[0] & forms[i].mask) != forms[i].lead)
			continue;
		uint32_t value = text[0] & (unsigned char)~forms[i].mask;
		for (size_t k = 1; k < forms[i].length; k++) {
			if ((text[k] & 0xc0) != 0x80)
				goto invalid;
			value = value << 6 | (text[k] & 0x3f);
		}
		*length = forms[i].length;
		return value;
	}
invalid:
	*length = 1;
	return 0xfffd;
}

/* C0 and C1 controls, DEL, marks and overrides of direction, line separators, a byte order mark. */
static bool acts(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || (c >= 0x200b && c <= 0x200f) ||
	       (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff ||
	       c == 0xfffd;
}

/* Bytes of other scripts count as letters. */
static bool is_word(char c)
{
	return isalnum((unsigned char)c) || (unsigned char)c >= 0x80;
}

/* Add text with each ASCII character of `special` as `replace` makes it; NULL: none is special. */
static void escape(struct buf *out, const char *text, const char *special,
	void (*replace)(struct buf *out, char c))
{
	for (const unsigned char *at = (const unsigned char *)text; *at;) {
		size_t length;
		uint32_t c = next_character(at, &length);
		if (c == '\n' || c == '\t' || c == '\r')
			add(out, " ", 1);
		else if (acts(c))
			add(out, "?", 1);
		else if (c < 0x80 && replace && strchr(special, (int)c))
			replace(out, (char)c);
		else
			add(out, at, length);
		at += length;
	}
}

void escape_plain(struct buf *out, const char *text)
{
	escape(out, text, "", NULL);
}

static void html_entity(struct buf *out, char c)
{
	static const struct {
		char c;
		const char *entity;
	} entities[] = {
		{'<', "&lt;"}, {'>', "&gt;"}, {'&', "&amp;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
	for (size_t i = 0; i < sizeof entities / sizeof *entities; i++) {
		if (entities[i].c == c)
			add(out, entities[i].entity, strlen(entities[i].entity));
	}
}

void escape_html(struct buf *out, const char *text)
{
	escape(out, text, "<>&\"'", html_entity);
}

/*
 * Only what would act is escaped, so that the file reads well as it is: an underscore inside a word
 * does nothing, nor do brackets without a link's second half.
 */
void escape_markdown(struct buf *out, const char *text)
{
	auto_buf struct buf plain;
	buf_init(&plain, out->max);
	escape_plain(&plain, text);
	for (size_t i = 0; i < plain.length; i++) {
		char c = plain.data[i], next = plain.data[i + 1];
		bool in_word = i && is_word(plain.data[i - 1]) && is_word(next);
		if (strchr("\\`*<>|&~", c) || (c == '_' && !in_word) ||
			(c == ']' && (next == '(' || next == '[' || next == ':')))
			add(out, "\\", 1);
		add(out, &c, 1);
	}
}

static void doubled(struct buf *out, char c)
{
	add(out, (char[]){c, c}, 2);
}

void escape_csv(struct buf *out, const char *text)
{
	auto_buf struct buf plain;
	buf_init(&plain, out->max);
	/* A tab or line break in front is a space by now and does not hide the sign behind it. */
	const char *sign = text + strspn(text, " \t\r\n");
	if (*sign && strchr("=+-@", *sign))
		add(&plain, "'", 1);
	escape_plain(&plain, text);
	const char *cell = plain.data ? plain.data : "";
	if (!strpbrk(cell, ",\"") && *cell != ' ') {
		add(out, cell, plain.length);
		return;
	}
	add(out, "\"", 1);
	escape(out, cell, "\"", doubled);
	add(out, "\"", 1);
}

unsigned long escape_width(const char *text)
{
	unsigned long width = 0;
	for (; *text; text++)
		width += ((unsigned char)*text & 0xc0) != 0x80;
	return width;
}
