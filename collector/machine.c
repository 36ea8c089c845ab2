#include "collector/machine.h"

#include "collector/digest.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"
#include "common/json.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/utsname.h>

enum { SMALL_FILE = 64 << 10, PROC_FILE = 4 << 20 };

/* ---- CPUs */

int cpus_parse(const char *text, cpu_set_t *cpus, struct error *err)
{
	cpu_set_t found;
	CPU_ZERO(&found);
	for (const char *at = text; *at;) {
		char *end;
		errno = 0;
		long first = strtol(at, &end, 10), last = first;
		bool good = isdigit((unsigned char)*at) && !errno;
		if (good && *end == '-') {
			at = end + 1;
			last = strtol(at, &end, 10);
			good = isdigit((unsigned char)*at) && !errno;
		}
		if (!good || first > last || last >= CPU_SETSIZE || (*end && *end != ','))
			return error_set(err, 0, "'%.200s' is no list of CPUs, like 0-2,5", text);
		for (long cpu = first; cpu <= last; cpu++)
			CPU_SET((size_t)cpu, &found);
		at = *end ? end + 1 : end;
	}
	*cpus = found;
	return 0;
}

void cpus_format(const cpu_set_t *cpus, char *out, size_t size)
{
	size_t length = 0;
	*out = '\0';
	for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, cpus))
			continue;
		size_t last = cpu;
		while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, cpus))
			last++;
		char item[32];
		snprintf(item, sizeof item, last > cpu ? "%s%zu-%zu" : "%s%zu", length ? "," : "",
			cpu, last);
		if (length + strlen(item) + 1 > size)
			return;
		memcpy(out + length, item, strlen(item) + 1);
		length += strlen(item);
		cpu = last;
	}
}

/* A file's first line, or "" if it is not there. */
static void read_line(const char *path, char *line, size_t size)
{
	auto_fclose FILE *file = fopen(path, "re");
	if (!file || !fgets(line, (int)size, file))
		*line = '\0';
	line[strcspn(line, "\n")] = '\0';
}

int cpus_online(const char *sys_cpu, cpu_set_t *cpus, struct error *err)
{
	char line[512];
	auto_free char *path = xasprintf("%s/online", sys_cpu);
	read_line(path, line, sizeof line);
	if (!*line)
		return error_set(err, 0, "cannot read '%s'", path);
	return cpus_parse(line, cpus, err);
}

void cpus_core(const char *sys_cpu, size_t cpu, cpu_set_t *threads)
{
	char line[256];
	auto_free char *path = xasprintf("%s/cpu%zu/topology/thread_siblings_list", sys_cpu, cpu);
	read_line(path, line, sizeof line);
	struct error ignored;
	if (!*line || cpus_parse(line, threads, &ignored)) {
		CPU_ZERO(threads);
		CPU_SET(cpu, threads);
	}
}

int cpus_split(const char *sys_cpu, const cpu_set_t *all, cpu_set_t *instrument,
	cpu_set_t *contender, struct error *err)
{
	if (CPU_COUNT(all) < 2)
		return error_set(err, 0,
			"placement 'split' needs two CPUs, this process may use one: set the "
			"plan's placement to \"shared\"");
	cpu_set_t cores[CPU_SETSIZE]; /* the threads of each, of those in `all` */
	size_t count = 0;
	cpu_set_t seen;
	CPU_ZERO(&seen);
	for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, all) || CPU_ISSET(cpu, &seen))
			continue;
		cpu_set_t threads;
		cpus_core(sys_cpu, cpu, &threads);
		CPU_AND(&cores[count], &threads, all);
		CPU_OR(&seen, &seen, &cores[count]);
		count++;
	}
	CPU_ZERO(instrument);
	if (count == 1) {
		size_t first = 0;
		while (!CPU_ISSET(first, all))
			first++;
		CPU_SET(first, instrument);
	} else {
		for (size_t i = 0; i < (count < 4 ? 1 : 2); i++)
			CPU_OR(instrument, instrument, &cores[i]);
	}
	CPU_XOR(contender, all, instrument);
	return 0;
}

/* ---- what went on */

/* "cpuN user nice system idle iowait irq softirq steal guest guest_nice", in ticks; guest time is
 * part of user time. */
enum { USER, NICE, SYSTEM, IDLE, IOWAIT, IRQ, SOFTIRQ, STEAL, COLUMNS };

static bool parse_ticks(const char *at, int64_t ticks[COLUMNS])
{
	for (int i = 0; i < COLUMNS; i++) {
		char *end;
		ticks[i] = strtoll(at, &end, 10);
		if (end == at)
			return false;
		at = end;
	}
	return true;
}

int machine_times(const char *proc_stat, const cpu_set_t *cpus, struct machine_times *times,
	struct error *err)
{
	auto_fclose FILE *file = fopen(proc_stat, "re");
	if (!file)
		return error_set(err, errno, "cannot open '%s'", proc_stat);
	int64_t tick_usec = 1000000 / sysconf(_SC_CLK_TCK);
	struct machine_times found = {0};
	bool any = false;
	char line[512];
	while (fgets(line, sizeof line, file) && !strncmp(line, "cpu", 3)) {
		int64_t t[COLUMNS];
		char *end;
		if (line[3] == ' ') {
			any = parse_ticks(line + 3, t);
			found.steal_usec = any ? t[STEAL] * tick_usec : 0;
			continue;
		}
		unsigned long cpu = strtoul(line + 3, &end, 10);
		if (cpu < CPU_SETSIZE && CPU_ISSET(cpu, cpus) && parse_ticks(end, t))
			found.busy_usec +=
				(t[USER] + t[NICE] + t[SYSTEM] + t[IRQ] + t[SOFTIRQ]) * tick_usec;
	}
	if (!any)
		return error_set(err, 0, "'%s' does not tell the CPUs' times", proc_stat);
	*times = found;
	return 0;
}

/* ---- what it is; `root` stands before /proc and /sys */

/* The value of "key : value" or "key: value kB" in a file of /proc; NULL if it is not there. */
static char *read_key(const char *root, const char *file, const char *key)
{
	auto_buf struct buf text;
	struct error ignored;
	auto_free char *path = xasprintf("%s%s", root, file);
	if (file_read(AT_FDCWD, path, PROC_FILE, &text, &ignored) || !text.data)
		return NULL;
	size_t length = strlen(key);
	for (char *line = text.data; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, length))
			continue;
		char *at = line + length;
		at += strspn(at, " \t");
		if (*at != ':')
			continue;
		at++;
		at += strspn(at, " \t");
		return xasprintf("%.*s", (int)strcspn(at, "\n"), at);
	}
	return NULL;
}

static json_t *text_or_null(const char *text)
{
	return text && *text ? json_text(text, 200) : json_null();
}

static void read_line_of(const char *root, const char *file, char *line, size_t size)
{
	auto_free char *path = xasprintf("%s%s", root, file);
	read_line(path, line, size);
}

static json_t *line_or_null(const char *root, const char *file)
{
	char line[512];
	read_line_of(root, file, line, sizeof line);
	return text_or_null(line);
}

/* kB of /proc/meminfo, in bytes */
static json_t *meminfo(const char *root, const char *key)
{
	auto_free char *text = read_key(root, "/proc/meminfo", key);
	char *end;
	long long value = text ? strtoll(text, &end, 10) : 0;
	return text && end != text ? json_integer(value * 1024) : json_null();
}

/*
 * Software emulation leaves times without meaning. QEMU says so in the name of the CPU on x86, and
 * by implementer 0 on arm.
 */
static bool is_emulated(const char *root, const char *cpu_model)
{
	auto_free char *implementer = read_key(root, "/proc/cpuinfo", "CPU implementer");
	return (cpu_model && strstr(cpu_model, "QEMU TCG")) ||
	       (implementer && !strcmp(implementer, "0x00"));
}

#define CPU_SYS "/sys/devices/system/cpu"

static json_t *turbo(const char *root)
{
	char line[64];
	read_line_of(root, CPU_SYS "/intel_pstate/no_turbo", line, sizeof line);
	if (*line)
		return json_boolean(*line == '0');
	read_line_of(root, CPU_SYS "/cpufreq/boost", line, sizeof line);
	return *line ? json_boolean(*line == '1') : json_null();
}

/* The governors of all CPUs, each named once: "performance", "powersave, performance". */
static json_t *governors(const char *root)
{
	cpu_set_t cpus;
	struct error ignored;
	auto_free char *sys_cpu = xasprintf("%s" CPU_SYS, root);
	auto_buf struct buf names;
	buf_init(&names, 200);
	if (cpus_online(sys_cpu, &cpus, &ignored))
		CPU_ZERO(&cpus);
	for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		char name[64];
		auto_free char *file = xasprintf(CPU_SYS "/cpu%zu/cpufreq/scaling_governor", cpu);
		if (!CPU_ISSET(cpu, &cpus))
			continue;
		read_line_of(root, file, name, sizeof name);
		if (*name && (!names.data || !strstr(names.data, name)))
			buf_addf(&names, "%s%s", names.length ? ", " : "", name);
	}
	return text_or_null(names.data);
}

/* Does the kernel throw out pages that nobody used for a while, although there is room? Then files
 * of a contender may have to be read again. */
static bool reclaims_ahead(const char *root)
{
	char line[64];
	read_line_of(root, "/sys/module/damon_reclaim/parameters/enabled", line, sizeof line);
	if (*line == 'Y')
		return true;
	read_line_of(root, "/sys/kernel/mm/damon/admin/kdamonds/0/state", line, sizeof line);
	return !strcmp(line, "on");
}

json_t *machine_describe(const char *root)
{
	struct utsname names;
	uname(&names);
	json_t *machine = json_object();
	auto_free char *model = read_key(root, "/proc/cpuinfo", "model name");
	if (!model)
		model = read_key(root, "/proc/cpuinfo", "CPU part");
	auto_free char *flags = read_key(root, "/proc/cpuinfo", "flags");
	json_set(machine, "architecture", json_text(names.machine, 60));
	json_set(machine, "kernel", json_text(names.release, 200));
	json_set(machine, "cpu_model", text_or_null(model));
	json_set(machine, "cpus_online", json_integer(sysconf(_SC_NPROCESSORS_ONLN)));
	json_set(machine, "smt_active", line_or_null(root, CPU_SYS "/smt/active"));
	json_set(machine, "memory_bytes", meminfo(root, "MemTotal"));
	json_set(machine, "swap_bytes", meminfo(root, "SwapTotal"));
	json_set(machine, "page_bytes", json_integer(sysconf(_SC_PAGESIZE)));
	json_set(machine, "governor", governors(root));
	json_set(machine, "turbo", turbo(root));
	json_set(machine, "clocksource",
		line_or_null(
			root, "/sys/devices/system/clocksource/clocksource0/current_clocksource"));
	json_set(machine, "transparent_hugepages",
		line_or_null(root, "/sys/kernel/mm/transparent_hugepage/enabled"));
	json_set(machine, "proactive_reclaim", json_boolean(reclaims_ahead(root)));
	json_set(machine, "tcp_congestion_control",
		line_or_null(root, "/proc/sys/net/ipv4/tcp_congestion_control"));
	json_set(machine, "virtual",
		flags ? json_boolean(strstr(flags, " hypervisor")) : json_null());
	json_set(machine, "emulated", json_boolean(is_emulated(root, model)));
	return machine;
}

void machine_id(const json_t *description, char id[17])
{
	static const char *const parts[] = {
		"architecture", "kernel", "cpu_model", "cpus_online", "memory_bytes"};
	json_auto_t *chosen = json_array();
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		json_array_append(chosen, json_object_get(description, parts[i]));
	char hex[DIGEST_HEX];
	digest_json(chosen, hex);
	memcpy(id, hex, 16);
	id[16] = '\0';
}
