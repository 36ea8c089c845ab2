/*
 * The machine as the collector finds it: its CPUs and how they are shared out, what it is made of,
 * and what it did during a run.
 */
#ifndef COLLECTOR_MACHINE_H
#define COLLECTOR_MACHINE_H

#include <jansson.h>
#include <sched.h>
#include <stdint.h>

struct error;

/* ---- CPUs: lists as of cpuset(7), "0-2,5" */

int cpus_parse(const char *text, cpu_set_t *cpus, struct error *err);
/* `out` is cut at a whole item where it is too small (256 bytes hold 64 single CPUs). */
void cpus_format(const cpu_set_t *cpus, char *out, size_t size);

/* `sys_cpu` is /sys/devices/system/cpu. */
int cpus_online(const char *sys_cpu, cpu_set_t *cpus, struct error *err);
/* The threads of the core that a CPU belongs to; itself alone where the kernel does not tell. */
void cpus_core(const char *sys_cpu, size_t cpu, cpu_set_t *threads);

/*
 * Placement "split" of the CPUs in `all`: the instrument (mock and collector) gets two cores where
 * there are four or more, else one; the contender the others; threads of one core stay together,
 * except where there is but one core. Fails on one CPU.
 */
int cpus_split(const char *sys_cpu, const cpu_set_t *all, cpu_set_t *instrument,
	cpu_set_t *contender, struct error *err);

/* ---- what went on */

struct machine_times {
	int64_t steal_usec; /* of all CPUs */
	int64_t busy_usec;  /* of the chosen ones: neither idle nor waiting, guests included */
};

/* From a file like /proc/stat; its resolution is 10 ms. */
int machine_times(const char *proc_stat, const cpu_set_t *cpus, struct machine_times *times,
	struct error *err);

/* ---- what it is */

/* The part of environment.json that is the machine's. New reference. What cannot be read is null.
 * `root`, normally "", stands before /proc and /sys. */
json_t *machine_describe(const char *root);
/* 16 hex digits: equal for runs on like machines (CPU, memory, kernel). */
void machine_id(const json_t *description, char id[17]);

#endif
