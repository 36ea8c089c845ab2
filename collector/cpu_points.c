#include "collector/cpu_points.h"

#include "common/clock.h"
#include "common/error.h"

#include <math.h>
#include <stdlib.h>

static const int64_t STEP_MIN_NS = NS_PER_MS;
static const int64_t STEP_MAX_NS = 100 * NS_PER_MS;

void cpu_points_release(struct cpu_points *points)
{
	free(points->items);
	*points = (struct cpu_points){0};
}

void cpu_points_add(struct cpu_points *points, int64_t at_ns, const struct cgroup_cpu *cpu)
{
	if (points->count == points->capacity) {
		points->capacity = points->capacity ? 2 * points->capacity : 512;
		points->items = xrealloc(points->items, points->capacity * sizeof *points->items);
	}
	points->items[points->count++] = (struct cpu_point){at_ns, *cpu};
}

int64_t cpu_point_next_ns(int64_t start_ns, int64_t at_ns)
{
	int64_t step_ns = (at_ns - start_ns) / 64;
	if (step_ns < STEP_MIN_NS)
		step_ns = STEP_MIN_NS;
	if (step_ns > STEP_MAX_NS)
		step_ns = STEP_MAX_NS;
	return at_ns + step_ns;
}

static int64_t between(int64_t a, int64_t b, double part)
{
	return a + llround((double)(b - a) * part);
}

int cpu_points_at(const struct cpu_points *all, int64_t at_ns, struct cgroup_cpu *cpu)
{
	const struct cpu_point *points = all->items;
	size_t count = all->count;
	if (!count)
		return -1;
	size_t after = 0;
	while (after < count && points[after].at_ns < at_ns)
		after++;
	if (after == 0 || after == count) {
		*cpu = points[after ? count - 1 : 0].cpu;
		return 0;
	}
	const struct cpu_point *a = &points[after - 1], *b = &points[after];
	double part = (double)(at_ns - a->at_ns) / (double)(b->at_ns - a->at_ns);
	*cpu = (struct cgroup_cpu){between(a->cpu.usage_usec, b->cpu.usage_usec, part),
		between(a->cpu.user_usec, b->cpu.user_usec, part),
		between(a->cpu.system_usec, b->cpu.system_usec, part)};
	return 0;
}
