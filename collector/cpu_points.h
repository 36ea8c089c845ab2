/*
 * CPU use of a leaf over time, dense at the start, so that the use at an instant that becomes known
 * later (the first request, by the mock's stamp) can be told.
 */
#ifndef COLLECTOR_CPU_POINTS_H
#define COLLECTOR_CPU_POINTS_H

#include "collector/cgroup_figures.h"

#include <stddef.h>
#include <stdint.h>

struct cpu_point {
	int64_t at_ns;
	struct cgroup_cpu cpu;
};

/* In order of time; begin with a zeroed struct. */
struct cpu_points {
	struct cpu_point *items;
	size_t count, capacity;
};

void cpu_points_release(struct cpu_points *points);
void cpu_points_add(struct cpu_points *points, int64_t at_ns, const struct cgroup_cpu *cpu);

/* When the next point is due: 1 ms after the last one, or a 64th of the time since the start, at
 * most 100 ms. */
int64_t cpu_point_next_ns(int64_t start_ns, int64_t at_ns);

/* The use at `at_ns`, by linear interpolation between the points around it; -1 without points. */
int cpu_points_at(const struct cpu_points *points, int64_t at_ns, struct cgroup_cpu *cpu);

#endif
