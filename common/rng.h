/*
 * Seeded, reproducible numbers (SplitMix64, Steele, Lea and Flood 2014): the same on every
 * machine. Not for secrets.
 */
#ifndef COMMON_RNG_H
#define COMMON_RNG_H

#include <stdint.h>
#include <stddef.h>

static inline uint64_t rng_mix(uint64_t value)
{
	value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
	return value ^ (value >> 31);
}

/* Next number of the stream; *state may start at anything. */
static inline uint64_t rng_next(uint64_t *state)
{
	return rng_mix(*state += UINT64_C(0x9e3779b97f4a7c15));
}

/* Uniform in min … max, both included, min <= max (multiply-shift; its bias is below 2^-32 for
 * spans below 2^32). */
static inline int64_t rng_between(uint64_t *state, int64_t min, int64_t max)
{
	uint64_t span = (uint64_t)(max - min) + 1;
	return min + (int64_t)(uint64_t)(((unsigned __int128)rng_next(state) * span) >> 64);
}

/* Uniform in [0, 1). */
static inline double rng_unit(uint64_t *state)
{
	return (double)(rng_next(state) >> 11) * 0x1p-53;
}

/* A seed from a parent seed and one more number; order matters. */
static inline uint64_t rng_derive(uint64_t seed, uint64_t value)
{
	return rng_mix(rng_mix(seed + UINT64_C(0x9e3779b97f4a7c15)) ^ value);
}

/* The same with text (FNV-1a, then mixed). */
static inline uint64_t rng_derive_text(uint64_t seed, const char *text)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	return rng_derive(seed, hash);
}

#endif
