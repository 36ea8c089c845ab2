/*
 * The record of one run: what the run is (struct run_identity) and what was observed (struct
 * run_facts) become one judged JSON object, a line of runs.jsonl, and a sample file with a row a
 * turn. Names and meanings of all fields: docs/method.md.
 */
#ifndef COLLECTOR_RECORD_H
#define COLLECTOR_RECORD_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "collector/run_facts.h"

struct error;

enum { RECORD_SCHEMA = 1 };

/* Limits of a contender, as asked or as read back. */
struct run_limits {
	int64_t memory_bytes; /* FACT_MISSING: none, or not known */
	double cpu_quota;     /* CPUs; 0: none */
	const char *cpus;     /* list as of cpuset(7), "0-1"; NULL: not known */
};

/* What makes a run invalid; 0 in a field takes the default of judge.h. */
struct run_bounds {
	int64_t late_self_p99_us;  /* of the mock's events, by its own doing */
	int64_t loop_p99_us;       /* of the mock's loop */
	double steal_percent;      /* of the machine's CPU time */
	double other_load_percent; /* of the contender's CPUs' time */
};

/* All texts are borrowed and stay the caller's. */
struct run_identity {
	const char *plan_sha256; /* 64 hex digits */
	int64_t run;             /* number in this results folder, from 1: samples/RUN.csv */
	int64_t block;           /* from 1; a run repeated for being invalid keeps its block */
	int64_t run_seed;        /* the mock's */
	bool warm_up;            /* recorded, but in no figure of the summary */
	bool cold;               /* files evicted first */

	const char *contender;
	const char *track; /* "shipped" or "equalised" */
	int64_t sessions;
	const char *scenario;
	int64_t turns;   /* of a session, as the scenario has it */
	bool suite_tool; /* its tools are tmtool: a demand is known */

	const char *placement;  /* "split" or "shared" */
	const char *mode;       /* "container" or "local" */
	bool emulated;          /* machine is emulated: `timed` is false */
	int64_t machine_cpus;   /* online CPUs */
	int64_t page_bytes;     /* of the machine's memory */
	int64_t contender_cpus; /* CPUs of the contender's set */
	struct run_limits asked, in_force;
	struct run_bounds bounds;

	const char *machine_id;
	const char *suite_version;
	const char *executable_sha256; /* NULL: not known */
	const char *started_at; /* UTC, "2031-05-04T10:20:30Z"; a label, nothing is computed */
};

/* How a record is printed: one line. Figures are rounded: 17 digits would show what binary makes of
 * that. */
#define RECORD_DUMP_FLAGS (JSON_COMPACT | JSON_REAL_PRECISION(15))

/*
 * The judged record: identity, outcome, validity, every figure. New reference, never NULL. One line
 * of runs.jsonl is json_dumps(record, RECORD_DUMP_FLAGS) and an LF, in one write. Of its members a
 * run needs "outcome" ("ok", "oom", …), "valid" and "invalid_reasons" to go on with its plan.
 */
json_t *record_make(const struct run_identity *identity, const struct run_facts *facts);

/* What a record calls it: its "cgroup_backend". Static. */
const char *record_backend_name(enum cgroup_backend backend);

/*
 * Write samples/RUN.csv below the results folder `dir_fd` (the folder samples/ is made when it is
 * not there): temporary name, fsync, rename. Times are ns from the run's start (spawn_ns). Without
 * a ledger the file has its header only.
 */
int record_write_samples(int dir_fd, const struct run_identity *identity,
	const struct run_facts *facts, struct error *err);

#endif
