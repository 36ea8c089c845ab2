/*
 * The text that the suite's tool prints for a call: a function of its key and size, so that the
 * mock knows it without being told. Printable ASCII in lines of at most 80 bytes with some quotes,
 * backslashes and tabs (JSON must escape them); the last byte of a text of 1 or more bytes is LF.
 */
#ifndef COMMON_TOOLGEN_H
#define COMMON_TOOLGEN_H

#include "common/rng.h"

static inline void toolgen_fill(uint64_t key, char *out, size_t size)
{
	static const char alphabet[64] =
		"abcdefghijklmnopqrstuvwxyz     ABCDEFGHIJ0123456789.,:;/\"\\\t'<=-_";
	size_t done = 0;
	for (; size - done >= 10; done += 10) {
		uint64_t bits = rng_next(&key);
		for (size_t i = 0; i < 10; i++)
			out[done + i] = alphabet[bits >> 6 * i & 63];
	}
	for (uint64_t bits = rng_next(&key); done < size; bits >>= 6)
		out[done++] = alphabet[bits & 63];
	for (size_t i = 79; i < size; i += 80)
		out[i] = '\n';
	if (size)
		out[size - 1] = '\n';
}

#endif
