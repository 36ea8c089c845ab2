/*
 * What one run left behind, as observed: filled by the run (run.h), judged and turned into a record
 * of runs.jsonl by record.h. No figure is computed here. A number that could not be read is
 * FACT_MISSING, and `missing` says why; it becomes null with that reason, never zero.
 */
#ifndef COLLECTOR_RUN_FACTS_H
#define COLLECTOR_RUN_FACTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define FACT_MISSING INT64_MIN

enum cgroup_backend {
	CGROUP_V2,         /* memory.peak */
	CGROUP_V2_SAMPLED, /* no memory.peak (before Linux 5.19): highest sampled memory.current */
	CGROUP_V1,         /* v1 or hybrid */
};

/* One 10 Hz sample of the leaf (memory.stat and memory.current), bytes. */
struct memory_sample {
	int64_t at_ns;
	int64_t total_bytes;
	int64_t anon_bytes, file_bytes, kernel_bytes, sock_bytes, shmem_bytes;
};

struct run_facts {
	/* the process */
	int64_t spawn_ns; /* just before exec in the child, CLOCK_MONOTONIC */
	int64_t exit_ns;
	int64_t done_ns;  /* {"event":"done"} was read; FACT_MISSING if it never came */
	bool started;     /* exec happened */
	int exec_errno;   /* why not, if not */
	bool exited;      /* by itself: exit_status is valid (a signal of its own doing included) */
	int exit_status;  /* as of waitpid(2) */
	bool timed_out;   /* the plan's run_timeout_s passed, the run was killed */
	bool interrupted; /* the collector was asked to stop */
	int64_t leftover_processes; /* still in the leaf when the main process had ended */
	bool stdout_flooded;        /* more output than the contract allows */
	int64_t stdout_bytes, stdout_bad_lines; /* lines that are no JSON event of the contract */
	char stderr_tail[1024];                 /* last bytes of stderr, printable */
	json_t *agent_turns;  /* array of the {"event":"turn"} objects, in order */
	json_t *agent_errors; /* array of the {"event":"error"} objects, the first 20 */

	/* memory and CPU of the leaf; all bytes and microseconds */
	enum cgroup_backend backend;
	int64_t memory_peak_bytes;
	int64_t memory_limit_bytes; /* in force in the container; FACT_MISSING: none */
	struct memory_sample at_peak;
	int64_t memory_samples;
	int64_t cpu_usage_usec, cpu_user_usec, cpu_system_usec;
	/* the same when the first request was seen */
	int64_t cpu_at_first_request_usec;
	int64_t cpu_user_at_first_request_usec, cpu_system_at_first_request_usec;
	int64_t oom_events, oom_kill_events; /* leaf and container, deltas */
	int64_t refault_events;              /* workingset_refault_*, delta */
	int64_t swap_peak_bytes;             /* 0 where swap is off in the container */
	/* deltas of the container's cpu.stat (quota) and of the leaf's pressure files */
	int64_t throttled_usec, nr_throttled;
	int64_t pressure_cpu_usec, pressure_memory_usec, pressure_io_usec;

	/* read at the barrier by the launcher */
	int64_t rss_peak_bytes, pss_bytes, processes_at_barrier;

	/* the machine during the run */
	int64_t steal_usec;      /* all CPUs, /proc/stat */
	int64_t other_load_usec; /* CPU time on the contender's CPUs that is not the leaf's */
	int64_t wall_usec;       /* spawn to exit */

	bool limits_in_force; /* what was read back is what was asked */
	char limits_detail[160];

	json_t *ledger; /* of the mock (docs/protocols.md); NULL if it could not be had */

	json_t *missing; /* object: field name -> reason */
};

/* All numbers FACT_MISSING, arrays and `missing` empty. */
void run_facts_init(struct run_facts *facts);
void run_facts_release(struct run_facts *facts);
/* Note why a field is missing. */
void run_facts_miss(struct run_facts *facts, const char *field, const char *reason);

#endif
