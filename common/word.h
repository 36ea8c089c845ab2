/*
 * Eight bytes of text at a time. Each macro sets bit 7 of every byte of `word` that it is about,
 * and is exact up to and including the first such byte in memory order (later ones may be set
 * wrongly), on a little-endian machine. Several may be joined by |; WORD_FIRST is then the first
 * byte of any.
 */
#ifndef COMMON_WORD_H
#define COMMON_WORD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { WORD_BYTES = 8 };

/* Elsewhere texts are looked at byte by byte. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
enum { HAVE_WORDS = 1 };
#else
enum { HAVE_WORDS = 0 };
#endif

#define WORD_EACH(byte) (UINT64_C(0x0101010101010101) * (byte))
/* bound <= 0x80 */
#define WORD_BELOW(word, bound) (((word)-WORD_EACH(bound)) & ~(word)&WORD_EACH(0x80))
#define WORD_EQUAL(word, byte) WORD_BELOW((word) ^ WORD_EACH(byte), 1)
/* 0x80 and above */
#define WORD_HIGH(word) ((word)&WORD_EACH(0x80))
#define WORD_FIRST(bits) ((size_t)__builtin_ctzll(bits) / 8)

static inline uint64_t word_load(const void *bytes)
{
	uint64_t word;
	memcpy(&word, bytes, sizeof word);
	return word;
}

#endif
