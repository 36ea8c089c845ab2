#include "collector/maker.h"

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

/* Start time of a process in ticks since boot; -1 if there is none. */
static int64_t start_time(pid_t pid)
{
	auto_free char *path = xasprintf("/proc/%d/stat", (int)pid);
	auto_buf struct buf text;
	struct error ignored;
	if (file_read(AT_FDCWD, path, 4096, &text, &ignored) || !text.data)
		return -1;
	char *at = strrchr(text.data, ')');
	/* field 22, and the name that may hold spaces is field 2 */
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoll(at + 1, NULL, 10) : -1;
}

void maker_name(char name[MAKER_NAME_MAX])
{
	snprintf(name, MAKER_NAME_MAX, "%d-%" PRId64, (int)getpid(), start_time(getpid()));
}

static bool read_name(const char *name, pid_t *pid, int64_t *start)
{
	char *end;
	long number = strtol(name, &end, 10);
	if (number <= 0 || number > INT32_MAX || *end != '-')
		return false;
	*pid = (pid_t)number;
	*start = strtoll(end + 1, &end, 10);
	return !*end && *start > 0;
}

bool maker_is_gone(const char *name)
{
	pid_t pid;
	int64_t start;
	return read_name(name, &pid, &start) && start_time(pid) != start;
}

bool maker_lives(const char *name)
{
	pid_t pid;
	int64_t start;
	return read_name(name, &pid, &start) && start_time(pid) == start;
}
