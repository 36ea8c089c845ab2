/*
 * Writes JSON string text (what stands between the quotes), always valid UTF-8 without a lone
 * surrogate, from text that comes in pieces split anywhere:
 *
 * - escape_bytes: bytes as a program prints them. Decoded as in the WHATWG "UTF-8 decode without
 *   BOM": every maximal invalid sequence becomes U+FFFD, nothing is stripped.
 * - escape_json: JSON string text from a server, already known to be well-formed JSON. Escapes are
 *   kept as they are, except that a lone half of a surrogate pair becomes U+FFFD. A pair or a UTF-8
 *   sequence of which one half ends a piece and the other begins the next is joined.
 *
 * One writer is fed by one of the two only. Output is appended to a buf, which must have no cap
 * that output could meet.
 */
#ifndef AGENT_C_ESCAPE_H
#define AGENT_C_ESCAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

struct escape {
	size_t max;      /* escape_bytes: cap on `length`; what is beyond is dropped */
	size_t length;   /* escape_bytes: bytes of UTF-8 that the text written so far stands for */
	bool cut;        /* a code point did not fit, and nothing after it was taken */
	bool ends_in_lf; /* escape_bytes: the last code point taken is LF */
	uint8_t pending; /* bytes of an unfinished UTF-8 sequence, in sequence[] */
	uint8_t missing; /* bytes that it still lacks */
	uint8_t low, high; /* bounds of its next byte */
	char sequence[4];
	char half[6]; /* escape_json: a first half's escape, "\ud83d", that waits for its second */
	uint8_t half_length; /* 0 or 6 */
};

void escape_init(struct escape *escape, size_t max);
void escape_bytes(struct escape *escape, struct buf *out, const void *bytes, size_t length);
void escape_json(struct escape *escape, struct buf *out, const char *text, size_t length);
/* The text has ended: what is unfinished becomes U+FFFD. The writer may then begin a new text. */
void escape_end(struct escape *escape, struct buf *out);

/* A whole text at once, without a cap. */
void escape_text(struct buf *out, const char *text, size_t length);

#endif
