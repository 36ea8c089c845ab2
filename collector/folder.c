#include "collector/folder.h"

#include "collector/record.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define LOG "runs.jsonl"

static int open_folder(const char *path)
{
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Root in a container writes into a folder of the user who started it. */
static void choose_owner(struct folder *folder, const char *parent)
{
	struct stat status;
	folder->give = geteuid() == 0 && !stat(parent, &status) && status.st_uid != 0;
	if (folder->give) {
		folder->uid = status.st_uid;
		folder->gid = status.st_gid;
	}
}

void folder_give(const struct folder *folder, const char *name)
{
	if (folder->give &&
		fchownat(folder->fd, name, folder->uid, folder->gid, AT_SYMLINK_NOFOLLOW))
		return;
}

/* `create`: O_CREAT for a folder of our own; whatever else has a plan.json is left as it is. */
static int open_log(struct folder *folder, int create, struct error *err)
{
	folder->log_fd =
		openat(folder->fd, LOG, O_RDWR | create | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (folder->log_fd < 0)
		return error_set(err, errno, "%s: cannot open '" LOG "'", folder->path);
	struct stat status;
	if (fstat(folder->log_fd, &status) || !S_ISREG(status.st_mode))
		return error_set(err, 0, "%s: '" LOG "' must be a regular file", folder->path);
	folder_give(folder, LOG);
	if (flock(folder->log_fd, LOCK_EX | LOCK_NB)) {
		error_set(err, 0, "%s: another collector is writing these results", folder->path);
		err->code = EBUSY;
		return -1;
	}
	return 0;
}

static char *time_name(const char *parent, const char *name, int serial)
{
	char when[CLOCK_LABEL_MAX], suffix[16] = "";
	clock_label("%Y%m%dT%H%M%SZ", when);
	if (serial > 1)
		snprintf(suffix, sizeof suffix, "-%d", serial);
	return xasprintf("%s/%s-%s%s", parent, name, when, suffix);
}

/* The folder's path, the folder made; NULL on failure. malloc'ed. */
static char *make(const char *out, const char *name, struct error *err)
{
	const char *parent = out ? out : "results";
	int problem = mkdir(parent, 0755) ? errno : 0;
	if (!problem && out)
		return xstrdup(out);
	struct stat status;
	if (stat(parent, &status)) {
		error_set(err, problem == EEXIST ? errno : problem,
			"cannot make the results folder '%s' (--out chooses another)", parent);
		return NULL;
	}
	/* Two plans may begin within a second. */
	for (int serial = 1; serial < 100; serial++) {
		char *path = time_name(parent, name, serial);
		if (!mkdir(path, 0755))
			return path;
		int code = errno;
		error_set(err, code, "cannot make the results folder '%s' (--out chooses another)",
			path);
		free(path);
		if (code != EEXIST)
			return NULL;
	}
	return NULL;
}

static char *parent_of(const char *path)
{
	return xasprintf("%s/..", path);
}

int folder_make(struct folder *folder, const char *out, const char *name, struct error *err)
{
	struct folder made = FOLDER_EMPTY;
	made.path = make(out, name, err);
	if (!made.path)
		return -1;
	made.made = true;
	made.fd = open_folder(made.path);
	if (made.fd < 0) {
		error_set(err, errno, "cannot open '%s'", made.path);
		folder_close(&made);
		return -1;
	}
	auto_free char *parent = parent_of(made.path);
	choose_owner(&made, parent);
	folder_give(&made, ".");
	if (open_log(&made, O_CREAT, err)) {
		folder_close(&made);
		return -1;
	}
	*folder = made;
	return 0;
}

/* Cut off what a killed collector left without an LF at the end. */
static int cut_torn_line(struct folder *folder, struct error *err)
{
	struct stat status;
	if (fstat(folder->log_fd, &status))
		return error_set(err, errno, "%s: cannot read '" LOG "'", folder->path);
	off_t size = status.st_size, good = size;
	char bytes[4096];
	while (good > 0) {
		off_t from = good > (off_t)sizeof bytes ? good - (off_t)sizeof bytes : 0;
		ssize_t got = pread(folder->log_fd, bytes, (size_t)(good - from), from);
		if (got != good - from)
			return error_set(err, errno, "%s: cannot read '" LOG "'", folder->path);
		const char *lf = memrchr(bytes, '\n', (size_t)got);
		if (lf) {
			good = from + (lf - bytes) + 1;
			break;
		}
		good = from;
	}
	if (good != size && ftruncate(folder->log_fd, good))
		return error_set(err, errno, "%s: cannot cut the torn last line off '" LOG "'",
			folder->path);
	return 0;
}

int folder_open(struct folder *folder, const char *path, struct error *err)
{
	struct folder found = FOLDER_EMPTY;
	found.path = xstrdup(path);
	found.fd = open_folder(path);
	if (found.fd < 0)
		error_set(err, errno, "cannot open the results folder '%s'", path);
	else if (faccessat(found.fd, "plan.json", F_OK, 0))
		error_set(err, errno, "%s: no results to go on with: 'plan.json'", path);
	else {
		choose_owner(&found, path);
		if (!open_log(&found, 0, err) && !cut_torn_line(&found, err)) {
			*folder = found;
			return 0;
		}
	}
	folder_close(&found);
	return -1;
}

void folder_close(struct folder *folder)
{
	struct stat status;
	bool empty = folder->made &&
		     (folder->log_fd < 0 || (!fstat(folder->log_fd, &status) && !status.st_size));
	if (empty && folder->fd >= 0) {
		static const char *const names[] = {LOG, "plan.json", "environment.json"};
		for (size_t i = 0; i < sizeof names / sizeof *names; i++)
			unlinkat(folder->fd, names[i], 0);
	}
	if (empty)
		rmdir(folder->path);
	if (folder->log_fd >= 0)
		close(folder->log_fd);
	if (folder->fd >= 0)
		close(folder->fd);
	free(folder->path);
	*folder = (struct folder)FOLDER_EMPTY;
}

int folder_write_json(
	struct folder *folder, const char *name, const json_t *value, struct error *err)
{
	auto_free char *text = json_dumps(value, JSON_INDENT(1));
	if (!text)
		die_oom();
	if (file_write(folder->fd, name, text, strlen(text), err))
		return error_prefix(err, "%s", folder->path);
	folder_give(folder, name);
	return 0;
}

int folder_append_run(struct folder *folder, const json_t *record, struct error *err)
{
	auto_free char *text = json_dumps(record, RECORD_DUMP_FLAGS);
	if (!text)
		die_oom();
	auto_free char *line = xasprintf("%s\n", text);
	size_t length = strlen(line);
	struct stat before;
	if (fstat(folder->log_fd, &before))
		return error_set(err, errno, "%s: cannot write '" LOG "'", folder->path);
	/* The last room takes a part: only the next write says why there is no more. */
	errno = 0;
	ssize_t put = write(folder->log_fd, line, length);
	ssize_t rest = put < 0 || put == (ssize_t)length
			       ? 0
			       : write(folder->log_fd, line + put, length - (size_t)put);
	if (put + rest == (ssize_t)length && !fsync(folder->log_fd))
		return 0;
	int code = errno ? errno : ENOSPC;
	if (ftruncate(folder->log_fd, before.st_size))
		code = errno;
	return error_set(err, code, "%s: cannot write '" LOG "'", folder->path);
}
