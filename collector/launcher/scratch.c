#include "collector/launcher/scratch.h"

#include "collector/launch_proto.h"
#include "common/cleanup.h"
#include "common/error.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Each pass flattens the tree by one level, so deep trees need neither recursion nor descriptors.
 */
enum { PASSES_MAX = 100000 };

static bool is_dot(const char *name)
{
	return !strcmp(name, ".") || !strcmp(name, "..");
}

/* A contender may have taken its own rights away; without them a folder can neither be emptied nor
 * moved. Whether it helped shows in what comes next. */
static void open_up(int dir_fd, const char *name)
{
	if (fchmodat(dir_fd, name, 0700, 0))
		return;
}

static DIR *open_folder(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir && fd >= 0)
		close(fd);
	return dir;
}

/* Remove the files of top/name, move its folders up to top under new names, remove it. */
static int flatten(int top_fd, const char *name, uint64_t *serial)
{
	open_up(top_fd, name);
	DIR *dir = open_folder(top_fd, name);
	if (!dir)
		return -1;
	struct dirent *entry;
	while ((entry = readdir(dir))) {
		if (is_dot(entry->d_name) || !unlinkat(dirfd(dir), entry->d_name, 0))
			continue;
		open_up(dirfd(dir), entry->d_name);
		char moved[32];
		do
			snprintf(moved, sizeof moved, ".clean-%llu",
				(unsigned long long)(*serial)++);
		while (!faccessat(top_fd, moved, F_OK, AT_SYMLINK_NOFOLLOW));
		if (renameat(dirfd(dir), entry->d_name, top_fd, moved)) {
			int code = errno;
			closedir(dir);
			errno = code;
			return -1;
		}
	}
	closedir(dir);
	return unlinkat(top_fd, name, AT_REMOVEDIR);
}

int scratch_clean(int dir_fd, struct error *err)
{
	uint64_t serial = 0;
	bool found = true;
	for (int pass = 0; found && pass < PASSES_MAX; pass++) {
		DIR *dir = open_folder(dir_fd, ".");
		if (!dir)
			return error_set(err, errno, "cannot open the scratch folder");
		found = false;
		struct dirent *entry;
		while ((entry = readdir(dir))) {
			if (is_dot(entry->d_name))
				continue;
			found = true;
			if (unlinkat(dir_fd, entry->d_name, 0) &&
				flatten(dir_fd, entry->d_name, &serial) && errno != ENOENT &&
				errno != ENOTEMPTY) {
				error_set(err, errno, "cannot remove '%s' from the scratch folder",
					entry->d_name);
				closedir(dir);
				return -1;
			}
		}
		closedir(dir);
	}
	return found ? error_set(err, 0, "the scratch folder does not get empty") : 0;
}

int scratch_write(int dir_fd, const char *name, int64_t offset, const void *bytes, size_t length,
	struct error *err)
{
	if (!*name || strchr(name, '/') || is_dot(name))
		return error_set(err, EINVAL, "cannot write a file of this name");
	if (offset < 0 || offset > LAUNCH_SCRATCH_FILE_MAX)
		return error_set(err, EFBIG, "cannot write '%s' at this offset", name);
	int flags = O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | (offset ? 0 : O_TRUNC);
	auto_close int fd = openat(dir_fd, name, flags, 0644);
	if (fd < 0)
		return error_set(err, errno, "cannot open '%s' in the scratch folder", name);
	for (size_t done = 0; done < length;) {
		ssize_t put = pwrite(
			fd, (const char *)bytes + done, length - done, (off_t)offset + (off_t)done);
		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return error_set(
				err, errno, "cannot write '%s' in the scratch folder", name);
		done += (size_t)put;
	}
	return 0;
}
