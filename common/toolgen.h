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
	uint64_t bits = 0;
	size_t left = 0;
	for (size_t i = 0; i < size; i++) {
		if (!left) {
			bits = rng_next(&key);
			left = 10;
		}
		out[i] = i % 80 == 79 ? '\n' : alphabet[bits & 63];
		bits >>= 6;
		left--;
	}
	if (size)
		out[size - 1] = '\n';
}

#endif
