#include "agent/c/chain.h"

#include "common/error.h"

#include <string.h>
#include <sys/mman.h>

/*
 * A block of 1 KiB: on average half of the last one is unused, 0.8% is the pointer. With 30 KB of
 * history a session, both losses together are smallest about here.
 */
enum {
	BLOCK_BYTES = 1024 - sizeof(void *),
	SLAB_BYTES = 256 << 10,
};

struct block {
	struct block *next;
	char text[BLOCK_BYTES];
};

struct slab {
	struct slab *next;
};

static struct block *take(struct store *store)
{
	struct block *block = store->free;
	if (block) {
		store->free = block->next;
	} else {
		if (store->fresh_bytes < sizeof *block) {
			/* Straight from the system: its pages cost nothing before they are used. */
			struct slab *slab = mmap(NULL, SLAB_BYTES, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			if (slab == MAP_FAILED)
				die_oom();
			slab->next = store->slabs;
			store->slabs = slab;
			/* The slab's own pointer takes the place of a whole block, so that blocks
			 * do not straddle pages. */
			store->fresh = (char *)slab + sizeof *block;
			store->fresh_bytes = SLAB_BYTES - sizeof *block;
		}
		block = (struct block *)store->fresh;
		store->fresh += sizeof *block;
		store->fresh_bytes -= sizeof *block;
	}
	block->next = NULL;
	return block;
}

static void give(struct store *store, struct block *block)
{
	block->next = store->free;
	store->free = block;
}

void store_release(struct store *store)
{
	while (store->slabs) {
		struct slab *slab = store->slabs;
		store->slabs = slab->next;
		munmap(slab, SLAB_BYTES);
	}
	*store = (struct store){0};
}

void chain_init(struct chain *chain, struct store *store)
{
	*chain = (struct chain){.store = store};
}

/* All blocks but the last are full. */
static size_t used_of_last(const struct chain *chain)
{
	return chain->length ? (chain->length - 1) % BLOCK_BYTES + 1 : 0;
}

void chain_append(struct chain *chain, const void *bytes, size_t length)
{
	const char *from = bytes;
	size_t used = chain->last ? used_of_last(chain) : (size_t)BLOCK_BYTES;
	chain->length += length;
	while (length) {
		if (used == BLOCK_BYTES) {
			struct block *block = take(chain->store);
			if (chain->last)
				chain->last->next = block;
			else
				chain->first = block;
			chain->last = block;
			used = 0;
		}
		size_t part = BLOCK_BYTES - used < length ? BLOCK_BYTES - used : length;
		memcpy(chain->last->text + used, from, part);
		used += part;
		from += part;
		length -= part;
	}
}

/* The block that holds the byte before `offset` (offset > 0). */
static struct block *block_before(const struct chain *chain, size_t offset)
{
	struct block *block = chain->first;
	for (size_t n = (offset - 1) / BLOCK_BYTES; n; n--)
		block = block->next;
	return block;
}

void chain_cut(struct chain *chain, size_t length)
{
	if (length == chain->length)
		return;
	struct block *last = length ? block_before(chain, length) : NULL;
	struct block *rest = last ? last->next : chain->first;
	while (rest) {
		struct block *next = rest->next;
		give(chain->store, rest);
		rest = next;
	}
	if (last)
		last->next = NULL;
	else
		chain->first = NULL;
	chain->last = last;
	chain->length = length;
}

void chain_move(struct chain *to, struct chain *from)
{
	while (from->first) {
		struct block *block = from->first;
		size_t part = from->length < BLOCK_BYTES ? from->length : (size_t)BLOCK_BYTES;
		chain_append(to, block->text, part);
		from->first = block->next;
		from->length -= part;
		give(from->store, block);
	}
	from->last = NULL;
}

size_t chain_vectors(const struct chain *chain, size_t offset, struct iovec *vectors, size_t count)
{
	if (offset >= chain->length)
		return 0;
	struct block *block = block_before(chain, offset + 1);
	size_t skip = offset % BLOCK_BYTES, left = chain->length - offset, filled = 0;
	for (; left && filled < count; block = block->next) {
		size_t part = BLOCK_BYTES - skip < left ? BLOCK_BYTES - skip : left;
		vectors[filled++] = (struct iovec){block->text + skip, part};
		left -= part;
		skip = 0;
	}
	return filled;
}

void chain_read(const struct chain *chain, size_t offset, void *out, size_t length)
{
	if (!length)
		return;
	char *to = out;
	const struct block *block = block_before(chain, offset + 1);
	for (size_t skip = offset % BLOCK_BYTES; length; skip = 0, block = block->next) {
		size_t part = BLOCK_BYTES - skip < length ? BLOCK_BYTES - skip : length;
		memcpy(to, block->text + skip, part);
		to += part;
		length -= part;
	}
}
