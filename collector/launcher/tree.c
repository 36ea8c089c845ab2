#include "collector/launcher/tree.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>

struct process {
	int pid, parent;
	bool zombie;
	bool chosen;
};

struct processes {
	struct process *items;
	size_t length, capacity;
};

/* First bytes of a file of /proc, NUL-terminated. */
static int read_proc(int pid, const char *name, char *text, size_t size)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	size_t length = 0;
	while (length < size - 1) {
		ssize_t got = read(fd, text + length, size - 1 - length);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -1;
		if (!got)
			break;
		length += (size_t)got;
	}
	text[length] = '\0';
	return 0;
}

/* "PID (name) STATE PARENT …"; the name may hold anything, so the last parenthesis counts. */
static int read_process(int pid, struct process *process)
{
	char text[512];
	if (read_proc(pid, "stat", text, sizeof text))
		return -1;
	char *after = strrchr(text, ')');
	if (!after || after[1] != ' ' || !after[2] || after[3] != ' ')
		return -1;
	*process = (struct process){.pid = pid,
		.parent = (int)strtol(after + 4, NULL, 10),
		.zombie = after[2] == 'Z' || after[2] == 'X'};
	return 0;
}

static int read_processes(struct processes *all, struct error *err)
{
	DIR *dir = opendir("/proc");
	if (!dir)
		return error_set(err, errno, "cannot open '/proc'");
	struct dirent *entry;
	while ((entry = readdir(dir))) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		struct process process;
		if (read_process((int)strtol(entry->d_name, NULL, 10), &process))
			continue; /* gone in the meantime */
		if (all->length == all->capacity) {
			all->capacity = all->capacity ? 2 * all->capacity : 64;
			all->items = xrealloc(all->items, all->capacity * sizeof *all->items);
		}
		all->items[all->length++] = process;
	}
	closedir(dir);
	return 0;
}

static struct process *find(struct processes *all, int pid)
{
	for (size_t i = 0; i < all->length; i++)
		if (all->items[i].pid == pid)
			return &all->items[i];
	return NULL;
}

/* Mark the descendants of root, itself too if `with_root`; returns how many that are not zombies.
 */
static size_t choose_tree(struct processes *all, int root, bool with_root)
{
	struct process *first = find(all, root);
	if (!first)
		return 0;
	first->chosen = true;
	for (bool grown = true; grown;) {
		grown = false;
		for (size_t i = 0; i < all->length; i++) {
			struct process *process = &all->items[i];
			if (process->chosen)
				continue;
			struct process *parent = find(all, process->parent);
			if (parent && parent->chosen)
				process->chosen = grown = true;
		}
	}
	first->chosen = with_root;
	size_t alive = 0;
	for (size_t i = 0; i < all->length; i++)
		alive += all->items[i].chosen && !all->items[i].zombie;
	return alive;
}

/* The number of kB after "name:", in bytes; -1 if it is not there. */
static int64_t field_bytes(const char *text, const char *name)
{
	const char *at = strstr(text, name);
	if (!at)
		return -1;
	char *end;
	errno = 0;
	long long value = strtoll(at + strlen(name), &end, 10);
	if (errno || value < 0 || value > INT64_MAX / 1024 || end == at + strlen(name))
		return -1;
	return value * 1024;
}

static void add_bytes(int64_t *sum, int64_t bytes)
{
	*sum = *sum < 0 || bytes < 0 ? -1 : *sum + bytes;
}

int tree_probe(int root, struct launch_probe *probe, struct error *err)
{
	struct processes all = {0};
	if (read_processes(&all, err))
		return -1;
	struct launch_probe sum = {0};
	choose_tree(&all, root, true);
	for (size_t i = 0; i < all.length; i++) {
		struct process *process = &all.items[i];
		if (!process->chosen || process->zombie)
			continue;
		char text[4096];
		sum.processes++;
		add_bytes(&sum.rss_peak_bytes, read_proc(process->pid, "status", text, sizeof text)
						       ? -1
						       : field_bytes(text, "\nVmHWM:"));
		add_bytes(&sum.pss_bytes, read_proc(process->pid, "smaps_rollup", text, sizeof text)
						  ? -1
						  : field_bytes(text, "\nPss:"));
	}
	free(all.items);
	if (!sum.processes)
		return error_set(err, ESRCH, "no process to probe");
	*probe = sum;
	return 0;
}

int tree_kill(void (*reap)(void *context), void *context, struct error *err)
{
	int self = (int)getpid();
	int64_t deadline_ns = now_ns() + 10 * NS_PER_S;
	for (int64_t pause_ns = NS_PER_MS / 4;; pause_ns *= 2) {
		/* A raw call: as PID 1, kill(-1) means all of the namespace but itself. */
		if (self == 1)
			kill(-1, SIGKILL);
		struct processes all = {0};
		if (read_processes(&all, err))
			return -1;
		size_t alive = choose_tree(&all, self, false);
		for (size_t i = 0; i < all.length && self != 1; i++)
			if (all.items[i].chosen && !all.items[i].zombie)
				kill(all.items[i].pid, SIGKILL);
		free(all.items);
		reap(context);
		if (!alive)
			return 0;
		if (now_ns() > deadline_ns)
			return error_set(err, EBUSY, "%zu processes do not end", alive);
		if (pause_ns > 20 * NS_PER_MS)
			pause_ns = 20 * NS_PER_MS;
		/* The death of a grandchild shows nowhere until it is ours: look again soon. */
		nanosleep(&(struct timespec){.tv_nsec = pause_ns}, NULL);
	}
}
