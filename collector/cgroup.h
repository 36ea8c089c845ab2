/*
 * cgroups in three ways behind one interface: v2, v2 without memory.peak, and v1 or hybrid.
 *
 * Everything is reached by openat below the descriptor of one root folder, normally
 * /sys/fs/cgroup, so a tree of files can stand in for it. On v1 a group is a folder in each of the
 * hierarchies used (memory, cpuacct, cpu, cpuset; mounts that carry two of them count once); on v2
 * it is one folder.
 *
 * A *container* is the group that carries the limits: a real container's, or one made here in local
 * mode. Below it stands a leaf for the launcher and, for each run, a leaf of a unique name.
 */
#ifndef COLLECTOR_CGROUP_H
#define COLLECTOR_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct error;

/* The leaf for the collector itself where it must work in its own group (local.h). */
#define CGROUP_COLLECTOR_LEAF "turnmeter-collector"

/* What helps who may not write. */
#define CGROUP_RIGHTS                                                                              \
	"run as root, or in a delegated group: systemd-run --user --scope -p Delegate=yes COMMAND"

enum cgroup_part { CGROUP_MEMORY, CGROUP_CPUACCT, CGROUP_CPU, CGROUP_CPUSET, CGROUP_PARTS };

struct cgroup_fs {
	bool v2;
	int fds[CGROUP_PARTS]; /* one for each hierarchy, -1 beyond */
	int of[CGROUP_PARTS];  /* hierarchy of each controller, -1: not there */
	int count;             /* hierarchies */
};

struct cgroup {
	const struct cgroup_fs *fs;
	int fds[CGROUP_PARTS];     /* by hierarchy; -1: the group has no folder there */
	char *paths[CGROUP_PARTS]; /* by hierarchy, from its root: "/a/b", "/" */
};

#define CGROUP_EMPTY                                                                               \
	{                                                                                          \
		NULL, {-1, -1, -1, -1},                                                            \
		{                                                                                  \
			NULL                                                                       \
		}                                                                                  \
	}

/* ---- the file system */

/* Fails with the remedy when there is no usable hierarchy below `root`. */
int cgroup_fs_open(struct cgroup_fs *fs, const char *root, struct error *err);
void cgroup_fs_close(struct cgroup_fs *fs);

/* ---- groups. A group borrows its fs. cgroup_close accepts CGROUP_EMPTY and closes only. */

void cgroup_close(struct cgroup *group);

/*
 * The group that the text of /proc/PID/cgroup tells, our own leaves (launcher, run) and Podman's
 * "container" stripped.
 * *in_run_leaf, if not NULL: the process lives in a run's leaf, so it is a contender's.
 */
int cgroup_open_text(struct cgroup *group, const struct cgroup_fs *fs, const char *text,
	bool *in_run_leaf, struct error *err);
int cgroup_open_pid(struct cgroup *group, const struct cgroup_fs *fs, pid_t pid, bool *in_run_leaf,
	struct error *err);
/* The group at the same path in every hierarchy. */
int cgroup_open_path(
	struct cgroup *group, const struct cgroup_fs *fs, const char *path, struct error *err);
/* The group above; the root's is the root. */
int cgroup_open_parent(struct cgroup *parent, const struct cgroup *group, struct error *err);

/* Is `inner` the same as `outer` or below it, in memory's hierarchy? */
bool cgroup_is_within(const struct cgroup *inner, const struct cgroup *outer);

/* Make (or open, if it is there) the group parent/name in every hierarchy. */
int cgroup_make(
	struct cgroup *group, const struct cgroup *parent, const char *name, struct error *err);
/* Kill what is in it, remove it with the groups below it. Gone already is success. */
int cgroup_remove(const struct cgroup *parent, const char *name, struct error *err);

/* Move a process. A process that is gone is an error with code ESRCH. */
int cgroup_attach(const struct cgroup *group, pid_t pid, struct error *err);
/* Move all processes of a group, in the hierarchies where `to` has a folder. */
int cgroup_move_all(const struct cgroup *from, const struct cgroup *to, struct error *err);
/* Processes in the group itself; -1 on failure. */
int64_t cgroup_count(const struct cgroup *group, struct error *err);
/*
 * Kill every process of the group: by cgroup.kill, or one by one where that is not there. Where the
 * caller may not kill (a container on v1), processes stay: see the launcher's KILL.
 */
int cgroup_kill(const struct cgroup *group, struct error *err);
bool cgroup_can_kill(const struct cgroup *group); /* by cgroup.kill */
/* Wait until no process is left, at most timeout_ns. Fails with EBUSY. */
int cgroup_wait_empty(const struct cgroup *group, int64_t timeout_ns, struct error *err);

/*
 * v2: let the groups below have the controllers memory (required), cpu, cpuset, pids and io (where
 * they can be had). cgroup_enable_path does so from the root down to the group, as far as that is
 * permitted: systemd enables only what its own units ask for.
 */
int cgroup_enable(const struct cgroup *group, struct error *err);
int cgroup_enable_path(const struct cgroup *group, struct error *err);
/* The contrary of cgroup_enable, as far as nothing below needs them. */
void cgroup_disable(const struct cgroup *group);

/* ---- containers and their leaves */

/*
 * Make a group ready to be a container: its processes move into the leaf "turnmeter-launcher",
 * the controllers are handed down, leaves of runs that a killed collector left are removed.
 */
int cgroup_adopt(const struct cgroup *container, struct error *err);

/* A new leaf of a unique name for one run, with memory.oom.group where there is one. `name` gets
 * the name for cgroup_remove. */
int cgroup_make_leaf(
	struct cgroup *leaf, const struct cgroup *container, char name[64], struct error *err);

/* Remove the groups below `parent` whose name begins with prefix, if `stale` says so of the rest of
 * the name (NULL: all). Failures are left for the next start. */
void cgroup_sweep(const struct cgroup *parent, const char *prefix, bool (*stale)(const char *rest));

/* ---- for those who read and write a group's files (cgroup_limits.h, cgroup_figures.h) */

/* The group's folder for a controller; the group's own to close. -1: it has none. */
int cgroup_folder(const struct cgroup *group, enum cgroup_part part);
/* Is the controller to be had in the group? */
bool cgroup_has(const struct cgroup *group, enum cgroup_part part);
/* The folder at a path of a hierarchy; -1 with errno. */
int cgroup_open_folder(int hierarchy_fd, const char *path);

#endif
