/* Limits of a cgroup: set, and read back as they are in force. */
#ifndef COLLECTOR_CGROUP_LIMITS_H
#define COLLECTOR_CGROUP_LIMITS_H

#include "collector/cgroup.h"
#include "collector/run_facts.h"

struct cgroup_limits {
	int64_t memory_bytes; /* FACT_MISSING: none */
	int64_t swap_bytes;   /* FACT_MISSING: none, or not known */
	double cpu_quota;     /* CPUs; 0: none */
	char cpus[256];       /* list as of cpuset(7); "": no cpuset controller */
};

/* Parts that are "none" are not written; memory also forbids swap where that can be said. */
int cgroup_set_limits(
	const struct cgroup *group, const struct cgroup_limits *limits, struct error *err);
/* What is in force, limits of groups above included. */
int cgroup_get_limits(const struct cgroup *group, struct cgroup_limits *limits, struct error *err);

#endif
