/*
 * What a cgroup tells of the processes in it. Each function fails with the reason why the figure is
 * not to be had.
 */
#ifndef COLLECTOR_CGROUP_FIGURES_H
#define COLLECTOR_CGROUP_FIGURES_H

#include "collector/cgroup.h"
#include "collector/run_facts.h"

struct cgroup_cpu {
	int64_t usage_usec, user_usec, system_usec;
};

struct cgroup_events {
	int64_t oom;      /* FACT_MISSING on v1, which does not count it */
	int64_t oom_kill; /* processes */
};

struct cgroup_throttling {
	int64_t nr_throttled, throttled_usec;
};

enum cgroup_backend cgroup_backend_of(const struct cgroup *leaf);
int cgroup_get_peak(const struct cgroup *leaf, int64_t *bytes, struct error *err);
/* at_ns is the time of reading. Parts that the kernel does not tell are FACT_MISSING. */
int cgroup_get_memory(const struct cgroup *leaf, struct memory_sample *sample, struct error *err);
/* workingset refaults, from memory.stat */
int cgroup_get_refaults(const struct cgroup *leaf, int64_t *count, struct error *err);
/*
 * The most that was swapped out, bytes: memory.swap.peak (Linux 6.5); before that, and in v1, what
 * is in use or, if more, what has been swapped in again: less than the most if that was in between.
 */
int cgroup_get_swap(const struct cgroup *leaf, int64_t *bytes, struct error *err);
int cgroup_get_cpu(const struct cgroup *leaf, struct cgroup_cpu *cpu, struct error *err);
int cgroup_get_events(const struct cgroup *group, struct cgroup_events *events, struct error *err);
int cgroup_get_throttling(
	const struct cgroup *container, struct cgroup_throttling *throttling, struct error *err);
/* "cpu", "memory" or "io": time in which some task waited, µs */
int cgroup_get_pressure(
	const struct cgroup *leaf, const char *what, int64_t *usec, struct error *err);

#endif
