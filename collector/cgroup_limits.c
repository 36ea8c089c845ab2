#include "collector/cgroup_limits.h"

#include "collector/cgroup_file.h"
#include "common/cleanup.h"
#include "common/error.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* v1 says "no limit" by the largest multiple of the page size that fits. */
static const int64_t V1_NO_LIMIT = INT64_C(0x7fffffff00000000);

int cgroup_set_limits(
	const struct cgroup *group, const struct cgroup_limits *limits, struct error *err)
{
	bool v2 = group->fs->v2;
	struct error why;
	if (limits->memory_bytes != FACT_MISSING) {
		int fd = cgroup_folder(group, CGROUP_MEMORY);
		if (cg_write_number(fd, v2 ? "memory.max" : "memory.limit_in_bytes",
			    limits->memory_bytes, err))
			return error_prefix(err, "cannot set the memory limit");
		/* Both are missing where the kernel does not account swap. */
		if (cg_write_number(fd, v2 ? "memory.swap.max" : "memory.memsw.limit_in_bytes",
			    v2 ? 0 : limits->memory_bytes, &why) &&
			why.code != ENOENT) {
			*err = why;
			return error_prefix(err, "cannot forbid swap");
		}
	}
	if (limits->cpu_quota > 0) {
		int fd = cgroup_folder(group, CGROUP_CPU);
		int64_t period = 100000, quota = llround(limits->cpu_quota * (double)period);
		char text[64];
		snprintf(text, sizeof text, "%" PRId64 " %" PRId64, quota, period);
		if (fd < 0)
			return error_set(err, 0, "cannot set a CPU quota: no cpu controller");
		if (v2 ? cg_write(fd, "cpu.max", text, err)
		       : cg_write_number(fd, "cpu.cfs_period_us", period, err) ||
					cg_write_number(fd, "cpu.cfs_quota_us", quota, err))
			return error_prefix(err, "cannot set the CPU quota");
	}
	if (*limits->cpus &&
		cg_write(cgroup_folder(group, CGROUP_CPUSET), "cpuset.cpus", limits->cpus, err))
		return error_prefix(err, "cannot set the CPUs");
	return 0;
}

/* The lower of two limits, either of which may be none. */
static int64_t lower(int64_t a, int64_t b)
{
	if (a == FACT_MISSING || b == FACT_MISSING)
		return a == FACT_MISSING ? b : a;
	return a < b ? a : b;
}

/* v2: "max" or a number. A group at the root has no such file: no limit. */
static int read_max(int fd, const char *name, int64_t *value, struct error *err)
{
	char text[64];
	struct error why;
	if (cg_read(fd, name, text, sizeof text, &why)) {
		if (why.code != ENOENT) {
			*err = why;
			return -1;
		}
		*value = FACT_MISSING;
		return 0;
	}
	if (!strcmp(text, "max"))
		*value = FACT_MISSING;
	else if (cg_parse_number(text, NULL, value))
		return error_set(err, 0, "'%s' is no number: '%s'", name, text);
	return 0;
}

static int v2_memory_max(const struct cgroup *group, int64_t *bytes, struct error *err)
{
	auto_free char *path = xstrdup(group->paths[0]);
	int64_t lowest = FACT_MISSING;
	for (;;) {
		auto_close int fd = cgroup_open_folder(group->fs->fds[0], path);
		int64_t value;
		if (fd < 0)
			return error_set(err, errno, "cannot open cgroup '%s'", path);
		if (read_max(fd, "memory.max", &value, err))
			return -1;
		lowest = lower(lowest, value);
		char *slash = strrchr(path, '/');
		if (!slash || slash == path)
			break;
		*slash = '\0';
	}
	*bytes = lowest;
	return 0;
}

/* "max PERIOD" or "QUOTA PERIOD", µs, as CPUs; 0: none */
static int parse_cpu_max(const char *text, double *quota, struct error *err)
{
	int64_t used, period;
	const char *end;
	*quota = 0;
	if (!strncmp(text, "max", 3))
		return 0;
	if (cg_parse_number(text, &end, &used) || *end != ' ' ||
		cg_parse_number(end + 1, NULL, &period) || period <= 0)
		return error_set(err, 0, "'cpu.max' is not two numbers: '%s'", text);
	*quota = (double)used / (double)period;
	return 0;
}

static int v2_get_limits(
	const struct cgroup *group, struct cgroup_limits *limits, struct error *err)
{
	int fd = cgroup_folder(group, CGROUP_MEMORY);
	char text[64];
	struct error why;
	if (v2_memory_max(group, &limits->memory_bytes, err) ||
		read_max(fd, "memory.swap.max", &limits->swap_bytes, err))
		return -1;
	if (!cg_read(fd, "cpu.max", text, sizeof text, &why)) {
		if (parse_cpu_max(text, &limits->cpu_quota, err))
			return -1;
	} else if (why.code != ENOENT) {
		*err = why;
		return -1;
	}
	if (cg_read(fd, "cpuset.cpus.effective", limits->cpus, sizeof limits->cpus, &why))
		*limits->cpus = '\0';
	return 0;
}

static int64_t v1_limit(int64_t value)
{
	return value >= V1_NO_LIMIT ? FACT_MISSING : value;
}

static int v1_get_limits(
	const struct cgroup *group, struct cgroup_limits *limits, struct error *err)
{
	int memory = cgroup_folder(group, CGROUP_MEMORY), cpu = cgroup_folder(group, CGROUP_CPU);
	int cpuset = cgroup_folder(group, CGROUP_CPUSET);
	int64_t with_swap;
	struct error why;
	if (cg_read_keyed(
		    memory, "memory.stat", "hierarchical_memory_limit", &limits->memory_bytes, err))
		return -1;
	limits->memory_bytes = v1_limit(limits->memory_bytes);
	limits->swap_bytes = FACT_MISSING;
	if (limits->memory_bytes != FACT_MISSING &&
		!cg_read_keyed(
			memory, "memory.stat", "hierarchical_memsw_limit", &with_swap, &why) &&
		v1_limit(with_swap) != FACT_MISSING)
		limits->swap_bytes = with_swap - limits->memory_bytes;
	char text[64];
	if (cpu >= 0 && !cg_read(cpu, "cpu.cfs_quota_us", text, sizeof text, &why) &&
		*text != '-') {
		int64_t quota, period;
		if (cg_parse_number(text, NULL, &quota) ||
			cg_read_number(cpu, "cpu.cfs_period_us", &period, err) || period <= 0)
			return error_set(err, 0, "cannot read the CPU quota");
		limits->cpu_quota = (double)quota / (double)period;
	}
	if (cpuset < 0 ||
		(cg_read(cpuset, "cpuset.effective_cpus", limits->cpus, sizeof limits->cpus,
			 &why) &&
			cg_read(cpuset, "cpuset.cpus", limits->cpus, sizeof limits->cpus, &why)))
		*limits->cpus = '\0';
	return 0;
}

int cgroup_get_limits(const struct cgroup *group, struct cgroup_limits *limits, struct error *err)
{
	struct cgroup_limits found = {0};
	if ((group->fs->v2 ? v2_get_limits : v1_get_limits)(group, &found, err))
		return error_prefix(err, "cannot read the limits of cgroup '%s'",
			group->paths[group->fs->of[CGROUP_MEMORY]]);
	*limits = found;
	return 0;
}
