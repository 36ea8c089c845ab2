/* Which limits a contender runs under, and whether they are those that the plan asks for. */
#ifndef COLLECTOR_LIMITS_H
#define COLLECTOR_LIMITS_H

#include "collector/cgroup_limits.h"

struct error;
struct launcher;

/*
 * The limits of a container, memory by a leaf of it (or the container again). The CPUs are those of
 * the launcher's affinity where there is no cpuset controller.
 */
int limits_in_force(const struct cgroup *leaf, const struct cgroup *container,
	const struct launcher *launcher, struct cgroup_limits *in_force, struct error *err);

/* Is what was asked in force, in whole pages? If not, `detail` says what differs. */
bool limits_match(const struct cgroup_limits *asked, const struct cgroup_limits *found,
	bool machine_swaps, int64_t page_bytes, char *detail, size_t size);

#endif
