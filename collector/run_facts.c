#include "collector/run_facts.h"

#include "common/json.h"

#include <stddef.h>

enum { REASON_MAX = 400 };

void run_facts_miss(struct run_facts *facts, const char *field, const char *reason)
{
	json_object_set_new(facts->missing, field, json_text(reason, REASON_MAX));
}

void run_facts_init(struct run_facts *facts)
{
	*facts = (struct run_facts){
		.spawn_ns = FACT_MISSING,
		.exit_ns = FACT_MISSING,
		.done_ns = FACT_MISSING,
		.leftover_processes = FACT_MISSING,
		.agent_turns = json_array(),
		.agent_errors = json_array(),
		.memory_peak_bytes = FACT_MISSING,
		.memory_limit_bytes = FACT_MISSING,
		.at_peak = {FACT_MISSING, FACT_MISSING, FACT_MISSING, FACT_MISSING, FACT_MISSING,
			FACT_MISSING, FACT_MISSING},
		.cpu_usage_usec = FACT_MISSING,
		.cpu_user_usec = FACT_MISSING,
		.cpu_system_usec = FACT_MISSING,
		.cpu_at_first_request_usec = FACT_MISSING,
		.cpu_user_at_first_request_usec = FACT_MISSING,
		.cpu_system_at_first_request_usec = FACT_MISSING,
		.oom_events = FACT_MISSING,
		.oom_kill_events = FACT_MISSING,
		.refault_events = FACT_MISSING,
		.swap_peak_bytes = FACT_MISSING,
		.throttled_usec = FACT_MISSING,
		.nr_throttled = FACT_MISSING,
		.pressure_cpu_usec = FACT_MISSING,
		.pressure_memory_usec = FACT_MISSING,
		.pressure_io_usec = FACT_MISSING,
		.rss_peak_bytes = FACT_MISSING,
		.pss_bytes = FACT_MISSING,
		.processes_at_barrier = FACT_MISSING,
		.steal_usec = FACT_MISSING,
		.other_load_usec = FACT_MISSING,
		.wall_usec = FACT_MISSING,
		.missing = json_object(),
	};
}

void run_facts_release(struct run_facts *facts)
{
	json_decref(facts->agent_turns);
	json_decref(facts->agent_errors);
	json_decref(facts->ledger);
	json_decref(facts->missing);
	facts->agent_turns = facts->agent_errors = facts->ledger = facts->missing = NULL;
}
