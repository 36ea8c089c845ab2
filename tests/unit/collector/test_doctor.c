/* doctor.h: each branch of each check, over trees of files that stand in for /proc, /sys and
 * /sys/fs/cgroup. */
#include "collector/doctor.h"

#include "collector/machine.h"
#include "collector/manifest.h"
#include "collector/plan.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define CPU "/sys/devices/system/cpu"
#define CGROUPS "tests/fixtures/cgroup/"

static char folder[64];
static struct manifest manifest;
static struct plan_contender contender;
static struct plan plan;

static void run_program(const char *const argv[])
{
	pid_t pid = fork();
	if (pid == 0) {
		execvp(argv[0], (char *const *)argv);
		_exit(127);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* A file below the folder, its own folders made; a text of NULL: no such file. */
static void put(const char *path, const char *text)
{
	char full[512];
	snprintf(full, sizeof full, "%s%s", folder, path);
	if (!text) {
		unlink(full);
		return;
	}
	for (char *at = full + strlen(folder) + 1; (at = strchr(at, '/')); at++) {
		*at = '\0';
		if (mkdir(full, 0755) && errno != EEXIST)
			fail_msg("cannot make '%s'", full);
		*at = '/';
	}
	FILE *file = fopen(full, "w");
	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

/* A machine that nothing is to be said of: four cores of one thread. */
static const struct {
	const char *path, *text;
} machine[] = {
	{"/proc/meminfo", "MemTotal: 8388608 kB\nSwapTotal: 0 kB\n"},
	{"/proc/cpuinfo", "model name : Test CPU\nflags : fpu tsc\n"},
	{"/proc/stat", "cpu 1 0 1 1 0 0 0 0 0 0\ncpu0 1 0 1 1 0 0 0 0 0 0\n"},
	{"/proc/self/cgroup", "0::/docker/abc\n"},
	{"/proc/sys/net/ipv4/tcp_congestion_control", "cubic\n"},
	{"/proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n"},
	{CPU "/online", "0-3\n"},
	{CPU "/smt/active", "0\n"},
	{CPU "/cpu0/cpufreq/scaling_governor", "performance\n"},
	{CPU "/cpu1/cpufreq/scaling_governor", "performance\n"},
	{CPU "/intel_pstate/no_turbo", "1\n"},
	{CPU "/cpufreq/boost", NULL},
	{CPU "/cpu2/topology/thread_siblings_list", NULL},
	{"/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"},
	{"/sys/module/damon_reclaim/parameters/enabled", "N\n"},
	{"/sys/kernel/mm/damon/admin/kdamonds/0/state", NULL},
	{"/agent", "here\n"},
};

static int make_folder(void **state)
{
	(void)state;
	snprintf(folder, sizeof folder, "/tmp/test-doctor-XXXXXX");
	return mkdtemp(folder) && !chmod(folder, 0755) ? 0 : -1;
}

static int remove_folder(void **state)
{
	(void)state;
	run_program((const char *const[]){"rm", "-rf", folder, NULL});
	return 0;
}

static void set_cpus(struct doctor *doctor, const char *instrument, const char *others)
{
	struct error err;
	assert_int_equal(cpus_parse(instrument, &doctor->instrument, &err), 0);
	assert_int_equal(cpus_parse(others, &doctor->contender, &err), 0);
	CPU_OR(&doctor->cpus, &doctor->instrument, &doctor->contender);
}

/* The machine above, looked at on cgroups of a fixture, with a plan of 100 sessions. */
static void begin(struct doctor *doctor, const char *cgroups)
{
	static char root[128], prefix[128];
	static int64_t sessions[] = {1, 100};
	static const char *command[] = {"{prefix}/agent", NULL};
	for (size_t i = 0; i < sizeof machine / sizeof *machine; i++)
		put(machine[i].path, machine[i].text);
	snprintf(root, sizeof root, CGROUPS "%s", cgroups);
	snprintf(prefix, sizeof prefix, "%s", folder);
	manifest = (struct manifest){.name = "a", .command = command};
	contender = (struct plan_contender){.manifest = &manifest};
	plan = (struct plan){.contenders = &contender,
		.contender_count = 1,
		.sessions = sessions,
		.session_count = 2,
		.repetitions = 1,
		.memory_bytes = INT64_C(1) << 30,
		.split = true};
	*doctor = (struct doctor){.root = folder,
		.cgroup_root = root,
		.prefix = prefix,
		.results = folder,
		.plan = &plan};
}

static void look(struct doctor *doctor)
{
	doctor_look(doctor, 0);
	/* What is not in files. */
	set_cpus(doctor, "0-1", "2-3");
	*doctor->split_problem.text = '\0';
	json_object_set_new(doctor->machine, "page_bytes", json_integer(4096));
	json_object_set_new(doctor->machine, "kernel", json_string("6.1.0-18-amd64"));
	doctor->descriptors = 1 << 20;
	doctor->disk_free_bytes = INT64_C(1) << 40;
	doctor->steal_percent = 0.1;
	doctor->busy_percent = 3;
}

static const json_t *find(const json_t *findings, const char *id)
{
	size_t i;
	const json_t *finding;
	json_array_foreach(findings, i, finding)
	{
		if (!strcmp(json_string_value(json_object_get(finding, "id")), id))
			return finding;
	}
	return NULL;
}

static const char *text_of(const json_t *finding, const char *name)
{
	const char *text = json_string_value(json_object_get(finding, name));
	return text ? text : "";
}

/* ---- what is not in files */

static void pages_64k(struct doctor *d)
{
	json_object_set_new(d->machine, "page_bytes", json_integer(65536));
}

static void pages_unknown(struct doctor *d)
{
	json_object_set_new(d->machine, "page_bytes", json_null());
}

static void kernel_5_18(struct doctor *d)
{
	json_object_set_new(d->machine, "kernel", json_string("5.18.3"));
}

static void kernel_4_18(struct doctor *d)
{
	json_object_set_new(d->machine, "kernel", json_string("4.18.0-553"));
}

static void one_contender_cpu(struct doctor *d)
{
	set_cpus(d, "0", "1");
}

static void one_cpu(struct doctor *d)
{
	set_cpus(d, "0", "0");
	error_set(&d->split_problem, 0, "one");
}

static void shared(struct doctor *d)
{
	set_cpus(d, "0", "0");
	plan.split = false;
}

static void same_in_containers(struct doctor *d)
{
	set_cpus(d, "0-3", "0-3");
	d->containers = true;
}

static void no_memory_limit(struct doctor *d)
{
	(void)d;
	plan.memory_bytes = FACT_MISSING;
}

static void limit_above(struct doctor *d)
{
	(void)d;
	plan.memory_bytes = INT64_C(16) << 30;
}

static void wants_quota(struct doctor *d)
{
	(void)d;
	plan.cpu_quota = 0.5;
}

static void no_plan(struct doctor *d)
{
	d->plan = NULL;
}

static void descriptors_400(struct doctor *d)
{
	d->descriptors = 400;
}

static void descriptors_100(struct doctor *d)
{
	d->descriptors = 100;
}

static void descriptors_unlimited(struct doctor *d)
{
	d->descriptors = -1;
}

static void disk_small(struct doctor *d)
{
	d->disk_free_bytes = plan_results_bytes(&plan) * 3 / 2;
}

static void disk_full(struct doctor *d)
{
	d->disk_free_bytes = plan_results_bytes(&plan) / 2;
}

static void stolen(struct doctor *d)
{
	d->steal_percent = 2.5;
}

static void stolen_within_plan(struct doctor *d)
{
	d->steal_percent = 2.5;
	plan.bounds.steal_percent = 5;
}

static void loaded(struct doctor *d)
{
	d->busy_percent = 37;
}

static void loaded_within_plan(struct doctor *d)
{
	d->busy_percent = 37;
	plan.bounds.other_load_percent = 50;
}

static void unwatched(struct doctor *d)
{
	d->steal_percent = d->busy_percent = -1;
}

static void below_nowhere(struct doctor *d)
{
	d->cgroup_parent = "/no/such";
}

static void in_containers(struct doctor *d)
{
	d->containers = true;
}

static void no_cgroups(struct doctor *d)
{
	d->cgroup_root = folder;
}

/* a folder whose name looks like a part of a sentence */
static void no_cgroups_colon(struct doctor *d)
{
	static char root[sizeof folder + 8];
	snprintf(root, sizeof root, "%s/a: b:c", folder);
	put("/a: b:c/other", "");
	d->cgroup_root = root;
}

static void no_cgroup_folder(struct doctor *d)
{
	d->cgroup_root = "/nonexistent";
}

static void of_here(struct doctor *d)
{
	static const char *command[] = {"{here}/gone", NULL};
	(void)d;
	manifest.command = command;
}

static void in_advance(struct doctor *d)
{
	d->in_advance = true;
}

static void of_here_in_advance(struct doctor *d)
{
	of_here(d);
	in_advance(d);
}

static void of_runtime(struct doctor *d)
{
	static const char *command[] = {"{prefix}/agent", "{prefix}/runtimes/gone", NULL};
	(void)d;
	manifest.command = command;
}

static void no_engine(struct doctor *d)
{
	d->engine = "/nonexistent/docker.sock";
}

static void every_branch(void **state)
{
	(void)state;
	static const char V2[] = "v2", PEAKLESS[] = "v2-no-peak", V1[] = "v1";
	static const struct {
		const char *cgroups, *id, *status; /* status NULL: the check does not apply */
		const char *found, *remedy;        /* parts of them; remedy NULL: there is none */
		const char *path, *text;           /* a file of the machine that is otherwise */
		void (*change)(struct doctor *doctor);
	} rows[] = {
		{V2, "cgroup", "ok", "v2 at ", NULL, NULL, NULL, NULL},
		{V1, "cgroup", "warn", "v1 at ", "unified_cgroup_hierarchy=1", NULL, NULL, NULL},
		{V2, "cgroup", "fail", "neither cgroup v2 nor", "mount cgroup2 there", NULL, NULL,
			no_cgroups},
		{V2, "cgroup", "fail", "a: b:c' has neither cgroup v2 nor the v1 controller",
			"mount cgroup2 there", NULL, NULL, no_cgroups_colon},
		{V2, "cgroup", "fail", "has neither", "a: b:c)", NULL, NULL, no_cgroups_colon},
		{V2, "cgroup", "fail", "cannot open '/nonexistent'", "mount cgroup2 there", NULL,
			NULL, no_cgroup_folder},

		{V2, "controllers", "ok", "memory cpu cpuset io", NULL, NULL, NULL, in_containers},
		{V1, "controllers", "ok", "memory cpu cpuset", NULL, NULL, NULL, NULL},
		{V2, "controllers", NULL, NULL, NULL, NULL, NULL, no_cgroups},

		{V2, "delegation", "ok", "below '/docker", NULL, NULL, NULL, NULL},
		{V2, "delegation", "ok", "in the containers' groups", NULL, NULL, NULL,
			in_containers},
		{V2, "delegation", "fail", "cannot open cgroup '/no/such'", "--cgroup-parent", NULL,
			NULL, below_nowhere},
		{V2, "delegation", "fail", "cannot open cgroup '/gone'", "--cgroup-parent",
			"/proc/self/cgroup", "0::/gone\n", NULL},
		{V2, "delegation", "fail", "outside of this namespace", "--cgroup-parent",
			"/proc/self/cgroup", "0::/../abc\n", NULL},
		{V2, "delegation", NULL, NULL, NULL, NULL, NULL, no_cgroups},

		{V2, "memory-peak", "ok", "memory.peak", NULL, NULL, NULL, NULL},
		{PEAKLESS, "memory-peak", "warn", "ten samples", "Linux 5.19", NULL, NULL, NULL},
		{V1, "memory-peak", "ok", "max_usage", NULL, NULL, NULL, NULL},
		/* no group with memory to look at: by the kernel */
		{"../doctor/bare", "memory-peak", "ok", "memory.peak", NULL, NULL, NULL, NULL},
		{"../doctor/bare", "memory-peak", "warn", "ten samples", "Linux 5.19", NULL, NULL,
			kernel_5_18},
		{V2, "memory-peak", NULL, NULL, NULL, NULL, NULL, no_cgroups},

		{V2, "oom-group", "ok", "memory.oom.group", NULL, NULL, NULL, NULL},
		{V1, "oom-group", "warn", "process by process", "cgroup v2", NULL, NULL, NULL},
		{"../doctor/bare", "oom-group", "ok", "memory.oom.group", NULL, NULL, NULL,
			kernel_5_18},
		{"../doctor/bare", "oom-group", "warn", "process by process", "Linux 4.19", NULL,
			NULL, kernel_4_18},
		{V2, "oom-group", NULL, NULL, NULL, NULL, NULL, no_cgroups},

		{V2, "swap", "ok", "none", NULL, NULL, NULL, NULL},
		{V2, "swap", "ok", "2.0 GiB, forbidden", NULL, "/proc/meminfo",
			"MemTotal: 8388608 kB\nSwapTotal: 2097152 kB\n", NULL},
		{V2, "swap", "warn", "no memory limit", "swapoff -a", "/proc/meminfo",
			"SwapTotal: 2097152 kB\n", no_memory_limit},
		{V1, "swap", "ok", "2.0 GiB, forbidden", NULL, "/proc/meminfo",
			"SwapTotal: 2097152 kB\n", NULL},
		{"../doctor/v1-no-swap", "swap", "warn", "keeps no account", "swapaccount=1",
			"/proc/meminfo", "SwapTotal: 2097152 kB\n", NULL},
		{V2, "swap", NULL, NULL, NULL, "/proc/meminfo", "MemTotal: 1 kB\n", NULL},

		{V2, "governor", "ok", "performance", NULL, NULL, NULL, NULL},
		{V2, "governor", "warn", "performance, powersave: ", "cpupower",
			CPU "/cpu1/cpufreq/scaling_governor", "powersave\n", NULL},
		{V2, "governor", "ok", "does not tell", NULL, CPU "/online", "", NULL},

		{V2, "turbo", "ok", "off", NULL, NULL, NULL, NULL},
		{V2, "turbo", "warn", "on: ", "no_turbo", CPU "/intel_pstate/no_turbo", "0\n",
			NULL},
		{V2, "turbo", "ok", "does not tell", NULL, CPU "/intel_pstate/no_turbo", NULL,
			NULL},

		{V2, "smt", "ok", "off", NULL, NULL, NULL, NULL},
		{V2, "smt", "ok", "on; contender and mock share no core", NULL, CPU "/smt/active",
			"1\n", NULL},
		{V2, "smt", "ok", "does not tell", NULL, CPU "/smt/active", NULL, NULL},

		{V2, "clocksource", "ok", "tsc", NULL, NULL, NULL, NULL},
		{V2, "clocksource", "warn", "hpet: ", "clocksource=tsc",
			"/sys/devices/system/clocksource/clocksource0/current_clocksource",
			"hpet\n", NULL},
		{V2, "clocksource", "ok", "does not tell", NULL,
			"/sys/devices/system/clocksource/clocksource0/current_clocksource", NULL,
			NULL},

		{V2, "steal", "ok", "0.1%", NULL, NULL, NULL, NULL},
		{V2, "steal", "warn", "2.5% of the CPU time, the bound of a run is 2%", "wait",
			NULL, NULL, stolen},
		{V2, "steal", "ok", "2.5%", NULL, NULL, NULL, stolen_within_plan},
		{V2, "steal", "ok", "does not tell", NULL, NULL, NULL, unwatched},

		{V2, "load", "ok", "3% of the contender's", NULL, NULL, NULL, NULL},
		{V2, "load", "warn", "37% of the contender's CPUs, the bound of a run is 10%",
			"end them", NULL, NULL, loaded},
		{V2, "load", "ok", "37%", NULL, NULL, NULL, loaded_within_plan},
		{V2, "load", "ok", "does not tell", NULL, NULL, NULL, unwatched},

		{V2, "emulation", "ok", "none", NULL, NULL, NULL, NULL},
		{V2, "emulation", "warn", "times are not shown", "CPU that is there",
			"/proc/cpuinfo", "model name : QEMU TCG CPU version 2.5+\n", NULL},
		{V2, "emulation", "warn", "times are not shown", "CPU that is there",
			"/proc/cpuinfo", "CPU implementer : 0x00\nCPU part : 0x051\n", NULL},

		{V2, "page-size", "ok", "4 KiB", NULL, NULL, NULL, NULL},
		{V2, "page-size", "warn",
			"64 KiB: everything in memory is larger, and memory is "
			"counted in steps of 4.0 MiB",
			"same page size", NULL, NULL, pages_64k},
		{V2, "page-size", "ok", "does not tell", NULL, NULL, NULL, pages_unknown},

		{V2, "proactive-reclaim", "ok", "off", NULL, NULL, NULL, NULL},
		{V2, "proactive-reclaim", "warn", "DAMON", "damon_reclaim",
			"/sys/module/damon_reclaim/parameters/enabled", "Y\n", NULL},
		{V2, "proactive-reclaim", "warn", "DAMON", "kdamonds",
			"/sys/kernel/mm/damon/admin/kdamonds/0/state", "on\n", NULL},

		{V2, "congestion-control", "ok", "cubic", NULL, NULL, NULL, NULL},
		{V2, "congestion-control", "warn", "bbr may pace", "=cubic",
			"/proc/sys/net/ipv4/tcp_congestion_control", "bbr\n", NULL},
		{V2, "congestion-control", "ok", "does not tell", NULL,
			"/proc/sys/net/ipv4/tcp_congestion_control", NULL, NULL},

		{V2, "cpus", "ok", "2-3 for the contender, 0-1 for mock", NULL, NULL, NULL, NULL},
		{V2, "cpus", "warn", "one CPU (1) for the contender", "more CPUs", NULL, NULL,
			one_contender_cpu},
		{V2, "cpus", "fail", "needs two CPUs, there is 0", "\"shared\"", NULL, NULL,
			one_cpu},
		{V2, "cpus", "fail", "the collector may use all CPUs, 0-3",
			"TURNMETER_CPUS_INSTRUMENT", NULL, NULL, same_in_containers},
		{V2, "cpus", "ok", "all on CPUs 0, as the plan", NULL, NULL, NULL, shared},

		{V2, "memory", "ok", "8.0 GiB, the limit of a contender is 1.0", NULL, NULL, NULL,
			NULL},
		{V2, "memory", "ok", "8.0 GiB", NULL, NULL, NULL, no_memory_limit},
		{V2, "memory", "warn", "limit of a contender is 16.0", "MEMORY=", NULL, NULL,
			limit_above},
		{V2, "memory", NULL, NULL, NULL, "/proc/meminfo", "SwapTotal: 0 kB\n", NULL},

		{V2, "descriptors", "ok", "1048576 a process", NULL, NULL, NULL, NULL},
		{V2, "descriptors", "ok", "no limit", NULL, NULL, NULL, descriptors_unlimited},
		{V2, "descriptors", "warn", "400 open files a process, 100 sessions may need 464",
			"ulimit -Hn 464", NULL, NULL, descriptors_400},
		{V2, "descriptors", "fail", "100 open files", "ulimit -Hn 464", NULL, NULL,
			descriptors_100},

		{V2, "ports", "ok", "28232 for clients", NULL, NULL, NULL, NULL},
		{V2, "ports", "warn", "150 ports", "ip_local_port_range",
			"/proc/sys/net/ipv4/ip_local_port_range", "40000\t40149\n", NULL},
		{V2, "ports", "fail", "50 ports", "ip_local_port_range",
			"/proc/sys/net/ipv4/ip_local_port_range", "40000\t40049\n", NULL},
		{V2, "ports", "fail", "0 ports", "ip_local_port_range",
			"/proc/sys/net/ipv4/ip_local_port_range", "2 1\n", NULL},
		{V2, "ports", NULL, NULL, NULL, "/proc/sys/net/ipv4/ip_local_port_range", NULL,
			NULL},

		{V2, "disk", "ok", "1024.0 GiB free", NULL, NULL, NULL, NULL},
		{V2, "disk", "warn", "MiB free where results go", "--out", NULL, NULL, disk_small},
		{V2, "disk", "fail", "MiB free where results go", "--out", NULL, NULL, disk_full},

		{V2, "contenders", "ok", "programs of 1 contender are there", NULL, NULL, NULL,
			NULL},
		{V2, "contenders", "fail", "contender 'a': '", "build it with 'make'", "/agent",
			NULL, NULL},
		{V2, "contenders", "fail", "/runtimes/gone' is absent", "make runtimes", NULL, NULL,
			of_runtime},
		{V2, "contenders", "fail", "/gone' is absent", "put the file there", NULL, NULL,
			of_here},
		{V2, "contenders", "warn", "not built yet: a", "'make bench' and 'make up' build",
			"/agent", NULL, in_advance},
		{V2, "contenders", "fail", "/gone' is absent", "put the file there", NULL, NULL,
			of_here_in_advance},
		{V2, "contenders", "ok", "are there", NULL, NULL, NULL, in_advance},
		{V2, "contenders", NULL, NULL, NULL, NULL, NULL, no_plan},
		{V2, "contenders", NULL, NULL, NULL, NULL, NULL, in_containers},

		{V2, "images", NULL, NULL, NULL, NULL, NULL, NULL},
		{V2, "images", "warn", "no Docker engine answers", "make up", NULL, NULL,
			no_engine},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct doctor doctor;
		begin(&doctor, rows[i].cgroups);
		if (!strcmp(rows[i].cgroups, V1) || strstr(rows[i].cgroups, "v1"))
			put("/proc/self/cgroup", "3:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc\n"
						 "1:cpuset:/docker/abc\n");
		if (rows[i].path)
			put(rows[i].path, rows[i].text);
		look(&doctor);
		if (rows[i].change)
			rows[i].change(&doctor);
		json_t *findings = doctor_examine(&doctor);
		const json_t *finding = find(findings, rows[i].id);
		const char *remedy = text_of(finding, "remedy");
		bool good = rows[i].status
				    ? finding &&
					      !strcmp(text_of(finding, "status"), rows[i].status) &&
					      strstr(text_of(finding, "found"), rows[i].found) &&
					      (rows[i].remedy ? !!strstr(remedy, rows[i].remedy)
							      : json_is_null(json_object_get(
									finding, "remedy")))
				    : !finding;
		if (!good)
			fail_msg("row %zu, %s: %s: %s: %s", i, rows[i].id,
				text_of(finding, "status"), text_of(finding, "found"), remedy);
		json_decref(findings);
		doctor_release(&doctor);
	}
}

static void a_core_that_is_shared(void **state)
{
	(void)state;
	struct doctor doctor;
	begin(&doctor, "v2");
	put(CPU "/smt/active", "1\n");
	put(CPU "/cpu2/topology/thread_siblings_list", "0,2\n");
	look(&doctor);
	json_auto_t *findings = doctor_examine(&doctor);
	const json_t *finding = find(findings, "smt");
	assert_string_equal(text_of(finding, "status"), "warn");
	assert_non_null(strstr(text_of(finding, "found"), "CPU 2 is a thread"));
	doctor_release(&doctor);
}

/* v2 trees with some controllers only, below which a user who is not root works. */
static void controllers_that_are_there(void **state)
{
	(void)state;
	static const struct {
		const char *controllers, *status, *found;
		void (*change)(struct doctor *doctor);
	} rows[] = {
		{"memory cpu cpuset io pids", "ok", "memory cpu cpuset io", NULL},
		{"memory pids", "warn", "no cpu: no CPU quota", NULL},
		{"memory pids", "fail", "no cpu: no CPU quota", wants_quota},
		{"memory cpu cpuset", "warn", "no io: ", NULL},
		{"memory cpu io", "warn", "no cpuset: CPUs by affinity only", NULL},
		{"cpu cpuset io", "fail", "no memory: nothing can be measured", NULL},
		{"", "fail", "no memory: ", NULL},
	};
	char root[128];
	snprintf(root, sizeof root, "%s/cgroup", folder);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct doctor doctor;
		begin(&doctor, "v2");
		put("/proc/self/cgroup", "0::/user\n");
		put("/cgroup/cgroup.controllers", rows[i].controllers);
		put("/cgroup/user/cgroup.controllers", rows[i].controllers);
		doctor.cgroup_root = root;
		look(&doctor);
		if (rows[i].change)
			rows[i].change(&doctor);
		json_t *findings = doctor_examine(&doctor);
		const json_t *finding = find(findings, "controllers");
		assert_string_equal(text_of(finding, "status"), rows[i].status);
		assert_non_null(strstr(text_of(finding, "found"), rows[i].found));
		json_decref(findings);
		doctor_release(&doctor);
	}
}

/* Who may not write is told how he may. */
static void groups_of_others(void **state)
{
	(void)state;
	static const char *const files[] = {
		"/cgroup/user/cgroup.procs", "/cgroup/user/cgroup.subtree_control"};
	char root[128], path[256];
	bool is_root = geteuid() == 0;
	snprintf(root, sizeof root, "%s/cgroup", folder);
	struct doctor doctor;
	begin(&doctor, "v2");
	put("/proc/self/cgroup", "0::/user\n");
	put("/cgroup/cgroup.controllers", "memory cpu cpuset io\n");
	put("/cgroup/user/cgroup.controllers", "memory cpu cpuset io\n");
	snprintf(path, sizeof path, "%s/cgroup/user", folder);
	for (size_t i = 0; i < 2; i++)
		put(files[i], "");
	assert_int_equal(chmod(path, is_root ? 0777 : 0755), 0);
	doctor.cgroup_root = root;
	/* the folder is writable, and one file or the other is not; then all are */
	for (size_t i = 0; i < 3; i++) {
		for (size_t k = 0; k < 2; k++) {
			snprintf(path, sizeof path, "%s%s", folder, files[k]);
			assert_int_equal(chmod(path, i == k ? 0444 : 0666), 0);
		}
		look(&doctor);
		if (is_root)
			assert_int_equal(seteuid(65534), 0);
		json_t *findings = doctor_examine(&doctor);
		if (is_root)
			assert_int_equal(seteuid(0), 0);
		const json_t *finding = find(findings, "delegation");
		assert_string_equal(text_of(finding, "status"), i < 2 ? "fail" : "ok");
		if (i < 2) {
			assert_string_equal(text_of(finding, "found"),
				"cannot make cgroups below '/user': Permission denied");
			assert_non_null(strstr(text_of(finding, "remedy"), "Delegate=yes"));
		}
		json_decref(findings);
		doctor_release(&doctor);
	}
}

/* /proc/stat as a FIFO from which a child gives one text and then another. */
static void watches_cpus(void **state)
{
	(void)state;
	struct doctor doctor;
	char path[256];
	begin(&doctor, "v2");
	put("/proc/stat", NULL);
	snprintf(path, sizeof path, "%s/proc/stat", folder);
	assert_int_equal(mkfifo(path, 0600), 0);
	pid_t pid = fork();
	if (pid == 0) {
		for (int i = 0; i < 2; i++) {
			FILE *out = fopen(path, "w");
			long tick = sysconf(_SC_CLK_TCK);
			fprintf(out, "cpu 0 0 0 0 0 0 0 %ld 0 0\n", i * tick);
			/* Whichever CPUs this process may use are the contender's. */
			for (int cpu = 0; cpu < 1024; cpu++)
				fprintf(out, "cpu%d %ld 0 0 0 0 0 0 0 0 0\n", cpu, i * tick);
			fclose(out);
			usleep(200000); /* for the reader to be through with this one */
		}
		_exit(0);
	}
	plan.split = false;
	doctor_look(&doctor, 400000000);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	/* one second of each CPU in 0.4 s or more: all of it at most */
	assert_true(doctor.busy_percent > 10 && doctor.busy_percent <= 100);
	assert_true(doctor.steal_percent > 0 && doctor.steal_percent <= 100);
	doctor_release(&doctor);
	unlink(path);
}

/* A Docker engine that has some images: a server of one answer a connection. */
static _Noreturn void play_engine(int listener, const char *absent)
{
	for (;;) {
		char request[4096];
		int fd = accept(listener, NULL, NULL);
		ssize_t got = read(fd, request, sizeof request - 1);
		request[got > 0 ? got : 0] = '\0';
		bool found = !*absent || !strstr(request, absent);
		dprintf(fd, "HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
			found ? "200 OK" : "404 Not Found");
		close(fd);
	}
}

static void asks_the_engine(void **state)
{
	(void)state;
	static const struct {
		const char *absent, *status, *found;
	} rows[] = {
		{"", "ok", "all there"},
		{"/images/turnmeter-mockllm/json", "warn", "absent: turnmeter-mockllm"},
		{"/images/turnmeter-agent-a/json", "warn", "absent: turnmeter-agent-a"},
		{"/_ping", "warn", "no Docker engine answers"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct doctor doctor;
		struct sockaddr_un address = {.sun_family = AF_UNIX};
		begin(&doctor, "v2");
		manifest.image = "turnmeter-agent-a";
		snprintf(address.sun_path, sizeof address.sun_path, "%s/engine%zu", folder, i);
		int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_int_equal(
			bind(listener, (const struct sockaddr *)&address, sizeof address), 0);
		assert_int_equal(listen(listener, 8), 0);
		pid_t pid = fork();
		if (pid == 0)
			play_engine(listener, rows[i].absent);
		close(listener);
		doctor.engine = address.sun_path;
		look(&doctor);
		json_t *findings = doctor_examine(&doctor);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		const json_t *finding = find(findings, "images");
		assert_string_equal(text_of(finding, "status"), rows[i].status);
		assert_non_null(strstr(text_of(finding, "found"), rows[i].found));
		json_decref(findings);
		doctor_release(&doctor);
	}
}

static void of_this_machine(void **state)
{
	(void)state;
	struct doctor doctor = {.root = "",
		.cgroup_root = "/sys/fs/cgroup",
		.prefix = "/nonexistent",
		.results = "/tmp/not/there/yet"};
	doctor_look(&doctor, 0);
	json_auto_t *findings = doctor_examine(&doctor);
	assert_true(json_array_size(findings) >= 15);
	size_t i;
	const json_t *finding;
	json_array_foreach(findings, i, finding)
	{
		/* what is not well has a remedy, what is well has none */
		bool ok = !strcmp(text_of(finding, "status"), "ok");
		assert_int_equal(ok, json_is_null(json_object_get(finding, "remedy")));
		assert_int_equal(json_object_size(finding), 4);
	}
	assert_true(doctor.disk_free_bytes > 0);
	doctor_release(&doctor);
	doctor.results = "/proc/none";
	doctor_look(&doctor, 0);
	assert_int_equal(doctor.disk_free_bytes, -1);
	doctor_release(&doctor);
}

static void tells_people(void **state)
{
	(void)state;
	json_auto_t *findings = json_pack("[{s:s, s:s, s:s, s:n}, {s:s, s:s, s:s, s:s}]", "id", "a",
		"status", "ok", "found", "all \033[31mwell", "remedy", "id", "b", "status", "warn",
		"found", "so so", "remedy", "mend it");
	struct error err;
	auto_buf struct buf text, coloured;
	buf_init(&text, 1 << 16);
	buf_init(&coloured, 1 << 16);
	assert_int_equal(doctor_first_failure(findings, &err), 0);
	doctor_text(findings, false, &text);
	assert_string_equal(text.data, "ok    a                   all ?[31mwell\n"
				       "warn  b                   so so\n"
				       "                          mend it\n"
				       "1 ok, 1 to be aware of, 0 in the way\n");
	json_object_set_new(json_array_get(findings, 1), "status", json_string("fail"));
	doctor_text(findings, true, &coloured);
	assert_non_null(strstr(coloured.data, "\033[31mfail\033[0m  b"));
	assert_int_equal(doctor_count(findings, "fail"), 1);
	assert_int_equal(doctor_first_failure(findings, &err), -1);
	assert_string_equal(err.text, "so so: mend it");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_branch),
		cmocka_unit_test(a_core_that_is_shared),
		cmocka_unit_test(controllers_that_are_there),
		cmocka_unit_test(groups_of_others),
		cmocka_unit_test(watches_cpus),
		cmocka_unit_test(asks_the_engine),
		cmocka_unit_test(of_this_machine),
		cmocka_unit_test(tells_people),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
