/*
 * Append-only text in small blocks of equal size, all from one store.
 *
 * A history grows for as long as its session lives, and thousands grow at once. A buffer that is
 * reallocated would waste a third of its size, be copied again and again and leave holes; a chain
 * wastes half a block, is never moved, and what it frees fits every other chain. Not thread-safe.
 * Out of memory aborts.
 */
#ifndef AGENT_C_CHAIN_H
#define AGENT_C_CHAIN_H

#include <stddef.h>
#include <sys/uio.h>

struct block;

/* Where blocks come from and return to. Zeroed is empty. Memory goes back to the system only with
 * store_release, when no chain of the store is in use any more. */
struct store {
	struct block *free;
	struct slab *slabs;
	char *fresh; /* blocks of the last slab that were never used, and so cost no memory yet */
	size_t fresh_bytes;
};

void store_release(struct store *store);

struct chain {
	struct store *store;
	struct block *first, *last;
	size_t length; /* bytes of text */
};

void chain_init(struct chain *chain, struct store *store);
void chain_append(struct chain *chain, const void *bytes, size_t length);
/* Drop all beyond the first `length` bytes (length <= chain->length); 0 frees every block. */
void chain_cut(struct chain *chain, size_t length);
/* Move all text of `from` to the end of `to`, freeing blocks as it goes: `from` is then empty. */
void chain_move(struct chain *to, struct chain *from);
/* Copy `length` bytes from `offset` on; they must be there. */
void chain_read(const struct chain *chain, size_t offset, void *out, size_t length);

/* Fill up to `count` vectors with the text from `offset` on. Returns how many were filled; valid
 * until the chain is changed. */
size_t chain_vectors(const struct chain *chain, size_t offset, struct iovec *vectors, size_t count);

#endif
