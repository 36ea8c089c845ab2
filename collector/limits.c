#include "collector/limits.h"

#include "collector/launch.h"
#include "collector/machine.h"
#include "common/error.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

int limits_in_force(const struct cgroup *leaf, const struct cgroup *container,
	const struct launcher *launcher, struct cgroup_limits *in_force, struct error *err)
{
	struct cgroup_limits of_leaf, all;
	if (cgroup_get_limits(container, &all, err) || cgroup_get_limits(leaf, &of_leaf, err))
		return -1;
	all.memory_bytes = of_leaf.memory_bytes;
	all.swap_bytes = of_leaf.swap_bytes;
	if (!*all.cpus) {
		cpu_set_t cpus;
		if (sched_getaffinity(launcher_pid(launcher), sizeof cpus, &cpus))
			return error_set(err, errno, "cannot read the CPUs of the launcher of '%s'",
				launcher_name(launcher));
		cpus_format(&cpus, all.cpus, sizeof all.cpus);
	}
	*in_force = all;
	return 0;
}

bool limits_match(const struct cgroup_limits *asked, const struct cgroup_limits *found,
	bool machine_swaps, int64_t page_bytes, char *detail, size_t size)
{
	*detail = '\0';
	/* The kernel keeps whole pages. */
	if (asked->memory_bytes != FACT_MISSING &&
		(found->memory_bytes == FACT_MISSING ||
			found->memory_bytes / page_bytes != asked->memory_bytes / page_bytes))
		snprintf(detail, size, "memory: asked %" PRId64 " bytes, in force %" PRId64,
			asked->memory_bytes,
			found->memory_bytes == FACT_MISSING ? -1 : found->memory_bytes);
	else if (asked->memory_bytes != FACT_MISSING && machine_swaps && found->swap_bytes != 0)
		snprintf(detail, size, "swap: asked none, in force %s",
			found->swap_bytes == FACT_MISSING ? "no limit" : "some");
	else if (fabs(asked->cpu_quota - found->cpu_quota) > 0.005)
		snprintf(detail, size, "CPU quota: asked %g CPUs, in force %g (0: none)",
			asked->cpu_quota, found->cpu_quota);
	else if (*asked->cpus && strcmp(asked->cpus, found->cpus))
		snprintf(detail, size, "CPUs: asked %.60s, in force %.60s", asked->cpus,
			found->cpus);
	return !*detail;
}
