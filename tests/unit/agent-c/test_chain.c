#include "agent/c/chain.h"

#include "common/error.h"
#include "tests/unit/agent-c/fixture.h"

enum { BLOCK_BYTES = 1024 - sizeof(void *) };

static char pattern(size_t at)
{
	return (char)('a' + at % 23);
}

static void append_pattern(struct chain *chain, size_t length)
{
	char *text = xmalloc(length);
	for (size_t i = 0; i < length; i++)
		text[i] = pattern(chain->length + i);
	chain_append(chain, text, length);
	free(text);
}

static void assert_pattern(const struct chain *chain, size_t offset, size_t length, size_t first)
{
	char *text = xmalloc(length);
	chain_read(chain, offset, text, length);
	for (size_t i = 0; i < length; i++)
		assert_int_equal(text[i], pattern(first + i));
	free(text);
}

static const size_t lengths[] = {0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1,
	2 * BLOCK_BYTES - 1, 2 * BLOCK_BYTES, 2 * BLOCK_BYTES + 1, 300000};

static void reads_back_what_was_appended(void **state)
{
	(void)state;
	for (size_t i = 0; i < ROWS(lengths); i++)
		for (size_t j = 0; j < ROWS(lengths); j++) {
			struct store store = {0};
			struct chain chain;
			chain_init(&chain, &store);
			append_pattern(&chain, lengths[i]);
			append_pattern(&chain, lengths[j]);
			assert_int_equal(chain.length, lengths[i] + lengths[j]);
			assert_pattern(&chain, 0, chain.length, 0);
			if (chain.length > 2)
				assert_pattern(&chain, 1, chain.length - 2, 1);
			chain_cut(&chain, 0);
			store_release(&store);
		}
}

static void cuts_anywhere_and_goes_on(void **state)
{
	(void)state;
	for (size_t i = 0; i < ROWS(lengths); i++)
		for (size_t j = 0; j <= i; j++) {
			struct store store = {0};
			struct chain chain;
			chain_init(&chain, &store);
			append_pattern(&chain, lengths[i]);
			chain_cut(&chain, lengths[j]);
			assert_int_equal(chain.length, lengths[j]);
			append_pattern(&chain, BLOCK_BYTES + 5);
			assert_pattern(&chain, 0, chain.length, 0);
			store_release(&store);
		}
}

static void moves_text_without_more_memory(void **state)
{
	(void)state;
	for (size_t i = 0; i < ROWS(lengths); i++)
		for (size_t j = 0; j < ROWS(lengths); j++) {
			struct store store = {0};
			struct chain to, from;
			chain_init(&to, &store);
			chain_init(&from, &store);
			append_pattern(&to, lengths[i]);
			append_pattern(&from, lengths[j]);
			chain_move(&to, &from);
			assert_int_equal(to.length, lengths[i] + lengths[j]);
			assert_pattern(&to, 0, lengths[i], 0);
			assert_pattern(&to, lengths[i], lengths[j], 0);
			assert_int_equal(from.length, 0);
			append_pattern(&from, 10);
			assert_pattern(&from, 0, 10, 0);
			store_release(&store);
		}
}

static void blocks_are_used_again(void **state)
{
	(void)state;
	struct store store = {0};
	struct chain chain;
	chain_init(&chain, &store);
	append_pattern(&chain, 100000);
	const char *fresh = store.fresh;
	for (int i = 0; i < 100; i++) {
		chain_cut(&chain, 0);
		append_pattern(&chain, 100000);
	}
	assert_ptr_equal(store.fresh, fresh);
	store_release(&store);
}

static void vectors_cover_the_text_from_any_offset(void **state)
{
	(void)state;
	struct store store = {0};
	struct chain chain;
	struct iovec vectors[8];
	chain_init(&chain, &store);
	append_pattern(&chain, 5 * BLOCK_BYTES + 7);
	for (size_t offset = 0; offset < chain.length; offset += 13) {
		size_t at = offset, count = chain_vectors(&chain, offset, vectors, ROWS(vectors));
		for (size_t i = 0; i < count; i++)
			for (size_t k = 0; k < vectors[i].iov_len; k++, at++)
				assert_int_equal(((char *)vectors[i].iov_base)[k], pattern(at));
		assert_int_equal(at, chain.length);
	}
	assert_int_equal(chain_vectors(&chain, chain.length, vectors, ROWS(vectors)), 0);
	assert_int_equal(chain_vectors(&chain, 0, vectors, 2), 2);
	store_release(&store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_back_what_was_appended),
		cmocka_unit_test(cuts_anywhere_and_goes_on),
		cmocka_unit_test(moves_text_without_more_memory),
		cmocka_unit_test(blocks_are_used_again),
		cmocka_unit_test(vectors_cover_the_text_from_any_offset),
	};
	return cmocka_run_group_tests_name("agent-c chain", tests, NULL, NULL);
}
