#include "mockllm/scan.h"

#include "common/word.h"

#include <limits.h>
#include <stdint.h>
#include <string.h>

enum { DEPTH_MAX = 64 };

static void skip_blanks(struct scan *scan)
{
	while (scan->at < scan->end &&
		(*scan->at == ' ' || *scan->at == '\n' || *scan->at == '\r' || *scan->at == '\t'))
		scan->at++;
}

static bool peek(struct scan *scan, char c)
{
	skip_blanks(scan);
	return scan->at < scan->end && *scan->at == c;
}

bool scan_char(struct scan *scan, char c)
{
	if (!peek(scan, c))
		return false;
	scan->at++;
	return true;
}

static bool read_hex4(struct scan *scan, unsigned *out)
{
	unsigned value = 0;
	if (scan->end - scan->at < 4)
		return false;
	for (int i = 0; i < 4; i++) {
		char c = *scan->at++;
		value <<= 4;
		if (c >= '0' && c <= '9')
			value |= (unsigned)(c - '0');
		else if (c >= 'a' && c <= 'f')
			value |= (unsigned)(c - 'a' + 10);
		else if (c >= 'A' && c <= 'F')
			value |= (unsigned)(c - 'A' + 10);
		else
			return false;
	}
	*out = value;
	return true;
}

static size_t encode_utf8(unsigned point, char out[4])
{
	if (point < 0x80) {
		out[0] = (char)point;
		return 1;
	}
	if (point < 0x800) {
		out[0] = (char)(0xc0 | point >> 6);
		out[1] = (char)(0x80 | (point & 0x3f));
		return 2;
	}
	if (point < 0x10000) {
		out[0] = (char)(0xe0 | point >> 12);
		out[1] = (char)(0x80 | (point >> 6 & 0x3f));
		out[2] = (char)(0x80 | (point & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | point >> 18);
	out[1] = (char)(0x80 | (point >> 12 & 0x3f));
	out[2] = (char)(0x80 | (point >> 6 & 0x3f));
	out[3] = (char)(0x80 | (point & 0x3f));
	return 4;
}

/* What stands behind a backslash, as UTF-8. A lone half of a surrogate pair is refused. */
static bool read_escape(struct scan *scan, char out[4], size_t *length)
{
	static const char values[128] = {['"'] = '"',
		['\\'] = '\\',
		['/'] = '/',
		['b'] = '\b',
		['f'] = '\f',
		['n'] = '\n',
		['r'] = '\r',
		['t'] = '\t'};
	if (scan->at == scan->end)
		return false;
	unsigned char c = (unsigned char)*scan->at++;
	if (c < sizeof values && values[c]) {
		out[0] = values[c];
		*length = 1;
		return true;
	}
	unsigned point, low;
	if (c != 'u' || !read_hex4(scan, &point) || (point & 0xfc00) == 0xdc00)
		return false;
	if ((point & 0xfc00) == 0xd800) {
		if (scan->end - scan->at < 6 || scan->at[0] != '\\' || scan->at[1] != 'u')
			return false;
		scan->at += 2;
		if (!read_hex4(scan, &low) || (low & 0xfc00) != 0xdc00)
			return false;
		point = 0x10000 + ((point & 0x3ff) << 10 | (low & 0x3ff));
	}
	*length = encode_utf8(point, out);
	return true;
}

/* How many bytes the body and the text have in common that stand for themselves; in the last few,
 * too short for a word, it may count less. */
static size_t plain_length(const char *body, const char *text, size_t length)
{
	size_t done = 0;
	for (; HAVE_WORDS && length - done >= WORD_BYTES; done += WORD_BYTES) {
		uint64_t word = word_load(body + done);
		uint64_t different = word ^ word_load(text + done);
		uint64_t special =
			WORD_EQUAL(word, '"') | WORD_EQUAL(word, '\\') | WORD_BELOW(word, 0x20);
		if (!(different | special))
			continue;
		size_t same = different ? WORD_FIRST(different) : WORD_BYTES;
		size_t plain = special ? WORD_FIRST(special) : WORD_BYTES;
		return done + (same < plain ? same : plain);
	}
	return done;
}

/* What nearly all clients write behind a backslash for what must be escaped. */
static const char usual_escapes[UCHAR_MAX + 1] = {
	['"'] = '"', ['\\'] = '\\', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't'};

bool scan_text(struct scan *scan, const char *text, size_t length)
{
	const char *text_end = text + length;
	if (!scan_char(scan, '"'))
		return false;
	while (scan->at < scan->end) {
		size_t left = (size_t)(scan->end - scan->at), text_left = (size_t)(text_end - text);
		size_t plain = plain_length(scan->at, text, left < text_left ? left : text_left);
		scan->at += plain;
		text += plain;
		if (scan->at == scan->end)
			return false;
		unsigned char c = (unsigned char)*scan->at++;
		if (c == '"')
			return text == text_end;
		if (c < 0x20 || text == text_end)
			return false;
		if (c != '\\') {
			if ((unsigned char)*text++ != c)
				return false;
			continue;
		}
		char usual = usual_escapes[(unsigned char)*text];
		if (usual && scan->at < scan->end && *scan->at == usual) {
			scan->at++;
			text++;
			continue;
		}
		char bytes[4];
		size_t count;
		if (!read_escape(scan, bytes, &count) || (size_t)(text_end - text) < count ||
			memcmp(text, bytes, count))
			return false;
		text += count;
	}
	return false;
}

bool scan_name(struct scan *scan, const char **name, size_t *length)
{
	if (!scan_char(scan, '"'))
		return false;
	const char *start = scan->at;
	for (; scan->at < scan->end; scan->at++) {
		unsigned char c = (unsigned char)*scan->at;
		if (c == '"') {
			*name = start;
			*length = (size_t)(scan->at++ - start);
			return true;
		}
		if (c < 0x20 || c == '\\' || c >= 0x80)
			return false;
	}
	return false;
}

static bool skip_word(struct scan *scan, const char *word)
{
	size_t length = strlen(word);
	if ((size_t)(scan->end - scan->at) < length || memcmp(scan->at, word, length))
		return false;
	scan->at += length;
	return true;
}

bool scan_bool(struct scan *scan, bool *out)
{
	skip_blanks(scan);
	if (skip_word(scan, "true"))
		*out = true;
	else if (skip_word(scan, "false"))
		*out = false;
	else
		return false;
	return true;
}

/* One code point of two bytes or more (RFC 3629). */
static bool skip_utf8(struct scan *scan)
{
	const unsigned char *at = (const unsigned char *)scan->at;
	size_t left = (size_t)(scan->end - scan->at), length;
	unsigned char low = 0x80, high = 0xbf;
	if (at[0] >= 0xc2 && at[0] <= 0xdf) {
		length = 2;
	} else if (at[0] >= 0xe0 && at[0] <= 0xef) {
		length = 3;
		if (at[0] == 0xe0)
			low = 0xa0;
		if (at[0] == 0xed)
			high = 0x9f;
	} else if (at[0] >= 0xf0 && at[0] <= 0xf4) {
		length = 4;
		if (at[0] == 0xf0)
			low = 0x90;
		if (at[0] == 0xf4)
			high = 0x8f;
	} else {
		return false;
	}
	if (left < length || at[1] < low || at[1] > high)
		return false;
	for (size_t i = 2; i < length; i++)
		if ((at[i] & 0xc0) != 0x80)
			return false;
	scan->at += length;
	return true;
}

static bool skip_string(struct scan *scan)
{
	if (!scan_char(scan, '"'))
		return false;
	while (scan->at < scan->end) {
		unsigned char c = (unsigned char)*scan->at;
		if (c >= 0x80) {
			if (!skip_utf8(scan))
				return false;
			continue;
		}
		scan->at++;
		char bytes[4];
		size_t count;
		if (c == '"')
			return true;
		if (c < 0x20 || (c == '\\' && !read_escape(scan, bytes, &count)))
			return false;
	}
	return false;
}

static size_t skip_digits(struct scan *scan)
{
	const char *start = scan->at;
	while (scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9')
		scan->at++;
	return (size_t)(scan->at - start);
}

static bool next_is(const struct scan *scan, char a, char b)
{
	return scan->at < scan->end && (*scan->at == a || *scan->at == b);
}

/* Numbers so long that a parser may refuse them for their size are left to that parser. */
static bool skip_number(struct scan *scan)
{
	const char *start = scan->at;
	if (next_is(scan, '-', '-'))
		scan->at++;
	bool zero = next_is(scan, '0', '0');
	size_t digits = skip_digits(scan);
	if (!digits || (zero && digits > 1))
		return false;
	if (next_is(scan, '.', '.')) {
		scan->at++;
		if (!skip_digits(scan))
			return false;
	}
	if (next_is(scan, 'e', 'E')) {
		scan->at++;
		if (next_is(scan, '+', '-'))
			scan->at++;
		size_t exponent_digits = skip_digits(scan);
		if (!exponent_digits || exponent_digits > 2)
			return false;
	}
	return scan->at - start <= 18;
}

static bool skip_scalar(struct scan *scan)
{
	skip_blanks(scan);
	if (scan->at == scan->end)
		return false;
	switch (*scan->at) {
	case '"':
		return skip_string(scan);
	case 't':
		return skip_word(scan, "true");
	case 'f':
		return skip_word(scan, "false");
	case 'n':
		return skip_word(scan, "null");
	default:
		return skip_number(scan);
	}
}

/* The name and colon before a member's value. */
static bool skip_member_name(struct scan *scan)
{
	const char *name;
	size_t length;
	return scan_name(scan, &name, &length) && scan_char(scan, ':');
}

bool scan_skip(struct scan *scan)
{
	bool is_object[DEPTH_MAX];
	size_t depth = 0;
	for (;;) {
		bool opens_object = peek(scan, '{');
		if (opens_object || peek(scan, '[')) {
			scan->at++;
			if (!scan_char(scan, opens_object ? '}' : ']')) {
				if (depth == DEPTH_MAX)
					return false;
				is_object[depth++] = opens_object;
				if (opens_object && !skip_member_name(scan))
					return false;
				continue;
			}
		} else if (!skip_scalar(scan)) {
			return false;
		}
		/* A value has ended, and perhaps what it was the last one of. */
		while (depth && scan_char(scan, is_object[depth - 1] ? '}' : ']'))
			depth--;
		if (!depth)
			return true;
		if (!scan_char(scan, ',') || (is_object[depth - 1] && !skip_member_name(scan)))
			return false;
	}
}

bool scan_ended(struct scan *scan)
{
	skip_blanks(scan);
	return scan->at == scan->end;
}
