/* One run: one fresh process of one contender in one fresh leaf, observed from start to end. */
#ifndef COLLECTOR_RUN_H
#define COLLECTOR_RUN_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "collector/cgroup.h"
#include "collector/run_facts.h"

struct error;
struct launcher;
struct loop;
struct manifest;
struct mock_client;
struct scenario;

/* All is borrowed. */
struct run_setup {
	struct loop *loop;
	struct launcher *launcher; /* the contender's */
	const struct cgroup *container;
	struct mock_client *mock;
	int64_t mock_port;
	const struct manifest *manifest;
	const char *track;
	const struct scenario *scenario; /* loaded in the mock under this name */
	const char *model;               /* that name */
	int64_t sessions, seed, timeout_s;
	bool report; /* AGENT_REPORT */
	const struct cgroup_limits *asked;
	bool machine_swaps;              /* the machine has swap at all */
	const cpu_set_t *contender_cpus; /* for the load of others on them */
	const bool *stop;                /* set by a callback of the loop: end the run */
};

/*
 * Play it. Whatever the contender does is a fact; -1 is a fault of the instrument (mock or launcher
 * lost, cgroup not writable). Nothing of the run is left either way. *facts is to be released with
 * run_facts_release in both cases; *in_force gets the limits read back.
 */
int run_play(const struct run_setup *setup, struct run_facts *facts, struct cgroup_limits *in_force,
	struct error *err);
void run_facts_release(struct run_facts *facts);

/*
 * Run the contender's version command, outside of any measurement: the first line of its output,
 * printable, malloc'ed. NULL with the reason if it fails or lasts longer than 20 s.
 */
char *run_version(struct loop *loop, struct launcher *launcher, const struct manifest *manifest,
	struct error *err);

/*
 * The limits of a container, or of a leaf of it, as in force. The CPUs are those of the launcher's
 * affinity where there is no cpuset controller.
 */
int run_limits_in_force(const struct cgroup *leaf, const struct cgroup *container,
	const struct launcher *launcher, struct cgroup_limits *in_force, struct error *err);

/* ---- parts, for tests */

/* CPU use of the leaf at one instant. */
struct cpu_point {
	int64_t at_ns;
	struct cgroup_cpu cpu;
};

/* The use at `at_ns`, by linear interpolation between the points around it; -1 without points. */
int cpu_points_at(
	const struct cpu_point *points, size_t count, int64_t at_ns, struct cgroup_cpu *cpu);

/* Time of the next point: 1 ms after the last one, or a 64th of the time since the start, at most
 * 100 ms. */
int64_t cpu_point_next_ns(int64_t start_ns, int64_t now_ns);

/* Is what was asked in force? If not, `detail` says what differs. */
bool limits_match(const struct cgroup_limits *asked, const struct cgroup_limits *found,
	bool machine_swaps, char *detail, size_t size);

/* Sort the lines of a contender's stdout into facts. */
void stdout_lines_read(const char *text, size_t length, struct run_facts *facts);

#endif
