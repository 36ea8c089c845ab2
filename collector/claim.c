#include "collector/claim.h"

#include "collector/maker.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

enum { TEXT_MAX = 1024 };

/*
 * For all users, and of whoever came first. O_CREAT on a file of somebody else's is refused in a
 * folder like /tmp, so it is given only for one that is not there; a lock needs no right to write.
 */
static int open_file(const char *path)
{
	static const int how = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | how, 0666);
	if (fd >= 0)
		fchmod(fd, 0666);
	else if (errno == EEXIST && (fd = open(path, O_RDWR | how)) < 0)
		fd = open(path, O_RDONLY | how);
	return fd;
}

/* "PID-START WHAT", as its holder wrote it: who has the claim, as far as that can be told. */
static int refuse(const char *path, struct error *err)
{
	auto_buf struct buf text;
	struct error ignored;
	char *what = NULL;
	if (!file_read(AT_FDCWD, path, TEXT_MAX, &text, &ignored) && text.length) {
		text.data[strcspn(text.data, "\n")] = '\0';
		what = strchr(text.data, ' ');
	}
	if (what)
		*what++ = '\0';
	if (!what || !maker_lives(text.data))
		return error_set(err, 0,
			"another run is measuring on this machine: wait for it, or interrupt it");
	return error_set(err, 0,
		"another run is measuring on this machine (%.200s, process %.*s): wait for it, or "
		"interrupt it",
		what, (int)strcspn(text.data, "-"), text.data);
}

/* Where there is no right or no room to, the claim has no name and is one all the same. */
static void write_name(int fd, const char *plan)
{
	char name[MAKER_NAME_MAX];
	maker_name(name);
	auto_free char *text = xasprintf("%s collector run, plan '%s'\n", name, plan);
	if (ftruncate(fd, 0) || pwrite(fd, text, strlen(text), 0) < 0)
		return;
}

int claim_take(const char *folder, const char *plan, struct error *err)
{
	auto_free char *path = xasprintf("%s/turnmeter.lock", folder);
	auto_close int fd = open_file(path);
	struct stat status;
	if (fd < 0 || fstat(fd, &status))
		return error_set(err, errno,
			"cannot open the lock file '%s' (TMPDIR chooses another folder)", path);
	if (!S_ISREG(status.st_mode))
		return error_set(err, 0, "%s: must be a regular file: remove it", path);
	if (flock(fd, LOCK_EX | LOCK_NB))
		return errno == EWOULDBLOCK ? refuse(path, err)
					    : error_set(err, errno, "cannot lock '%s'", path);
	write_name(fd, plan);
	return steal_fd(&fd);
}
