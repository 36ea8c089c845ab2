/* The scratch folder: working directory of the contender, emptied between runs. */
#ifndef COLLECTOR_LAUNCHER_SCRATCH_H
#define COLLECTOR_LAUNCHER_SCRATCH_H

#include <stddef.h>
#include <stdint.h>

struct error;

/* Remove everything below the folder, of any depth and mode; follows no link. */
int scratch_clean(int dir_fd, struct error *err);

/* Bytes at offset of the file `name` (no path); offset 0 makes it anew. */
int scratch_write(int dir_fd, const char *name, int64_t offset, const void *bytes, size_t length,
	struct error *err);

#endif
