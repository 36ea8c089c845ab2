/*
 * Scope cleanup: `auto_free char *name = …;`, `auto_close int fd = …;`. Ownership is handed on
 * with steal_ptr and steal_fd, after which the variable is NULL or -1. json_auto_t is jansson's.
 */
#ifndef COMMON_CLEANUP_H
#define COMMON_CLEANUP_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void cleanup_free(void *slot)
{
	free(*(void **)slot);
}

static inline void cleanup_close(const int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void cleanup_fclose(FILE **file)
{
	if (*file)
		fclose(*file);
}

#define auto_free __attribute__((cleanup(cleanup_free)))
#define auto_close __attribute__((cleanup(cleanup_close)))
#define auto_fclose __attribute__((cleanup(cleanup_fclose)))

static inline int steal_fd(int *fd)
{
	int value = *fd;
	*fd = -1;
	return value;
}

#define steal_ptr(slot)                                                                            \
	({                                                                                         \
		__typeof__(slot) stolen_ = (slot);                                                 \
		(slot) = NULL;                                                                     \
		stolen_;                                                                           \
	})

#endif
