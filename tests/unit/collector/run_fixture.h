/*
 * A good run of two sessions with three turns each, as the collector observes it; tests change what
 * they are about. Times are round so that every figure can be worked out in the head:
 *
 * spawn at 1 s; session k sends its first request 10k ms later (headers 1 ms before it is fully
 * read). Each stream takes 100 ms, each tool demands 5 ms, and the next request is fully read
 * 5 ms + (turn + k) ms after the stream's end: overheads of turn 1 and 2 are 2, 3 ms (s1) and
 * 3, 4 ms (s2).
 */
#ifndef TESTS_COLLECTOR_RUN_FIXTURE_H
#define TESTS_COLLECTOR_RUN_FIXTURE_H

#include "collector/record.h"
#include "common/clock.h"

#include <string.h>

static inline json_t *fixture_ledger(void)
{
	json_t *rows = json_array(), *columns = json_array();
	static const char *const names[] = {"session", "turn", "attempt", "connection",
		"headers_ns", "read_ns", "first_ns", "end_before_ns", "end_after_ns",
		"late_self_us", "late_peer_us", "tool_calls", "tool_demand_ns", "tool_wall_ns",
		"bytes_in", "bytes_out"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		json_array_append_new(columns, json_string(names[i]));
	for (int64_t session = 1; session <= 2; session++) {
		int64_t read_ns = NS_PER_S + session * 10 * NS_PER_MS;
		for (int64_t turn = 1; turn <= 3; turn++) {
			int64_t end_ns = read_ns + 100 * NS_PER_MS;
			bool tools = turn < 3;
			json_t *row = json_pack("[I,I,i,I,I,I,I,I,I,i,i,i]", session, turn, 1,
				session, read_ns - NS_PER_MS, read_ns, read_ns + 20 * NS_PER_MS,
				end_ns, end_ns + 10000, 20, 0, tools ? 2 : 0);
			json_array_append_new(
				row, tools ? json_integer(5 * NS_PER_MS) : json_null());
			json_array_append_new(
				row, tools ? json_integer(6 * NS_PER_MS) : json_null());
			json_array_append_new(row, json_integer(1000 * turn));
			json_array_append_new(row, json_integer(500));
			json_array_append_new(rows, row);
			read_ns = end_ns + (5 + turn + session) * NS_PER_MS;
		}
	}
	return json_pack("{s:s, s:s, s:i, s:i, s:I, s:I, s:o, s:o, s:i, s:i, s:i, s:i, s:i, s:{},"
			 "s:[], s:{s:i,s:i,s:i,s:i,s:i}, s:{s:i,s:i,s:i,s:i,s:i},"
			 "s:{s:i,s:i,s:i,s:i,s:i}, s:i, s:i, s:i, s:i, s:i}",
		"run", "r1", "scenario", "quick", "sessions", 2, "seed", 7, "begun_ns", NS_PER_S,
		"ended_ns", 2 * NS_PER_S, "columns", columns, "rows", rows, "sessions_complete", 2,
		"sessions_seen", 2, "connections", 2, "requests", 6, "events", 240, "error_counts",
		"errors", "late_self_us", "p50", 20, "p90", 50, "p99", 90, "max", 100, "n", 240,
		"late_peer_us", "p50", 0, "p90", 0, "p99", 0, "max", 0, "n", 240, "loop_us", "p50",
		5, "p90", 20, "p99", 60, "max", 80, "n", 500, "tool_calls", 8, "tool_stamps", 8,
		"tool_stamps_unmatched", 0, "history_bytes", 300000, "cpu_usec", 9000);
}

static inline json_t *fixture_agent_turns(void)
{
	json_t *turns = json_array();
	for (int64_t session = 1; session <= 2; session++) {
		char name[8] = {'s', (char)('0' + session), '\0'};
		for (int64_t turn = 1; turn <= 3; turn++)
			/* service 100 ms, demand 5 ms, and 1.5 ms of the agent's own */
			json_array_append_new(turns,
				json_pack("{s:s,s:s,s:I,s:i,s:I}", "event", "turn", "session", name,
					"turn", turn, "attempt", 1, "turn_ns", INT64_C(106500000)));
	}
	return turns;
}

static inline struct run_identity fixture_identity(void)
{
	return (struct run_identity){
		.plan_sha256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
		.run = 12,
		.block = 2,
		.run_seed = 7,
		.contender = "c",
		.track = "shipped",
		.sessions = 2,
		.scenario = "quick",
		.turns = 3,
		.suite_tool = true,
		.placement = "split",
		.mode = "local",
		.machine_cpus = 2,
		.page_bytes = 4096,
		.contender_cpus = 1,
		.asked = {512 << 20, 0, "1"},
		.in_force = {512 << 20, 0, "1"},
		.machine_id = "machine",
		.suite_version = "0.1.0",
		.executable_sha256 = NULL,
		.started_at = "2031-05-04T10:20:30Z",
	};
}

/* Release with fixture_release. */
static inline struct run_facts fixture_facts(void)
{
	return (struct run_facts){
		.spawn_ns = NS_PER_S,
		.exit_ns = 2 * NS_PER_S,
		.done_ns = 2 * NS_PER_S - NS_PER_MS,
		.started = true,
		.exited = true,
		.stdout_bytes = 600,
		.agent_turns = fixture_agent_turns(),
		.agent_errors = json_array(),
		.backend = CGROUP_V2,
		.memory_peak_bytes = 8 << 20,
		.memory_limit_bytes = 512 << 20,
		.at_peak = {NS_PER_S, 7 << 20, 4 << 20, 1 << 20, 1 << 20, 4096, 65536},
		.memory_samples = 10,
		.cpu_usage_usec = 13000,
		.cpu_user_usec = 9000,
		.cpu_system_usec = 4000,
		.cpu_at_first_request_usec = 1000,
		.cpu_user_at_first_request_usec = 600,
		.cpu_system_at_first_request_usec = 400,
		.rss_peak_bytes = 6 << 20,
		.pss_bytes = 5 << 20,
		.processes_at_barrier = 1,
		.wall_usec = 1000000,
		.limits_in_force = true,
		.ledger = fixture_ledger(),
		.missing = json_object(),
	};
}

static inline void fixture_release(struct run_facts *facts)
{
	json_decref(facts->agent_turns);
	json_decref(facts->agent_errors);
	json_decref(facts->ledger);
	json_decref(facts->missing);
}

#endif
