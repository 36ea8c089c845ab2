/*
 * Whole files below a directory descriptor. `name` is relative to `dir_fd` (AT_FDCWD: to the
 * working directory) and stands in messages as given; the caller adds the folder with error_prefix.
 */
#ifndef COMMON_FILE_H
#define COMMON_FILE_H

#include <stddef.h>
#include <stdio.h>

struct buf;
struct error;

/*
 * Read a regular file of at most `max` bytes into *out, which is initialised here and is the
 * caller's to release, also after a failure. err->code is ENOENT when there is no such file.
 */
int file_read(int dir_fd, const char *name, size_t max, struct buf *out, struct error *err);

/*
 * A file that appears whole or not at all: written as NAME.tmp, fsynced, renamed over NAME, its
 * folder fsynced. What stood under NAME before stays until then. `dir_fd`, `name` and the place of
 * the writer itself are borrowed until commit or abort.
 */
struct file_writer {
	int dir_fd;
	const char *name;
	char *temporary;
	FILE *stream; /* write here; failed writes are reported by commit */
	int fd, code; /* errno of the first write that failed */
};

int file_writer_open(struct file_writer *writer, int dir_fd, const char *name, struct error *err);
/* On failure nothing is left under the temporary name; the writer is closed either way. */
int file_writer_commit(struct file_writer *writer, struct error *err);
/* Drop what was written. No-op after commit or a failed open. */
void file_writer_abort(struct file_writer *writer);

/* The same in one call. */
int file_write(int dir_fd, const char *name, const void *bytes, size_t length, struct error *err);

#endif
