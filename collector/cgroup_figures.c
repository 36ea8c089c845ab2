#include "collector/cgroup_figures.h"

#include "collector/cgroup_file.h"
#include "common/clock.h"
#include "common/error.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum cgroup_backend cgroup_backend_of(const struct cgroup *leaf)
{
	if (!leaf->fs->v2)
		return CGROUP_V1;
	return cg_exists(cgroup_folder(leaf, CGROUP_MEMORY), "memory.peak") ? CGROUP_V2
									    : CGROUP_V2_SAMPLED;
}

int cgroup_get_peak(const struct cgroup *leaf, int64_t *bytes, struct error *err)
{
	return cg_read_number(cgroup_folder(leaf, CGROUP_MEMORY),
		leaf->fs->v2 ? "memory.peak" : "memory.max_usage_in_bytes", bytes, err);
}

/* Kernels before 5.18 tell the kernel's memory in parts only. */
static int64_t v2_kernel_bytes(const char *text)
{
	static const char *const parts[] = {"kernel_stack", "pagetables", "percpu", "slab"};
	int64_t kernel = cg_keyed(text, "kernel");
	if (kernel != FACT_MISSING)
		return kernel;
	int64_t sum = 0;
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		int64_t part = cg_keyed(text, parts[i]);
		if (part != FACT_MISSING)
			sum += part;
	}
	return cg_keyed(text, "slab") == FACT_MISSING ? FACT_MISSING : sum;
}

int cgroup_get_memory(const struct cgroup *leaf, struct memory_sample *sample, struct error *err)
{
	int fd = cgroup_folder(leaf, CGROUP_MEMORY);
	bool v2 = leaf->fs->v2;
	char text[CG_TEXT_MAX];
	struct memory_sample now = {.at_ns = now_ns()};
	if (cg_read_number(
		    fd, v2 ? "memory.current" : "memory.usage_in_bytes", &now.total_bytes, err) ||
		cg_read(fd, "memory.stat", text, sizeof text, err))
		return -1;
	now.shmem_bytes = cg_keyed(text, "shmem");
	if (v2) {
		now.anon_bytes = cg_keyed(text, "anon");
		now.file_bytes = cg_keyed(text, "file");
		now.kernel_bytes = v2_kernel_bytes(text);
		now.sock_bytes = cg_keyed(text, "sock");
	} else {
		struct error why;
		now.anon_bytes = cg_keyed(text, "rss");
		now.file_bytes = cg_keyed(text, "cache");
		if (cg_read_number(fd, "memory.kmem.usage_in_bytes", &now.kernel_bytes, &why))
			now.kernel_bytes = FACT_MISSING;
		if (cg_read_number(fd, "memory.kmem.tcp.usage_in_bytes", &now.sock_bytes, &why))
			now.sock_bytes = FACT_MISSING;
	}
	*sample = now;
	return 0;
}

int cgroup_get_refaults(const struct cgroup *leaf, int64_t *count, struct error *err)
{
	char text[CG_TEXT_MAX];
	if (cg_read(cgroup_folder(leaf, CGROUP_MEMORY), "memory.stat", text, sizeof text, err))
		return -1;
	int64_t anon = cg_keyed(text, "workingset_refault_anon");
	int64_t file = cg_keyed(text, "workingset_refault_file");
	int64_t both = cg_keyed(text, "workingset_refault"); /* before Linux 5.9 */
	if (anon != FACT_MISSING && file != FACT_MISSING)
		both = anon + file;
	if (both == FACT_MISSING)
		return error_set(err, 0, "'memory.stat' does not count refaults");
	*count = both;
	return 0;
}

int cgroup_get_swap(const struct cgroup *leaf, int64_t *bytes, struct error *err)
{
	int fd = cgroup_folder(leaf, CGROUP_MEMORY);
	bool v2 = leaf->fs->v2;
	struct error why;
	if (v2 && !cg_read_number(fd, "memory.swap.peak", bytes, &why))
		return 0;
	int64_t swapped;
	if (v2 ? cg_read_number(fd, "memory.swap.current", &swapped, err)
	       : cg_read_keyed(fd, "memory.stat", "swap", &swapped, err))
		return -1;
	/* What is in use now and then misses what came and went; what came back was counted. */
	char text[CG_TEXT_MAX];
	if (!cg_read(fd, "memory.stat", text, sizeof text, &why)) {
		int64_t pages = cg_keyed(text, "workingset_refault_anon");
		int64_t back = pages == FACT_MISSING ? 0 : pages * sysconf(_SC_PAGESIZE);
		swapped = back > swapped ? back : swapped;
	}
	*bytes = swapped;
	return 0;
}

/* User and system time are sampled at ticks: they divide the exact sum, as v2 does it. */
static int v1_get_cpu(const struct cgroup *leaf, struct cgroup_cpu *cpu, struct error *err)
{
	int fd = cgroup_folder(leaf, CGROUP_CPUACCT);
	struct error why;
	int64_t usage, user, system;
	if (cg_read_number(fd, "cpuacct.usage", &usage, err))
		return -1;
	if ((cg_read_number(fd, "cpuacct.usage_user", &user, &why) ||
		    cg_read_number(fd, "cpuacct.usage_sys", &system, &why)) &&
		(cg_read_keyed(fd, "cpuacct.stat", "user", &user, err) ||
			cg_read_keyed(fd, "cpuacct.stat", "system", &system, err)))
		return -1;
	cpu->usage_usec = usage / 1000;
	double share = user + system > 0 ? (double)user / ((double)user + (double)system) : 1;
	cpu->user_usec = llround((double)cpu->usage_usec * share);
	cpu->system_usec = cpu->usage_usec - cpu->user_usec;
	return 0;
}

int cgroup_get_cpu(const struct cgroup *leaf, struct cgroup_cpu *cpu, struct error *err)
{
	struct cgroup_cpu now;
	if (!leaf->fs->v2) {
		if (v1_get_cpu(leaf, &now, err))
			return -1;
		*cpu = now;
		return 0;
	}
	char text[CG_TEXT_MAX];
	if (cg_read(cgroup_folder(leaf, CGROUP_MEMORY), "cpu.stat", text, sizeof text, err))
		return -1;
	now.usage_usec = cg_keyed(text, "usage_usec");
	now.user_usec = cg_keyed(text, "user_usec");
	now.system_usec = cg_keyed(text, "system_usec");
	if (now.usage_usec == FACT_MISSING || now.user_usec == FACT_MISSING ||
		now.system_usec == FACT_MISSING)
		return error_set(err, 0, "'cpu.stat' does not tell the CPU time");
	*cpu = now;
	return 0;
}

int cgroup_get_events(const struct cgroup *group, struct cgroup_events *events, struct error *err)
{
	int fd = cgroup_folder(group, CGROUP_MEMORY);
	struct cgroup_events now = {.oom = FACT_MISSING};
	if (group->fs->v2 && cg_read_keyed(fd, "memory.events", "oom", &now.oom, err))
		return -1;
	if (cg_read_keyed(fd, group->fs->v2 ? "memory.events" : "memory.oom_control", "oom_kill",
		    &now.oom_kill, err))
		return -1;
	*events = now;
	return 0;
}

int cgroup_get_throttling(
	const struct cgroup *container, struct cgroup_throttling *throttling, struct error *err)
{
	int fd = cgroup_folder(container, CGROUP_CPU);
	struct cgroup_throttling now;
	if (fd < 0)
		return error_set(err, 0, "no cpu controller");
	if (cg_read_keyed(fd, "cpu.stat", "nr_throttled", &now.nr_throttled, err) ||
		cg_read_keyed(fd, "cpu.stat",
			container->fs->v2 ? "throttled_usec" : "throttled_time",
			&now.throttled_usec, err))
		return -1;
	if (!container->fs->v2)
		now.throttled_usec /= 1000;
	*throttling = now;
	return 0;
}

int cgroup_get_pressure(
	const struct cgroup *leaf, const char *what, int64_t *usec, struct error *err)
{
	char name[32], text[1024];
	snprintf(name, sizeof name, "%s.pressure", what);
	if (!leaf->fs->v2)
		return error_set(err, 0, "cgroup v1 has no pressure files");
	if (cg_read(cgroup_folder(leaf, CGROUP_MEMORY), name, text, sizeof text, err))
		return -1;
	const char *total = strncmp(text, "some ", 5) ? NULL : strstr(text, "total=");
	if (!total || cg_parse_number(total + 6, NULL, usec))
		return error_set(err, 0, "'%s' does not tell the time waited", name);
	return 0;
}
