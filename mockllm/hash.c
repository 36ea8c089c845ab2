#include "mockllm/hash.h"

#include <pthread.h>
#include <string.h>
#include <sys/random.h>

static uint64_t start[4] = {UINT64_C(0x6a09e667f3bcc909), UINT64_C(0xbb67ae8584caa73b),
	UINT64_C(0x3c6ef372fe94f82b), UINT64_C(0xa54ff53a5f1d36f1)};
static pthread_once_t start_once = PTHREAD_ONCE_INIT;

/* Without entropy the constants above do: the random start only keeps collisions from being made.
 */
static void randomise_start(void)
{
	uint64_t noise[4];
	if (getrandom(noise, sizeof noise, GRND_NONBLOCK) != (ssize_t)sizeof noise)
		return;
	for (size_t i = 0; i < 4; i++)
		start[i] ^= noise[i];
}

static uint64_t fold(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;
	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static void mix_block(struct hash *hash, const unsigned char *block)
{
	uint64_t a, b;
	memcpy(&a, block, 8);
	memcpy(&b, block + 8, 8);
	hash->lane[0] = fold(hash->lane[0] ^ a, b ^ start[2]) + a;
	hash->lane[1] = fold(hash->lane[1] ^ b, a ^ start[3]) + b;
}

void hash_init(struct hash *hash)
{
	pthread_once(&start_once, randomise_start);
	*hash = (struct hash){.lane = {start[0], start[1]}};
}

void hash_update(struct hash *hash, const void *bytes, size_t length)
{
	const unsigned char *at = bytes;
	size_t held = hash->length % sizeof hash->rest;
	hash->length += length;
	if (held) {
		size_t part = sizeof hash->rest - held;
		if (part > length)
			part = length;
		memcpy(hash->rest + held, at, part);
		if (held + part < sizeof hash->rest)
			return;
		mix_block(hash, hash->rest);
		at += part;
		length -= part;
	}
	for (; length >= sizeof hash->rest; at += sizeof hash->rest, length -= sizeof hash->rest)
		mix_block(hash, at);
	if (length)
		memcpy(hash->rest, at, length);
}

struct hash_value hash_get(const struct hash *hash)
{
	struct hash last = *hash;
	size_t held = last.length % sizeof last.rest;
	memset(last.rest + held, 0, sizeof last.rest - held);
	mix_block(&last, last.rest);
	uint64_t a = fold(last.lane[0] ^ last.length, last.lane[1] ^ start[2]);
	return (struct hash_value){{a, fold(a ^ last.lane[1], last.lane[0] ^ start[3])}};
}
