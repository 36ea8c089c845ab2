#include "common/file.h"

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

int file_read(int dir_fd, const char *name, size_t max, struct buf *out, struct error *err)
{
	buf_init(out, max);
	/* O_NONBLOCK: a fifo in the file's place must not hang us. */
	auto_close int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat status;
	if (fd < 0 || fstat(fd, &status))
		return error_set(err, errno, "cannot open '%s'", name);
	if (!S_ISREG(status.st_mode))
		return error_set(err, 0, "%s: must be a regular file", name);
	for (;;) {
		char part[65536];
		ssize_t got = read(fd, part, sizeof part);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return error_set(err, errno, "cannot read '%s'", name);
		if (!got)
			return 0;
		if (buf_add(out, part, (size_t)got))
			return error_set(err, 0, "%s: must be at most %zu bytes", name, max);
	}
}

/*
 * A stream forgets why a write failed; whoever reads of a full disk must be told so. The disk's
 * last room takes a part: only the next write says why.
 */
static ssize_t write_cookie(void *cookie, const char *bytes, size_t length)
{
	struct file_writer *writer = cookie;
	size_t done = 0;
	while (done < length) {
		ssize_t put = write(writer->fd, bytes + done, length - done);
		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0) {
			if (!writer->code)
				writer->code = put ? errno : EIO;
			break;
		}
		done += (size_t)put;
	}
	return (ssize_t)done;
}

static int close_cookie(void *cookie)
{
	struct file_writer *writer = cookie;
	return close(steal_fd(&writer->fd));
}

int file_writer_open(struct file_writer *writer, int dir_fd, const char *name, struct error *err)
{
	static const cookie_io_functions_t functions = {
		.write = write_cookie, .close = close_cookie};
	*writer = (struct file_writer){.dir_fd = dir_fd, .name = name, .fd = -1};
	auto_free char *temporary = xasprintf("%s.tmp", name);
	auto_close int fd = openat(
		dir_fd, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return error_set(err, errno, "cannot create '%s'", temporary);
	writer->stream = fopencookie(writer, "w", functions);
	if (!writer->stream)
		die_oom();
	writer->fd = steal_fd(&fd);
	writer->temporary = steal_ptr(temporary);
	return 0;
}

/* The rename itself is durable only when the folder is. */
static int sync_folder(int dir_fd, const char *name)
{
	const char *slash = strrchr(name, '/');
	auto_free char *folder = xstrdup(slash ? name : ".");
	if (slash)
		folder[slash == name ? 1 : slash - name] = '\0';
	auto_close int fd = openat(dir_fd, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	/* Some file systems (of shared folders) cannot sync a folder: then there is nothing to wait
	 * for. */
	return fsync(fd) && errno != EINVAL ? -1 : 0;
}

int file_writer_commit(struct file_writer *writer, struct error *err)
{
	const char *name = writer->name;
	errno = 0;
	bool failed = fflush(writer->stream) || ferror(writer->stream);
	failed = failed || fsync(writer->fd);
	int code = writer->code ? writer->code : errno;
	if (fclose(writer->stream) && !failed) {
		failed = true;
		code = errno;
	}
	writer->stream = NULL;
	if (!failed && renameat(writer->dir_fd, writer->temporary, writer->dir_fd, name)) {
		failed = true;
		code = errno;
	}
	if (!failed && sync_folder(writer->dir_fd, name)) {
		failed = true;
		code = errno;
	}
	file_writer_abort(writer);
	return failed ? error_set(err, code ? code : EIO, "cannot write '%s'", name) : 0;
}

void file_writer_abort(struct file_writer *writer)
{
	if (writer->stream)
		fclose(writer->stream);
	writer->stream = NULL;
	if (writer->temporary)
		unlinkat(writer->dir_fd, writer->temporary, 0);
	free(writer->temporary);
	writer->temporary = NULL;
}

int file_write(int dir_fd, const char *name, const void *bytes, size_t length, struct error *err)
{
	struct file_writer writer;
	if (file_writer_open(&writer, dir_fd, name, err))
		return -1;
	fwrite(bytes, 1, length, writer.stream);
	return file_writer_commit(&writer, err);
}
