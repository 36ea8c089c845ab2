/*
 * Local mode's own processes and groups: a mock, a launcher for each contender, a working folder
 * for sockets and scratch, and a group "turnmeter-PID-START" with a container for each contender.
 * What a killed collector left of these is removed at the next start.
 */
#ifndef COLLECTOR_LOCAL_H
#define COLLECTOR_LOCAL_H

#include <stdbool.h>

#include "collector/cgroup_limits.h"

struct error;
struct local;

/*
 * Make group and folder. `parent` is the path of the group to work below; NULL: as root beside the
 * collector's own, else the collector's own, which must be delegated to it.
 */
struct local *local_new(const struct cgroup_fs *fs, const char *parent, struct error *err);
/* End all processes, remove all groups and files. Accepts NULL. */
void local_free(struct local *local);

/* TMPDIR, or /tmp. */
const char *local_temporary_folder(void);
/* PREFIX of PREFIX/bin/collector, and a path in the working folder; malloc'ed. */
char *local_prefix(struct error *err);
char *local_path(const struct local *local, const char *name);

/* Start mockllm; its control socket will be at local_path("control.sock"). */
int local_start_mock(struct local *local, const char *prefix, struct error *err);
/* Start the launcher of a contender, and make its container group with these limits. */
int local_start_launcher(struct local *local, const char *prefix, const char *name,
	const char *here, const char *socket, const struct cgroup_limits *limits,
	struct cgroup *container, struct error *err);

/* If a process of ours has ended: "mockllm ended with status 1: LAST LINE"; else -1. */
int local_fault(const struct local *local, struct error *err);
/* Has the mock ended? Nothing more can be measured then. */
bool local_mock_ended(const struct local *local);

#endif
