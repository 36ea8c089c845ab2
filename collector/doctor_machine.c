#include "collector/doctor_machine.h"

#include "collector/judge.h"
#include "collector/machine.h"
#include "collector/plan.h"
#include "common/cleanup.h"
#include "common/json.h"

#include <inttypes.h>
#include <string.h>

enum { PAGE_BYTES = 4096 };

static const double MIB = 1024 * 1024;

static const json_t *fact(const struct doctor *doctor, const char *name)
{
	return json_object_get(doctor->machine, name);
}

static const char *text_of(const struct doctor *doctor, const char *name)
{
	return json_string_value(fact(doctor, name));
}

/* What the kernel does not tell cannot be mended either; a virtual machine's seldom does. */
static json_t *not_told(void)
{
	return doctor_finding(DOCTOR_OK, xstrdup("the kernel does not tell"), NULL);
}

/* ---- clock rate and threads */

static json_t *governor(const struct doctor *doctor)
{
	const char *names = text_of(doctor, "governor");
	if (!names)
		return not_told();
	if (!strcmp(names, "performance"))
		return doctor_finding(DOCTOR_OK, xstrdup(names), NULL);
	return doctor_finding(DOCTOR_WARN,
		xasprintf("%s: the clock rate follows the load, which differs by contender", names),
		xstrdup("cpupower frequency-set --governor performance (as root)"));
}

static json_t *turbo(const struct doctor *doctor)
{
	const json_t *on = fact(doctor, "turbo");
	if (!json_is_boolean(on))
		return not_told();
	if (json_is_false(on))
		return doctor_finding(DOCTOR_OK, xstrdup("off"), NULL);
	return doctor_finding(DOCTOR_WARN,
		xstrdup("on: the clock rate depends on the other cores and on heat"),
		xstrdup("as root: echo 1 >/sys/devices/system/cpu/intel_pstate/no_turbo, or "
			"echo 0 >/sys/devices/system/cpu/cpufreq/boost"));
}

/* A CPU of the contender's that is a thread of a core which the instrument uses too; -1: none. */
static int shared_thread(const struct doctor *doctor)
{
	auto_free char *sys_cpu = xasprintf("%s/sys/devices/system/cpu", doctor->root);
	for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		cpu_set_t threads;
		if (!CPU_ISSET(cpu, &doctor->contender))
			continue;
		cpus_core(sys_cpu, cpu, &threads);
		CPU_AND(&threads, &threads, &doctor->instrument);
		if (CPU_COUNT(&threads))
			return (int)cpu;
	}
	return -1;
}

static json_t *smt(const struct doctor *doctor)
{
	const char *active = text_of(doctor, "smt_active");
	if (!active)
		return not_told();
	if (strcmp(active, "1"))
		return doctor_finding(DOCTOR_OK, xstrdup("off"), NULL);
	int cpu = CPU_EQUAL(&doctor->instrument, &doctor->contender) ? -1 : shared_thread(doctor);
	if (cpu < 0)
		return doctor_finding(
			DOCTOR_OK, xstrdup("on; contender and mock share no core"), NULL);
	return doctor_finding(DOCTOR_WARN,
		xasprintf("on, and the contender's CPU %d is a thread of a core of the mock's: "
			  "each slows the other",
			cpu),
		xstrdup("as root: echo off >/sys/devices/system/cpu/smt/control, or cpusets of "
			"whole cores"));
}

/* ---- clocks */

static json_t *clock_source(const struct doctor *doctor)
{
	static const char *const slow[] = {"hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit"};
	const char *name = text_of(doctor, "clocksource");
	if (!name)
		return not_told();
	for (size_t i = 0; i < sizeof slow / sizeof *slow; i++)
		if (!strcmp(name, slow[i]))
			return doctor_finding(DOCTOR_WARN,
				xasprintf("%s: reading the time takes about a microsecond and a "
					  "system call",
					name),
				xstrdup("boot with a stable TSC (clocksource=tsc), on another "
					"machine if the kernel refuses"));
	return doctor_finding(DOCTOR_OK, xstrdup(name), NULL);
}

/* ---- others on the machine */

static double bound(const struct doctor *doctor, double of_plan, double otherwise)
{
	return doctor->plan && of_plan > 0 ? of_plan : otherwise;
}

static json_t *steal(const struct doctor *doctor)
{
	double most = bound(
		doctor, doctor->plan ? doctor->plan->bounds.steal_percent : 0, JUDGE_STEAL_PERCENT);
	if (doctor->steal_percent < 0)
		return not_told();
	if (doctor->steal_percent <= most)
		return doctor_finding(DOCTOR_OK,
			xasprintf("%.1f%% of the CPU time", doctor->steal_percent), NULL);
	return doctor_finding(DOCTOR_WARN,
		xasprintf("other machines on the host take %.1f%% of the CPU time, the bound of a "
			  "run is %g%%",
			doctor->steal_percent, most),
		xstrdup("wait, or use a machine with CPUs of its own: runs beyond the bound are "
			"not valid"));
}

static json_t *load(const struct doctor *doctor)
{
	double most = bound(doctor, doctor->plan ? doctor->plan->bounds.other_load_percent : 0,
		JUDGE_OTHER_LOAD_PERCENT);
	if (doctor->busy_percent < 0)
		return not_told();
	if (doctor->busy_percent <= most)
		return doctor_finding(DOCTOR_OK,
			xasprintf("%.0f%% of the contender's CPUs", doctor->busy_percent), NULL);
	return doctor_finding(DOCTOR_WARN,
		xasprintf("other programs take %.0f%% of the contender's CPUs, the bound of a run "
			  "is %g%%",
			doctor->busy_percent, most),
		xstrdup("end them: runs beyond the bound are not valid"));
}

static json_t *emulation(const struct doctor *doctor)
{
	if (!json_is_true(fact(doctor, "emulated")))
		return doctor_finding(DOCTOR_OK, xstrdup("none"), NULL);
	return doctor_finding(DOCTOR_WARN,
		xstrdup("this CPU is emulated by software: times are not shown, memory and sizes "
			"are"),
		xstrdup("measure times on a CPU that is there"));
}

/* ---- memory */

static json_t *page_size(const struct doctor *doctor)
{
	int64_t bytes = json_integer_value(fact(doctor, "page_bytes"));
	if (!bytes)
		return not_told();
	if (bytes == PAGE_BYTES)
		return doctor_finding(DOCTOR_OK, xstrdup("4 KiB"), NULL);
	return doctor_finding(DOCTOR_WARN,
		xasprintf("%" PRId64 " KiB: everything in memory is larger, and memory is counted "
			  "in steps of %.1f MiB a CPU",
			bytes / 1024, 64 * (double)bytes / MIB),
		xstrdup("compare memory with machines of the same page size only"));
}

static json_t *proactive_reclaim(const struct doctor *doctor)
{
	if (!json_is_true(fact(doctor, "proactive_reclaim")))
		return doctor_finding(DOCTOR_OK, xstrdup("off"), NULL);
	return doctor_finding(DOCTOR_WARN,
		xstrdup("the kernel (DAMON) throws out pages that were not used for a while: files "
			"of "
			"a contender are read again, and such runs are repeated"),
		xstrdup("as root: echo N >/sys/module/damon_reclaim/parameters/enabled, or "
			"echo off >/sys/kernel/mm/damon/admin/kdamonds/0/state"));
}

/* ---- network */

/* Requests go over the loopback: what paces or probes there is not the contender's. */
static json_t *congestion_control(const struct doctor *doctor)
{
	static const char *const plain[] = {"cubic", "reno"};
	const char *name = text_of(doctor, "tcp_congestion_control");
	if (!name)
		return not_told();
	for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
		if (!strcmp(name, plain[i]))
			return doctor_finding(DOCTOR_OK, xstrdup(name), NULL);
	return doctor_finding(DOCTOR_WARN,
		xasprintf("%s may pace or probe on the loopback: medians hardly move, tails may",
			name),
		xstrdup("sysctl -w net.ipv4.tcp_congestion_control=cubic (as root)"));
}

const struct doctor_check doctor_machine_checks[] = {
	{"governor", governor},
	{"turbo", turbo},
	{"smt", smt},
	{"clocksource", clock_source},
	{"steal", steal},
	{"load", load},
	{"emulation", emulation},
	{"page-size", page_size},
	{"proactive-reclaim", proactive_reclaim},
	{"congestion-control", congestion_control},
};
const size_t doctor_machine_count = sizeof doctor_machine_checks / sizeof *doctor_machine_checks;
