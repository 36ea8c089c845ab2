#include "collector/doctor.h"

#include "collector/doctor_cgroup.h"
#include "collector/doctor_machine.h"
#include "collector/doctor_plan.h"
#include "collector/escape.h"
#include "collector/machine.h"
#include "collector/plan.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

enum { SESSIONS_WITHOUT_PLAN = 100, TEXT_MAX = 1000 };

static const char *const status_names[] = {"ok", "warn", "fail"};

/* ---- looking */

static void share_out_cpus(struct doctor *doctor)
{
	auto_free char *sys_cpu = xasprintf("%s/sys/devices/system/cpu", doctor->root);
	bool split = !doctor->plan || doctor->plan->split;
	*doctor->split_problem.text = '\0';
	doctor->instrument = doctor->contender = doctor->cpus;
	if (doctor->containers) {
		/* Containers have their CPUs given from outside: these are the instrument's. */
		cpu_set_t online;
		struct error ignored;
		if (!cpus_online(sys_cpu, &online, &ignored)) {
			CPU_AND(&online, &online, &doctor->cpus);
			CPU_ZERO(&doctor->contender);
			cpus_online(sys_cpu, &doctor->contender, &ignored);
			CPU_XOR(&doctor->contender, &doctor->contender, &online);
		}
		if (!CPU_COUNT(&doctor->contender))
			doctor->contender = doctor->cpus;
	} else if (split) {
		cpus_split(sys_cpu, &doctor->cpus, &doctor->instrument, &doctor->contender,
			&doctor->split_problem);
	}
}

/* Shares of the CPUs' time, in percent, that others took while we did nothing. */
static void watch_cpus(struct doctor *doctor, int64_t watch_ns)
{
	auto_free char *path = xasprintf("%s/proc/stat", doctor->root);
	struct machine_times before, after;
	struct error ignored;
	doctor->steal_percent = doctor->busy_percent = -1;
	if (machine_times(path, &doctor->contender, &before, &ignored))
		return;
	int64_t begun_ns = now_ns();
	nanosleep(&(struct timespec){.tv_sec = watch_ns / NS_PER_S, .tv_nsec = watch_ns % NS_PER_S},
		NULL);
	double usec = (double)(now_ns() - begun_ns) / 1000;
	if (machine_times(path, &doctor->contender, &after, &ignored) || usec <= 0)
		return;
	int64_t online = json_integer_value(json_object_get(doctor->machine, "cpus_online"));
	/* More than all, as ticks are counted, is all. */
	doctor->steal_percent = 100 * (double)(after.steal_usec - before.steal_usec) /
				(usec * (double)(online > 0 ? online : 1));
	doctor->busy_percent = 100 * (double)(after.busy_usec - before.busy_usec) /
			       (usec * CPU_COUNT(&doctor->contender));
	doctor->steal_percent = doctor->steal_percent > 100 ? 100 : doctor->steal_percent;
	doctor->busy_percent = doctor->busy_percent > 100 ? 100 : doctor->busy_percent;
}

/* Of the folder, or of the one that it will be made in. */
static int64_t disk_free(const char *folder)
{
	auto_free char *path = xstrdup(*folder ? folder : ".");
	struct statvfs status;
	while (statvfs(path, &status)) {
		char *slash = strrchr(path, '/');
		if (!strcmp(path, ".") || !strcmp(path, "/"))
			return -1;
		if (slash && slash > path)
			*slash = '\0';
		else
			memcpy(path, slash ? "/" : ".", 2);
	}
	/* /proc and the like have no blocks at all. */
	return status.f_blocks ? (int64_t)(status.f_bavail * status.f_frsize) : -1;
}

void doctor_look(struct doctor *doctor, int64_t watch_ns)
{
	struct rlimit limit;
	doctor->machine = machine_describe(doctor->root);
	if (sched_getaffinity(0, sizeof doctor->cpus, &doctor->cpus)) {
		CPU_ZERO(&doctor->cpus);
		CPU_SET(0, &doctor->cpus);
	}
	doctor->descriptors = getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_max == RLIM_INFINITY
				      ? -1
				      : (int64_t)limit.rlim_max;
	doctor->disk_free_bytes = disk_free(doctor->results);
	share_out_cpus(doctor);
	watch_cpus(doctor, watch_ns);
}

void doctor_release(struct doctor *doctor)
{
	json_decref(doctor->machine);
	doctor->machine = NULL;
}

int64_t doctor_sessions(const struct doctor *doctor)
{
	int64_t most = doctor->plan ? 1 : SESSIONS_WITHOUT_PLAN;
	for (size_t i = 0; doctor->plan && i < doctor->plan->session_count; i++)
		if (doctor->plan->sessions[i] > most)
			most = doctor->plan->sessions[i];
	return most;
}

/* ---- findings */

json_t *doctor_finding(enum doctor_status status, char *found, char *remedy)
{
	json_t *finding = json_object();
	json_set(finding, "status", json_string(status_names[status]));
	json_set(finding, "found", json_text(found, TEXT_MAX));
	json_set(finding, "remedy", remedy ? json_text(remedy, TEXT_MAX) : json_null());
	free(found);
	free(remedy);
	return finding;
}

json_t *doctor_examine(const struct doctor *doctor)
{
	const struct {
		const struct doctor_check *checks;
		size_t count;
	} parts[] = {{doctor_cgroup_checks, doctor_cgroup_count},
		{doctor_machine_checks, doctor_machine_count},
		{doctor_plan_checks, doctor_plan_count}};
	json_t *findings = json_array();
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		for (size_t k = 0; k < parts[i].count; k++) {
			json_t *finding = parts[i].checks[k].examine(doctor);
			if (!finding)
				continue;
			json_t *named = json_object();
			json_set(named, "id", json_string(parts[i].checks[k].id));
			json_object_update(named, finding);
			json_decref(finding);
			json_array_append_new(findings, named);
		}
	}
	return findings;
}

static const char *text_of(const json_t *finding, const char *name)
{
	return json_string_value(json_object_get(finding, name));
}

size_t doctor_count(const json_t *findings, const char *status)
{
	size_t count = 0, i;
	const json_t *finding;
	json_array_foreach(findings, i, finding) count +=
		!strcmp(text_of(finding, "status"), status);
	return count;
}

int doctor_first_failure(const json_t *findings, struct error *err)
{
	size_t i;
	const json_t *finding;
	json_array_foreach(findings, i, finding)
	{
		if (strcmp(text_of(finding, "status"), status_names[DOCTOR_FAIL]))
			continue;
		const char *remedy = text_of(finding, "remedy");
		return error_set(err, 0, "%s%s%s", text_of(finding, "found"), remedy ? ": " : "",
			remedy ? remedy : "");
	}
	return 0;
}

void doctor_text(const json_t *findings, bool colour, struct buf *out)
{
	static const struct {
		const char *status, *colour;
	} marks[] = {{"ok", "\033[32m"}, {"warn", "\033[33m"}, {"fail", "\033[31m"}};
	size_t i;
	const json_t *finding;
	json_array_foreach(findings, i, finding)
	{
		const char *status = text_of(finding, "status"), *remedy;
		const char *before = "";
		for (size_t k = 0; colour && k < sizeof marks / sizeof *marks; k++)
			if (!strcmp(status, marks[k].status))
				before = marks[k].colour;
		buf_addf(out, "%s%-4s%s  %-18s  ", before, status, *before ? "\033[0m" : "",
			text_of(finding, "id"));
		escape_plain(out, text_of(finding, "found"));
		buf_add_char(out, '\n');
		remedy = text_of(finding, "remedy");
		if (remedy) {
			buf_addf(out, "%26s", "");
			escape_plain(out, remedy);
			buf_add_char(out, '\n');
		}
	}
	buf_addf(out, "%zu ok, %zu to be aware of, %zu in the way\n", doctor_count(findings, "ok"),
		doctor_count(findings, "warn"), doctor_count(findings, "fail"));
}
