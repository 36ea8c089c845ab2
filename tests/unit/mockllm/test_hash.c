#include "mockllm/hash.h"

#include "common/rng.h"
#include "tests/unit/mockllm/fixture.h"

enum { SIZE = 300 };
static unsigned char bytes[SIZE];

static int setup(void **state)
{
	(void)state;
	uint64_t random = 11;
	for (size_t i = 0; i < SIZE; i++)
		bytes[i] = (unsigned char)rng_next(&random);
	return 0;
}

static struct hash_value hash_of(const void *data, size_t length)
{
	struct hash hash;
	hash_init(&hash);
	hash_update(&hash, data, length);
	return hash_get(&hash);
}

static void cutting_does_not_matter(void **state)
{
	(void)state;
	uint64_t random = 5;
	for (int i = 0; i < 500; i++) {
		struct hash hash;
		hash_init(&hash);
		for (size_t done = 0; done < SIZE;) {
			size_t part = (size_t)rng_between(&random, 0, 40);
			if (part > SIZE - done)
				part = SIZE - done;
			hash_update(&hash, bytes + done, part);
			done += part;
			assert_true(hash_equal(hash_get(&hash), hash_of(bytes, done)));
		}
	}
}

static void every_bit_and_the_length_matter(void **state)
{
	(void)state;
	struct hash_value whole = hash_of(bytes, SIZE);
	for (size_t i = 0; i < SIZE; i++) {
		assert_false(hash_equal(whole, hash_of(bytes, i)));
		for (int bit = 0; bit < 8; bit++) {
			bytes[i] ^= (unsigned char)(1 << bit);
			assert_false(hash_equal(whole, hash_of(bytes, SIZE)));
			bytes[i] ^= (unsigned char)(1 << bit);
		}
	}
	static const unsigned char zeros[64];
	for (size_t i = 0; i < sizeof zeros; i++)
		for (size_t j = 0; j < i; j++)
			assert_false(hash_equal(hash_of(zeros, i), hash_of(zeros, j)));
}

static void exchanged_blocks_are_noticed(void **state)
{
	(void)state;
	struct hash_value before = hash_of(bytes, 64);
	unsigned char block[16];
	memcpy(block, bytes, 16);
	memcpy(bytes, bytes + 16, 16);
	memcpy(bytes + 16, block, 16);
	assert_false(hash_equal(before, hash_of(bytes, 64)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(cutting_does_not_matter, setup),
		cmocka_unit_test_setup(every_bit_and_the_length_matter, setup),
		cmocka_unit_test_setup(exchanged_blocks_are_noticed, setup),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
