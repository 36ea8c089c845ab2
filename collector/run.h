/* One run: one fresh process of one contender in one fresh leaf, observed from start to end. */
#ifndef COLLECTOR_RUN_H
#define COLLECTOR_RUN_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "collector/cgroup_limits.h"
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
	int64_t page_bytes;              /* of the machine's memory */
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

#endif
