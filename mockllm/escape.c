#include "mockllm/escape.h"

#include "common/error.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum {
	SLOT = 8,         /* bytes written for each byte of text, of which some count */
	LONGEST = 6,      /* \u00xx */
	BLOCK = 4096,     /* bytes of text escaped between two looks at the buffer's room */
	PAIR_FIRST = 0xf0 /* first byte of a code point of four bytes */
};

/*
 * What each byte becomes. Texts are full of characters to escape in no order that a processor could
 * guess, so there is no branch on them: a whole slot is copied, and the place moves by its length.
 */
static struct {
	char bytes[SLOT];
} slots[256];
static unsigned char lengths[256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void set_slot(unsigned c, const char *bytes, size_t length)
{
	memcpy(slots[c].bytes, bytes, length);
	lengths[c] = (unsigned char)length;
}

static void make_slots(void)
{
	for (unsigned c = 0; c < 256; c++) {
		char text[SLOT] = {(char)c};
		if (c < 0x20)
			snprintf(text, sizeof text, "\\u%04x", c);
		set_slot(c, text, c < 0x20 ? LONGEST : 1);
	}
	set_slot('"', "\\\"", 2);
	set_slot('\\', "\\\\", 2);
	set_slot('\n', "\\n", 2);
	set_slot('\r', "\\r", 2);
	set_slot('\t', "\\t", 2);
}

/* A code point of four bytes as two halves. */
static void add_pair(struct buf *out, const char *bytes)
{
	unsigned point = (bytes[0] & 7u) << 18 | (bytes[1] & 0x3fu) << 12 |
			 (bytes[2] & 0x3fu) << 6 | (bytes[3] & 0x3fu);
	unsigned high = 0xd800 | (point - 0x10000) >> 10, low = 0xdc00 | (point & 0x3ff);
	if (buf_addf(out, "\\u%04x\\u%04x", high, low))
		die_oom();
}

/* As far as there is no code point of four bytes. Returns how many bytes of text were done. */
static size_t add_block(struct buf *out, const char *text, size_t length)
{
	if (buf_reserve(out, length * LONGEST + SLOT))
		die_oom();
	char *place = out->data + out->length;
	size_t i = 0;
	for (; i < length; i++) {
		unsigned char c = (unsigned char)text[i];
		if (c >= PAIR_FIRST)
			break;
		memcpy(place, slots[c].bytes, SLOT);
		place += lengths[c];
	}
	*place = '\0';
	out->length = (size_t)(place - out->data);
	return i;
}

void escape_json(struct buf *out, const char *text, size_t length)
{
	pthread_once(&once, make_slots);
	while (length) {
		size_t done = add_block(out, text, length < BLOCK ? length : BLOCK);
		text += done;
		length -= done;
		if (!length || (unsigned char)*text < PAIR_FIRST)
			continue;
		add_pair(out, text);
		text += 4;
		length -= 4;
	}
}
