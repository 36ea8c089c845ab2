/*
 * A fast 128-bit hash of a stream of bytes, to know a request's prefix again without keeping it:
 * two lanes of 64×64→128 multiply-and-fold, from a start that is random for each process. Not for
 * secrets. The result does not depend on how the bytes are cut into updates.
 */
#ifndef MOCKLLM_HASH_H
#define MOCKLLM_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hash {
	uint64_t lane[2];
	size_t length;
	unsigned char rest[16]; /* of a block not yet complete */
};

struct hash_value {
	uint64_t word[2];
};

void hash_init(struct hash *hash);
void hash_update(struct hash *hash, const void *bytes, size_t length);
/* The value so far; the hash may go on. */
struct hash_value hash_get(const struct hash *hash);

static inline bool hash_equal(struct hash_value a, struct hash_value b)
{
	return a.word[0] == b.word[0] && a.word[1] == b.word[1];
}

#endif
