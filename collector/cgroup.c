#include "collector/cgroup.h"

#include "collector/cgroup_file.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#define LAUNCHER_LEAF "turnmeter-launcher"
#define RUN_LEAF "turnmeter-run-"

enum { DEPTH_MAX = 16 };

static const char *const part_names[CGROUP_PARTS] = {"memory", "cpuacct", "cpu", "cpuset"};

/* ---- the file system */

/* v1: the folder of a controller, as its own mount or one of several controllers. */
static int add_hierarchy(struct cgroup_fs *fs, int root_fd, enum cgroup_part part)
{
	int fd = openat(root_fd, part_names[part], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 && (part == CGROUP_CPU || part == CGROUP_CPUACCT))
		fd = openat(root_fd, "cpu,cpuacct", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	struct stat status, other;
	if (fstat(fd, &status)) {
		close(fd);
		return -1;
	}
	for (int i = 0; i < fs->count; i++) {
		if (fstat(fs->fds[i], &other) || other.st_dev != status.st_dev ||
			other.st_ino != status.st_ino)
			continue;
		close(fd);
		return i;
	}
	fs->fds[fs->count] = fd;
	return fs->count++;
}

int cgroup_fs_open(struct cgroup_fs *fs, const char *root, struct error *err)
{
	auto_close int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_set(
			err, errno, "cannot open '%s', where cgroups should be mounted", root);
	struct cgroup_fs found = {.fds = {-1, -1, -1, -1}, .of = {-1, -1, -1, -1}};
	if (cg_exists(fd, "cgroup.controllers") || cg_exists(fd, "cgroup.procs")) {
		found.v2 = true;
		found.fds[0] = steal_fd(&fd);
		found.count = 1;
		for (int part = 0; part < CGROUP_PARTS; part++)
			found.of[part] = 0;
		*fs = found;
		return 0;
	}
	for (int part = 0; part < CGROUP_PARTS; part++)
		found.of[part] = add_hierarchy(&found, fd, (enum cgroup_part)part);
	for (int part = 0; part <= CGROUP_CPUACCT; part++) {
		if (found.of[part] >= 0)
			continue;
		cgroup_fs_close(&found);
		return error_set(err, 0,
			"'%s' has neither cgroup v2 nor the v1 controller '%s': mount cgroup2 "
			"there (mount -t cgroup2 none %s)",
			root, part_names[part], root);
	}
	*fs = found;
	return 0;
}

void cgroup_fs_close(struct cgroup_fs *fs)
{
	for (int i = 0; i < CGROUP_PARTS; i++) {
		if (fs->fds[i] >= 0)
			close(fs->fds[i]);
		fs->fds[i] = -1;
	}
	fs->count = 0;
}

/* ---- groups */

/* The group's folder for a controller, -1 if it has none. */
int cgroup_folder(const struct cgroup *group, enum cgroup_part part)
{
	int hierarchy = group->fs->of[part];
	return hierarchy < 0 ? -1 : group->fds[hierarchy];
}

/* The first folder: on v1 a leaf of ours is in memory's hierarchy at least. */
static int any_folder(const struct cgroup *group)
{
	return cgroup_folder(group, CGROUP_MEMORY);
}

bool cgroup_has(const struct cgroup *group, enum cgroup_part part)
{
	int fd = cgroup_folder(group, part);
	if (fd < 0 || !group->fs->v2)
		return fd >= 0;
	char text[1024];
	struct error ignored;
	return !cg_read(fd, "cgroup.controllers", text, sizeof text, &ignored) &&
	       cg_has_word(text, part == CGROUP_CPUACCT ? "cpu" : part_names[part]);
}

void cgroup_close(struct cgroup *group)
{
	for (int i = 0; i < CGROUP_PARTS; i++) {
		if (group->fds[i] >= 0)
			close(group->fds[i]);
		free(group->paths[i]);
		group->fds[i] = -1;
		group->paths[i] = NULL;
	}
}

static void group_init(struct cgroup *group, const struct cgroup_fs *fs)
{
	*group = (struct cgroup)CGROUP_EMPTY;
	group->fs = fs;
}

int cgroup_open_folder(int fs_fd, const char *path)
{
	while (*path == '/')
		path++;
	return openat(fs_fd, *path ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int open_hierarchy(struct cgroup *group, int hierarchy, const char *path, struct error *err)
{
	int fd = cgroup_open_folder(group->fs->fds[hierarchy], path);
	if (fd < 0)
		return error_set(err, errno, "cannot open cgroup '%s'", path);
	group->fds[hierarchy] = fd;
	group->paths[hierarchy] = xstrdup(path);
	return 0;
}

int cgroup_open_path(
	struct cgroup *group, const struct cgroup_fs *fs, const char *path, struct error *err)
{
	struct cgroup found;
	group_init(&found, fs);
	for (int i = 0; i < fs->count; i++) {
		if (open_hierarchy(&found, i, path, err)) {
			cgroup_close(&found);
			return -1;
		}
	}
	*group = found;
	return 0;
}

static bool is_run_leaf(const char *name)
{
	return !strncmp(name, RUN_LEAF, strlen(RUN_LEAF));
}

/*
 * Podman's containers are two groups: "libpod-ID.scope" (or "libpod-ID") with the limits, and the
 * processes in a group "container" below it, which counts neither throttling nor running out of
 * memory. The upper one is the container, the lower one as good as a leaf of ours.
 */
static void strip_podman_leaf(char *path)
{
	char *slash = strrchr(path, '/');
	if (!slash || strcmp(slash, "/container"))
		return;
	*slash = '\0';
	char *above = strrchr(path, '/');
	if (!above || strncmp(above, "/libpod-", strlen("/libpod-")))
		*slash = '/';
}

/* Cut our own leaf off the path. */
static void strip_leaf(char *path, bool *in_run_leaf)
{
	strip_podman_leaf(path);
	char *slash = strrchr(path, '/');
	if (!slash)
		return;
	bool run = is_run_leaf(slash + 1);
	if (!run && strcmp(slash + 1, LAUNCHER_LEAF) && strcmp(slash + 1, CGROUP_COLLECTOR_LEAF))
		return;
	*in_run_leaf |= run;
	slash[slash == path] = '\0';
}

/* "ID:CONTROLLERS:PATH": is it the line of this hierarchy? */
static bool is_line_of(const struct cgroup_fs *fs, int hierarchy, char *controllers)
{
	if (fs->v2)
		return !*controllers;
	char *rest = NULL;
	for (char *name = strtok_r(controllers, ",", &rest); name;
		name = strtok_r(NULL, ",", &rest))
		for (int part = 0; part < CGROUP_PARTS; part++)
			if (fs->of[part] == hierarchy && !strcmp(name, part_names[part]))
				return true;
	return false;
}

int cgroup_open_text(struct cgroup *group, const struct cgroup_fs *fs, const char *text,
	bool *in_run_leaf, struct error *err)
{
	struct cgroup found;
	group_init(&found, fs);
	bool run = false;
	for (int i = 0; i < fs->count; i++) {
		auto_free char *copy = xstrdup(text);
		char *rest = NULL;
		for (char *line = strtok_r(copy, "\n", &rest); line && !found.paths[i];
			line = strtok_r(NULL, "\n", &rest)) {
			char *controllers = strchr(line, ':');
			char *path = controllers ? strchr(controllers + 1, ':') : NULL;
			if (!path)
				continue;
			*path++ = '\0';
			if (*path != '/' || !is_line_of(fs, i, controllers + 1))
				continue;
			strip_leaf(path, &run);
			if (!strncmp(path, "/..", 3)) {
				error_set(err, 0,
					"cgroup '%s' is outside of this namespace: the collector's "
					"container needs 'cgroup: host'",
					path);
				cgroup_close(&found);
				return -1;
			}
			if (open_hierarchy(&found, i, path, err)) {
				cgroup_close(&found);
				return -1;
			}
		}
		if (!found.paths[i]) {
			cgroup_close(&found);
			return error_set(err, 0, "the process is in no cgroup of the hierarchy");
		}
	}
	*group = found;
	if (in_run_leaf)
		*in_run_leaf = run;
	return 0;
}

int cgroup_open_pid(struct cgroup *group, const struct cgroup_fs *fs, pid_t pid, bool *in_run_leaf,
	struct error *err)
{
	char path[64], text[CG_TEXT_MAX];
	snprintf(path, sizeof path, "/proc/%d/cgroup", (int)pid);
	if (cg_read(AT_FDCWD, path, text, sizeof text, err))
		return -1;
	return cgroup_open_text(group, fs, text, in_run_leaf, err);
}

int cgroup_open_parent(struct cgroup *parent, const struct cgroup *group, struct error *err)
{
	struct cgroup found;
	group_init(&found, group->fs);
	for (int i = 0; i < group->fs->count; i++) {
		auto_free char *path = xstrdup(group->paths[i]);
		char *slash = strrchr(path, '/');
		if (slash)
			slash[slash == path] = '\0';
		if (open_hierarchy(&found, i, path, err)) {
			cgroup_close(&found);
			return -1;
		}
	}
	*parent = found;
	return 0;
}

bool cgroup_is_within(const struct cgroup *inner, const struct cgroup *outer)
{
	int hierarchy = inner->fs->of[CGROUP_MEMORY];
	const char *path = inner->paths[hierarchy], *prefix = outer->paths[hierarchy];
	size_t length = strlen(prefix);
	if (!strcmp(prefix, "/"))
		return true;
	return !strncmp(path, prefix, length) && (!path[length] || path[length] == '/');
}

static char *join(const char *path, const char *name)
{
	return xasprintf("%s%s%s", path, path[strlen(path) - 1] == '/' ? "" : "/", name);
}

/* v1: a new cpuset is empty, and takes no process before it is filled. */
static int fill_cpuset(int parent_fd, int fd, struct error *err)
{
	static const char *const names[] = {"cpuset.cpus", "cpuset.mems"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		char text[1024];
		if (cg_read(fd, names[i], text, sizeof text, err))
			return -1;
		if (*text)
			continue;
		if (cg_read(parent_fd, names[i], text, sizeof text, err) ||
			cg_write(fd, names[i], text, err))
			return -1;
	}
	return 0;
}

static int make_in(struct cgroup *group, const struct cgroup *parent, int hierarchy,
	const char *name, struct error *err)
{
	const struct cgroup_fs *fs = parent->fs;
	int parent_fd = parent->fds[hierarchy];
	if (mkdirat(parent_fd, name, 0755) && errno != EEXIST) {
		int code = errno;
		bool refused = code == EACCES || code == EPERM || code == EROFS;
		return error_set(err, code, "cannot make cgroup '%s' below '%s'%s", name,
			parent->paths[hierarchy], refused ? " (" CGROUP_RIGHTS ")" : "");
	}
	auto_free char *path = join(parent->paths[hierarchy], name);
	if (open_hierarchy(group, hierarchy, path, err))
		return -1;
	if (!fs->v2 && fs->of[CGROUP_CPUSET] == hierarchy)
		return fill_cpuset(parent_fd, group->fds[hierarchy], err);
	if (!fs->v2 && fs->of[CGROUP_MEMORY] == hierarchy) {
		/* Fails where it is on already, or always is. */
		struct error ignored;
		cg_write(group->fds[hierarchy], "memory.use_hierarchy", "1", &ignored);
	}
	return 0;
}

static int make_group(struct cgroup *group, const struct cgroup *parent, const char *name,
	bool leaf, struct error *err)
{
	const struct cgroup_fs *fs = parent->fs;
	struct cgroup made;
	group_init(&made, fs);
	for (int i = 0; i < fs->count; i++) {
		/* A v1 leaf is needed where things are counted; its limits are the container's. */
		bool counts = fs->of[CGROUP_MEMORY] == i || fs->of[CGROUP_CPUACCT] == i;
		if (leaf && !counts)
			continue;
		if (make_in(&made, parent, i, name, err)) {
			cgroup_close(&made);
			/* Takes away what is empty; a group with processes was there before. */
			for (int j = 0; j <= i; j++)
				unlinkat(parent->fds[j], name, AT_REMOVEDIR);
			return -1;
		}
	}
	*group = made;
	return 0;
}

int cgroup_make(
	struct cgroup *group, const struct cgroup *parent, const char *name, struct error *err)
{
	return make_group(group, parent, name, false, err);
}

int cgroup_attach(const struct cgroup *group, pid_t pid, struct error *err)
{
	for (int i = 0; i < group->fs->count; i++) {
		if (group->fds[i] >= 0 && cg_write_number(group->fds[i], "cgroup.procs", pid, err))
			return error_prefix(
				err, "cannot move a process to cgroup '%s'", group->paths[i]);
	}
	return 0;
}

/*
 * The pids of cgroup.procs, 0-ended, to be freed. A group that is gone (ENOENT, ENODEV) has none.
 * Kernels may list a pid twice or 0 for one outside of the namespace: the caller bears it.
 */
static pid_t *read_pids(int dir_fd, size_t *count, struct error *err)
{
	size_t capacity = 64, length = 0;
	pid_t *pids = xmalloc(capacity * sizeof *pids);
	int fd = openat(dir_fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	auto_fclose FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
	if (!file && errno != ENOENT && errno != ENODEV) {
		error_set(err, errno, "cannot open 'cgroup.procs'");
		if (fd >= 0)
			close(fd);
		free(pids);
		return NULL;
	}
	char line[64];
	while (file && fgets(line, sizeof line, file)) {
		if (length + 1 == capacity) {
			capacity *= 2;
			pids = xrealloc(pids, capacity * sizeof *pids);
		}
		pids[length++] = (pid_t)strtol(line, NULL, 10);
	}
	if (file && ferror(file) && errno != ENODEV) {
		error_set(err, errno, "cannot read 'cgroup.procs'");
		free(pids);
		return NULL;
	}
	pids[length] = 0;
	*count = length;
	return pids;
}

int cgroup_move_all(const struct cgroup *from, const struct cgroup *to, struct error *err)
{
	for (int i = 0; i < from->fs->count; i++) {
		if (to->fds[i] < 0)
			continue;
		size_t count;
		pid_t *pids = read_pids(from->fds[i], &count, err);
		if (!pids)
			return -1;
		for (size_t j = 0; j < count; j++) {
			struct error why;
			if (!cg_write_number(to->fds[i], "cgroup.procs", pids[j], &why) ||
				why.code == ESRCH)
				continue;
			free(pids);
			*err = why;
			return error_prefix(
				err, "cannot move a process to cgroup '%s'", to->paths[i]);
		}
		free(pids);
	}
	return 0;
}

int64_t cgroup_count(const struct cgroup *group, struct error *err)
{
	size_t count;
	pid_t *pids = read_pids(any_folder(group), &count, err);
	if (!pids)
		return -1;
	free(pids);
	return (int64_t)count;
}

static int kill_in(int dir_fd, struct error *err)
{
	if (cg_exists(dir_fd, "cgroup.kill"))
		return cg_write(dir_fd, "cgroup.kill", "1", err);
	size_t count;
	pid_t *pids = read_pids(dir_fd, &count, err);
	if (!pids)
		return -1;
	for (size_t i = 0; i < count; i++)
		if (pids[i] > 1)
			kill(pids[i], SIGKILL);
	free(pids);
	return 0;
}

bool cgroup_can_kill(const struct cgroup *group)
{
	return cg_exists(any_folder(group), "cgroup.kill");
}

int cgroup_kill(const struct cgroup *group, struct error *err)
{
	return kill_in(any_folder(group), err);
}

/* No event tells of this on v1, so look again at growing intervals. */
static int wait_empty_in(int dir_fd, int64_t timeout_ns, struct error *err)
{
	int64_t deadline_ns = now_ns() + timeout_ns;
	for (int64_t pause_ns = NS_PER_MS / 8;; pause_ns *= 2) {
		size_t count;
		pid_t *pids = read_pids(dir_fd, &count, err);
		if (!pids)
			return -1;
		free(pids);
		if (!count)
			return 0;
		if (now_ns() > deadline_ns)
			return error_set(
				err, EBUSY, "%zu processes of the group do not end", count);
		if (pause_ns > 10 * NS_PER_MS)
			pause_ns = 10 * NS_PER_MS;
		nanosleep(&(struct timespec){.tv_nsec = pause_ns}, NULL);
	}
}

int cgroup_wait_empty(const struct cgroup *group, int64_t timeout_ns, struct error *err)
{
	return wait_empty_in(any_folder(group), timeout_ns, err);
}

static bool is_folder(int dir_fd, const struct dirent *entry)
{
	struct stat status;
	return entry->d_name[0] != '.' &&
	       !fstatat(dir_fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) &&
	       S_ISDIR(status.st_mode);
}

/* The groups below dir_fd whose name begins with prefix: NULL-ended, free each and all. */
static char **list_groups(int dir_fd, const char *prefix)
{
	size_t capacity = 16, length = 0;
	char **names = xcalloc(capacity, sizeof *names);
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		if (fd >= 0)
			close(fd);
		return names;
	}
	struct dirent *entry;
	while ((entry = readdir(dir))) {
		if (strncmp(entry->d_name, prefix, strlen(prefix)) || !is_folder(dir_fd, entry))
			continue;
		if (length + 1 == capacity) {
			capacity *= 2;
			names = xrealloc(names, capacity * sizeof *names);
		}
		names[length++] = xstrdup(entry->d_name);
		names[length] = NULL;
	}
	closedir(dir);
	return names;
}

static void free_names(char **names)
{
	for (char **name = names; *name; name++)
		free(*name);
	free(names);
}

static int remove_in(int parent_fd, const char *name, int depth, struct error *err)
{
	auto_close int fd =
		openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : error_set(err, errno, "cannot open cgroup '%s'", name);
	if (depth > DEPTH_MAX)
		return error_set(err, ELOOP, "cannot remove cgroup '%s'", name);
	struct error
		ignored; /* who may not kill finds it empty by another's hand, or fails below */
	kill_in(fd, &ignored);
	char **names = list_groups(fd, "");
	for (char **child = names; *child; child++)
		remove_in(fd, *child, depth + 1, &ignored);
	free_names(names);
	if (wait_empty_in(fd, 5 * NS_PER_S, err))
		return error_prefix(err, "cannot remove cgroup '%s'", name);
	int64_t deadline_ns = now_ns() + 5 * NS_PER_S;
	/* A process that is dead for its parent may still hold its group for a moment. */
	while (unlinkat(parent_fd, name, AT_REMOVEDIR) && errno != ENOENT) {
		if (errno != EBUSY || now_ns() > deadline_ns)
			return error_set(err, errno, "cannot remove cgroup '%s'", name);
		nanosleep(&(struct timespec){.tv_nsec = NS_PER_MS}, NULL);
	}
	return 0;
}

int cgroup_remove(const struct cgroup *parent, const char *name, struct error *err)
{
	int result = 0;
	for (int i = 0; i < parent->fs->count; i++)
		if (parent->fds[i] >= 0 && remove_in(parent->fds[i], name, 0, err))
			result = -1;
	return result;
}

void cgroup_sweep(const struct cgroup *parent, const char *prefix, bool (*stale)(const char *rest))
{
	for (int i = 0; i < parent->fs->count; i++) {
		char **names = list_groups(parent->fds[i], prefix);
		struct error ignored; /* as the header says */
		for (char **name = names; *name; name++)
			if (!stale || stale(*name + strlen(prefix)))
				remove_in(parent->fds[i], *name, 0, &ignored);
		free_names(names);
	}
}

/* Hand down ('+') or take back ('-') what can be; what could not is found missing below. */
static void change_controllers(int fd, char sign)
{
	static const char *const names[] = {"memory", "cpu", "cpuset", "pids", "io"};
	struct error ignored;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		char text[16];
		snprintf(text, sizeof text, "%c%s", sign, names[i]);
		cg_write(fd, "cgroup.subtree_control", text, &ignored);
	}
}

void cgroup_disable(const struct cgroup *group)
{
	if (group->fs->v2)
		change_controllers(any_folder(group), '-');
}

int cgroup_enable(const struct cgroup *group, struct error *err)
{
	if (!group->fs->v2)
		return 0;
	int fd = any_folder(group);
	char text[1024];
	struct error why;
	if (cg_read(fd, "cgroup.controllers", text, sizeof text, err))
		return -1;
	if (!cg_has_word(text, "memory"))
		return error_set(err, 0,
			"cgroup '%s' has no controller 'memory': enable it in the groups above "
			"(cgroup.subtree_control), or at boot (cgroup_enable=memory)",
			group->paths[0]);
	change_controllers(fd, '+');
	if (!cg_write(fd, "cgroup.subtree_control", "+memory", &why))
		return 0;
	return error_set(err, why.code, "cannot hand controller 'memory' down in cgroup '%s' (%s)",
		group->paths[0], CGROUP_RIGHTS);
}

int cgroup_enable_path(const struct cgroup *group, struct error *err)
{
	if (!group->fs->v2)
		return 0;
	change_controllers(group->fs->fds[0], '+');
	auto_free char *path = xstrdup(group->paths[0]);
	/* each prefix in its turn: "/a", "/a/b", … */
	for (char *at = path + 1; (at = strchr(at, '/')); at++) {
		*at = '\0';
		auto_close int fd = cgroup_open_folder(group->fs->fds[0], path);
		if (fd >= 0)
			change_controllers(fd, '+');
		*at = '/';
	}
	return cgroup_enable(group, err);
}

/* ---- containers and their leaves */

int cgroup_adopt(const struct cgroup *container, struct error *err)
{
	cgroup_sweep(container, RUN_LEAF, NULL);
	struct cgroup leaf;
	if (make_group(&leaf, container, LAUNCHER_LEAF, true, err))
		return -1;
	int result = cgroup_move_all(container, &leaf, err);
	cgroup_close(&leaf);
	return result ? -1 : cgroup_enable(container, err);
}

int cgroup_make_leaf(
	struct cgroup *leaf, const struct cgroup *container, char name[64], struct error *err)
{
	/* The time since boot in ns: no two collectors make a leaf at the same one. */
	char unique[64];
	snprintf(unique, sizeof unique, RUN_LEAF "%" PRId64, now_ns());
	if (make_group(leaf, container, unique, true, err))
		return -1;
	memcpy(name, unique, sizeof unique);
	struct error ignored; /* from Linux 4.19 on, and never on v1 */
	cg_write(any_folder(leaf), "memory.oom.group", "1", &ignored);
	return 0;
}
