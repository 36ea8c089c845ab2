#include "agent/c/escape.h"

#include "common/word.h"
#include "common/buf.h"

#include <string.h>

static const char REPLACEMENT[] = "\xef\xbf\xbd"; /* U+FFFD */

/* Input is taken in slices, so that the room made for the worst case stays small. */
enum { SLICE_BYTES = 8 << 10, ESCAPED_MAX = 6 };

/* Six bytes at most for one of input; what waits from earlier calls needs three more each. */
static void reserve(struct buf *out, size_t length)
{
	(void)buf_reserve(out, ESCAPED_MAX * length + 32);
}

static void put(struct buf *out, const char *text, size_t length)
{
	memcpy(out->data + out->length, text, length);
	out->length += length;
}

void escape_init(struct escape *escape, size_t max)
{
	*escape = (struct escape){.max = max};
}

/* A code point of `length` bytes as UTF-8, written as `text`. */
static void emit(
	struct escape *escape, struct buf *out, const char *text, size_t text_length, size_t length)
{
	if (escape->cut)
		return;
	if (length > escape->max - escape->length) {
		escape->cut = true;
		return;
	}
	escape->length += length;
	escape->ends_in_lf = false;
	put(out, text, text_length);
}

static void emit_replacement(struct escape *escape, struct buf *out)
{
	escape->pending = 0;
	emit(escape, out, REPLACEMENT, 3, 3);
}

static void emit_ascii(struct escape *escape, struct buf *out, unsigned char c)
{
	static const char hex[] = "0123456789abcdef";
	static const char shorts[] = "\bb\tt\nn\ff\rr\"\"\\\\";
	const char *found = c ? memchr(shorts, c, sizeof shorts - 1) : NULL;
	/* The table's second column holds letters, which are never escaped. */
	if (c >= 0x20 && c != '"' && c != '\\') {
		emit(escape, out, (const char *)&c, 1, 1);
	} else if (found) {
		emit(escape, out, (const char[]){'\\', found[1]}, 2, 1);
		if (c == '\n' && !escape->cut)
			escape->ends_in_lf = true;
	} else {
		emit(escape, out, (const char[]){'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]}, 6,
			1);
	}
}

static void begin_sequence(struct escape *escape, struct buf *out, unsigned char c)
{
	escape->low = 0x80;
	escape->high = 0xbf;
	if (c >= 0xc2 && c <= 0xdf) {
		escape->missing = 1;
	} else if (c >= 0xe0 && c <= 0xef) {
		escape->missing = 2;
		if (c == 0xe0)
			escape->low = 0xa0;
		if (c == 0xed)
			escape->high = 0x9f;
	} else if (c >= 0xf0 && c <= 0xf4) {
		escape->missing = 3;
		if (c == 0xf0)
			escape->low = 0x90;
		if (c == 0xf4)
			escape->high = 0x8f;
	} else {
		emit_replacement(escape, out);
		return;
	}
	escape->sequence[0] = (char)c;
	escape->pending = 1;
}

/*
 * One byte of a sequence (0x80 or above, or any while a sequence is unfinished). Returns false if
 * the byte ended an invalid sequence without being part of it: it is to be looked at again.
 */
static bool continue_sequence(struct escape *escape, struct buf *out, unsigned char c)
{
	if (!escape->pending) {
		begin_sequence(escape, out, c);
		return true;
	}
	if (c < escape->low || c > escape->high) {
		emit_replacement(escape, out);
		return false;
	}
	escape->low = 0x80;
	escape->high = 0xbf;
	escape->sequence[escape->pending++] = (char)c;
	if (!--escape->missing) {
		size_t length = escape->pending;
		escape->pending = 0;
		emit(escape, out, escape->sequence, length, length);
	}
	return true;
}

/* Copy bytes that stand for themselves: printable ASCII but quote and backslash. Returns how many;
 * room for eight more than are left must be reserved. */
static size_t copy_plain(char *to, const unsigned char *from, size_t length)
{
	size_t done = 0;
	for (; HAVE_WORDS && length - done >= WORD_BYTES; done += WORD_BYTES) {
		uint64_t word = word_load(from + done);
		memcpy(to + done, &word, sizeof word);
		uint64_t special = WORD_BELOW(word, 0x20) | WORD_EQUAL(word, '"') |
				   WORD_EQUAL(word, '\\') | WORD_HIGH(word);
		if (special)
			return done + WORD_FIRST(special);
	}
	for (; done < length; done++) {
		unsigned char c = from[done];
		if (c < 0x20 || c >= 0x80 || c == '"' || c == '\\')
			break;
		to[done] = (char)c;
	}
	return done;
}

static void escape_slice(
	struct escape *escape, struct buf *out, const unsigned char *at, const unsigned char *end)
{
	reserve(out, (size_t)(end - at));
	while (at < end && !escape->cut) {
		if (escape->pending) {
			at += continue_sequence(escape, out, *at);
			continue;
		}
		size_t room = escape->max - escape->length, left = (size_t)(end - at);
		size_t plain = copy_plain(out->data + out->length, at, left < room ? left : room);
		if (plain) {
			out->length += plain;
			escape->length += plain;
			escape->ends_in_lf = false;
			at += plain;
		} else if (*at < 0x80) {
			emit_ascii(escape, out, *at++);
		} else {
			at += continue_sequence(escape, out, *at);
		}
	}
	out->data[out->length] = '\0';
}

void escape_bytes(struct escape *escape, struct buf *out, const void *bytes, size_t length)
{
	const unsigned char *at = bytes, *end = at + length;
	while (at < end && !escape->cut) {
		size_t slice = (size_t)(end - at) < SLICE_BYTES ? (size_t)(end - at) : SLICE_BYTES;
		escape_slice(escape, out, at, at + slice);
		at += slice;
	}
}

static void drop_half(struct escape *escape, struct buf *out)
{
	if (escape->half_length)
		put(out, REPLACEMENT, 3);
	escape->half_length = 0;
}

static int hex_digit(char c)
{
	return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
}

/* An escape of a JSON string, "\n" or "\u00e9"; whole, as pieces never split one. */
static void put_escape(struct escape *escape, struct buf *out, const char *text, size_t length)
{
	bool surrogate = length == 6 && hex_digit(text[2]) == 0xd && hex_digit(text[3]) >= 8;
	bool second = surrogate && hex_digit(text[3]) >= 0xc;
	if (second && escape->half_length) {
		put(out, escape->half, 6);
		put(out, text, 6);
		escape->half_length = 0;
		return;
	}
	drop_half(escape, out);
	if (second) {
		put(out, REPLACEMENT, 3);
	} else if (surrogate) {
		memcpy(escape->half, text, 6);
		escape->half_length = 6;
	} else {
		put(out, text, length);
	}
}

void escape_json(struct escape *escape, struct buf *out, const char *text, size_t length)
{
	const char *at = text, *end = text + length;
	reserve(out, length);
	while (at < end) {
		if ((unsigned char)*at >= 0x80 || escape->pending) {
			drop_half(escape, out);
			at += continue_sequence(escape, out, (unsigned char)*at);
			continue;
		}
		if (*at == '\\') {
			size_t escaped = at[1] == 'u' ? 6 : 2;
			put_escape(escape, out, at, escaped);
			at += escaped;
			continue;
		}
		drop_half(escape, out);
		size_t plain = copy_plain(
			out->data + out->length, (const unsigned char *)at, (size_t)(end - at));
		out->length += plain;
		at += plain;
	}
	out->data[out->length] = '\0';
}

void escape_end(struct escape *escape, struct buf *out)
{
	reserve(out, 0);
	if (escape->pending)
		emit_replacement(escape, out);
	drop_half(escape, out);
	out->data[out->length] = '\0';
}

void escape_text(struct buf *out, const char *text, size_t length)
{
	struct escape escape;
	escape_init(&escape, SIZE_MAX);
	escape_bytes(&escape, out, text, length);
	escape_end(&escape, out);
}
