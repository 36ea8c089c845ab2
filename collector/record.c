#include "collector/record.h"

#include "collector/figures.h"
#include "collector/judge.h"
#include "collector/samples.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"
#include "common/json.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { TEXT_MAX = 400 };

/* A record in the making. */
struct draft {
	json_t *record;
	json_t *missing; /* of the record: member -> reason */
	const struct run_facts *facts;
};

static json_t *text(const char *value)
{
	return value ? json_text(value, TEXT_MAX) : json_null();
}

/* null instead of FACT_MISSING, for members whose absence needs no reason */
static json_t *integer_or_null(int64_t value)
{
	return value == FACT_MISSING ? json_null() : json_integer(value);
}

static void put(struct draft *draft, const char *name, json_t *value)
{
	json_object_set_new(draft->record, name, value);
}

static void put_missing(struct draft *draft, const char *name, const char *reason)
{
	put(draft, name, json_null());
	json_object_set_new(draft->missing, name, text(reason));
}

/* The reason that the run noted for a fact, or `otherwise`. */
static const char *noted(const struct draft *draft, const char *fact, const char *otherwise)
{
	const char *reason = json_string_value(json_object_get(draft->facts->missing, fact));
	return reason ? reason : otherwise;
}

static void put_fact(struct draft *draft, const char *name, int64_t value, const char *fact)
{
	if (value == FACT_MISSING)
		put_missing(draft, name, noted(draft, fact, "could not be read"));
	else
		put(draft, name, json_integer(value));
}

static json_t *limits(const struct run_limits *from)
{
	json_t *out = json_object();
	json_object_set_new(out, "memory_bytes", integer_or_null(from->memory_bytes));
	json_object_set_new(
		out, "cpu_quota", from->cpu_quota > 0 ? json_real(from->cpu_quota) : json_null());
	json_object_set_new(out, "cpus", text(from->cpus));
	return out;
}

const char *record_backend_name(enum cgroup_backend backend)
{
	switch (backend) {
	case CGROUP_V2:
		return "v2";
	case CGROUP_V2_SAMPLED:
		return "v2-sampled";
	case CGROUP_V1:
		return "v1";
	}
	return "unknown";
}

static void put_identity(struct draft *draft, const struct run_identity *identity)
{
	put(draft, "schema", json_integer(RECORD_SCHEMA));
	put(draft, "plan_sha256", text(identity->plan_sha256));
	put(draft, "run", json_integer(identity->run));
	put(draft, "block", json_integer(identity->block));
	put(draft, "run_seed", json_integer(identity->run_seed));
	put(draft, "warm_up", json_boolean(identity->warm_up));
	put(draft, "cold", json_boolean(identity->cold));
	put(draft, "contender", text(identity->contender));
	put(draft, "track", text(identity->track));
	put(draft, "sessions", json_integer(identity->sessions));
	put(draft, "scenario", text(identity->scenario));
	put(draft, "turns", json_integer(identity->turns));
	put(draft, "suite_tool", json_boolean(identity->suite_tool));
	put(draft, "placement", text(identity->placement));
	put(draft, "mode", text(identity->mode));
	json_t *both = json_object();
	json_object_set_new(both, "asked", limits(&identity->asked));
	json_object_set_new(both, "in_force", limits(&identity->in_force));
	put(draft, "limits", both);
	put(draft, "cgroup_backend", json_string(record_backend_name(draft->facts->backend)));
	put(draft, "machine_id", text(identity->machine_id));
	put(draft, "suite_version", text(identity->suite_version));
	put(draft, "executable_sha256", text(identity->executable_sha256));
	put(draft, "timed", json_boolean(!identity->emulated));
	put(draft, "started_at", text(identity->started_at));
}

static void put_distribution(
	struct draft *draft, const char *name, struct series *series, const char *reason)
{
	json_t *value = series_distribution(series);
	if (value)
		put(draft, name, value);
	else
		put_missing(draft, name, reason);
}

static void put_startup(
	struct draft *draft, const struct run_identity *identity, const struct samples *samples)
{
	int64_t first_ns = FACT_MISSING;
	for (size_t i = 0; samples && i < samples->count; i++) {
		int64_t headers_ns = samples->rows[i].headers_ns;
		if (headers_ns != FACT_MISSING &&
			(first_ns == FACT_MISSING || headers_ns < first_ns))
			first_ns = headers_ns;
	}
	if (identity->sessions != 1)
		put_missing(draft, "startup_ms", "measured in runs of one session");
	else if (first_ns == FACT_MISSING)
		put_missing(draft, "startup_ms", "no request was seen");
	else
		put(draft, "startup_ms", json_real((double)first_ns / 1e6));
}

static void put_turn_figures(struct draft *draft, const struct run_identity *identity,
	struct turn_figures *turns, bool ledger)
{
	const char *none = ledger ? "no turn was followed by another" : "no ledger";
	put_distribution(draft, "first_request_ms", &turns->first_request_ms,
		ledger ? "no request was seen" : "no ledger");
	put_distribution(draft, "turn_gap_ms", &turns->turn_gap_ms, none);
	put_distribution(draft, "overhead_ms", &turns->overhead_ms,
		!identity->suite_tool   ? "these tools tell no demand: see turn_gap_ms"
		: turns->demand_missing ? "no tool's demand is known"
					: none);
	put_distribution(draft, "turn_overhead_agent_ms", &turns->turn_overhead_agent_ms,
		!json_array_size(draft->facts->agent_turns)
			? "the agent reported no turns"
			: "no reported turn from the second on was followed by another");
	put(draft, "correct_turns", json_integer(turns->correct_turns));
	put(draft, "demand_missing", json_integer(turns->demand_missing));
	put(draft, "achieved_sessions", json_integer(turns->sessions_at_once));
}

/* The parts at the peak, and what of the peak they do not explain. shmem is a part of file. */
static void put_memory_at_peak(struct draft *draft)
{
	const struct memory_sample *at = &draft->facts->at_peak;
	if (draft->facts->memory_samples <= 0 || at->total_bytes == FACT_MISSING) {
		put_missing(draft, "memory_at_peak",
			noted(draft, "at_peak", "the run ended before it was sampled"));
		return;
	}
	const struct {
		const char *name;
		int64_t bytes;
		bool part;
	} parts[] = {
		{"anon", at->anon_bytes, true},
		{"file", at->file_bytes, true},
		{"kernel", at->kernel_bytes, true},
		{"sock", at->sock_bytes, true},
		{"shmem", at->shmem_bytes, false},
	};
	json_t *out = json_object();
	int64_t sum = 0;
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		json_object_set_new(out, parts[i].name, integer_or_null(parts[i].bytes));
		if (parts[i].part && parts[i].bytes != FACT_MISSING)
			sum += parts[i].bytes;
	}
	int64_t peak = draft->facts->memory_peak_bytes;
	json_object_set_new(out, "remainder",
		integer_or_null(peak == FACT_MISSING ? FACT_MISSING : peak - sum));
	json_object_set_new(out, "total", json_integer(at->total_bytes));
	put(draft, "memory_at_peak", out);
}

static void put_memory(struct draft *draft, const struct run_identity *identity, bool at_limit)
{
	const struct run_facts *facts = draft->facts;
	int64_t peak = facts->memory_peak_bytes;
	const char *measured = identity->cold ? "memory_peak_cold_bytes" : "memory_peak_bytes";
	const char *other = identity->cold ? "memory_peak_bytes" : "memory_peak_cold_bytes";
	put_fact(draft, measured, peak, "memory_peak_bytes");
	put_missing(draft, other, identity->cold ? "a cold run" : "a warm run");
	put(draft, "memory_peak_at_limit", json_boolean(at_limit));
	put_memory_at_peak(draft);

	const json_t *history = json_object_get(facts->ledger, "history_bytes");
	int64_t history_bytes =
		json_is_integer(history) ? json_integer_value(history) : FACT_MISSING;
	put_fact(draft, "history_bytes", history_bytes, "ledger");
	if (peak == FACT_MISSING || history_bytes == FACT_MISSING)
		put_missing(draft, "memory_over_history_bytes", "needs peak and histories");
	else
		put(draft, "memory_over_history_bytes", json_integer(peak - history_bytes));
	if (peak == FACT_MISSING || peak <= 0)
		put_missing(draft, "sessions_per_gib", "needs the memory peak");
	else
		put(draft, "sessions_per_gib",
			json_real((double)identity->sessions * 0x1p30 / (double)peak));
	put_fact(draft, "rss_peak_bytes", facts->rss_peak_bytes, "rss_peak_bytes");
	put_fact(draft, "pss_bytes", facts->pss_bytes, "pss_bytes");
}

static void put_sessions_per_core(struct draft *draft, int64_t paced_ns)
{
	const struct run_facts *facts = draft->facts;
	int64_t cpu_usec = facts->cpu_usage_usec - facts->cpu_at_first_request_usec;
	if (json_is_null(json_object_get(draft->record, "cpu_usec_per_turn")))
		put_missing(draft, "sessions_per_core", "needs the CPU per turn");
	else if (cpu_usec <= 0)
		put_missing(draft, "sessions_per_core", "no CPU time was counted");
	else
		put(draft, "sessions_per_core",
			json_real((double)paced_ns / 1e3 / (double)cpu_usec));
}

static void put_cpu(struct draft *draft, int64_t turns)
{
	const struct run_facts *facts = draft->facts;
	const struct {
		const char *startup, *per_turn, *fact;
		int64_t first_usec, total_usec;
	} rows[] = {
		{"cpu_startup_usec", "cpu_usec_per_turn", "cpu_usage_usec",
			facts->cpu_at_first_request_usec, facts->cpu_usage_usec},
		{"cpu_startup_user_usec", "cpu_user_usec_per_turn", "cpu_user_usec",
			facts->cpu_user_at_first_request_usec, facts->cpu_user_usec},
		{"cpu_startup_system_usec", "cpu_system_usec_per_turn", "cpu_system_usec",
			facts->cpu_system_at_first_request_usec, facts->cpu_system_usec},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		int64_t first = rows[i].first_usec, total = rows[i].total_usec;
		put_fact(draft, rows[i].startup, first, "cpu_at_first_request_usec");
		if (total == FACT_MISSING)
			put_missing(draft, rows[i].per_turn,
				noted(draft, rows[i].fact, "could not be read"));
		else if (first == FACT_MISSING)
			put_missing(draft, rows[i].per_turn,
				noted(draft, "cpu_at_first_request_usec",
					"the startup's share is not known"));
		else if (turns <= 0)
			put_missing(draft, rows[i].per_turn, "no correct turn");
		else
			put(draft, rows[i].per_turn,
				json_real((double)(total - first) / (double)turns));
	}
	put_fact(draft, "throttled_usec", facts->throttled_usec, "throttled_usec");
	put_fact(draft, "nr_throttled", facts->nr_throttled, "nr_throttled");
	put_fact(draft, "pressure_cpu_usec", facts->pressure_cpu_usec, "pressure_cpu_usec");
	put_fact(
		draft, "pressure_memory_usec", facts->pressure_memory_usec, "pressure_memory_usec");
	put_fact(draft, "pressure_io_usec", facts->pressure_io_usec, "pressure_io_usec");
}

static json_t *member_or_null(const json_t *object, const char *name)
{
	json_t *value = json_object_get(object, name);
	return value ? json_incref(value) : json_null();
}

static void put_mock(struct draft *draft)
{
	const json_t *ledger = draft->facts->ledger;
	put(draft, "connections", member_or_null(ledger, "connections"));
	if (!ledger) {
		put_missing(draft, "mock", noted(draft, "ledger", "no ledger"));
		return;
	}
	json_t *mock = json_object();
	static const struct {
		const char *name, *group;
	} p99s[] = {
		{"late_self_p99_us", "late_self_us"},
		{"late_peer_p99_us", "late_peer_us"},
		{"loop_p99_us", "loop_us"},
	};
	for (size_t i = 0; i < sizeof p99s / sizeof *p99s; i++)
		json_object_set_new(mock, p99s[i].name,
			member_or_null(json_object_get(ledger, p99s[i].group), "p99"));
	static const char *const copied[] = {"events", "requests", "sessions_complete",
		"sessions_seen", "tool_calls", "tool_stamps", "cpu_usec", "error_counts"};
	for (size_t i = 0; i < sizeof copied / sizeof *copied; i++)
		json_object_set_new(mock, copied[i], member_or_null(ledger, copied[i]));
	put(draft, "mock", mock);
}

static void put_exit(struct draft *draft)
{
	const struct run_facts *facts = draft->facts;
	json_t *out = json_object();
	bool exited = facts->started && facts->exited;
	json_object_set_new(out, "status",
		exited && WIFEXITED(facts->exit_status)
			? json_integer(WEXITSTATUS(facts->exit_status))
			: json_null());
	json_object_set_new(out, "signal",
		exited && WIFSIGNALED(facts->exit_status)
			? json_integer(WTERMSIG(facts->exit_status))
			: json_null());
	json_object_set_new(out, "killed", json_boolean(facts->started && !facts->exited));
	json_object_set_new(out, "timed_out", json_boolean(facts->timed_out));
	json_object_set_new(
		out, "barrier", json_boolean(facts->done_ns != FACT_MISSING && facts->started));
	json_object_set_new(out, "leftover_processes", integer_or_null(facts->leftover_processes));
	json_object_set_new(out, "stdout_bytes", integer_or_null(facts->stdout_bytes));
	json_object_set_new(out, "stdout_bad_lines", integer_or_null(facts->stdout_bad_lines));
	json_object_set_new(out, "stderr_tail", text(facts->stderr_tail));
	put(draft, "exit", out);
}

/* The samples, or why there are none in *fault (its text is "" where there are some). */
static bool make_samples(
	const struct run_facts *facts, struct samples *samples, struct error *fault)
{
	*samples = (struct samples){NULL, 0};
	fault->text[0] = '\0';
	if (!facts->ledger) {
		const char *reason = json_string_value(json_object_get(facts->missing, "ledger"));
		error_set(fault, 0, "%s", reason ? reason : "the mock gave none");
		return false;
	}
	int64_t origin_ns = facts->spawn_ns;
	if (origin_ns == FACT_MISSING)
		origin_ns = json_integer_value(json_object_get(facts->ledger, "begun_ns"));
	return samples_from_ledger(facts->ledger, facts->agent_turns, origin_ns, samples, fault) ==
	       0;
}

json_t *record_make(const struct run_identity *identity, const struct run_facts *facts)
{
	struct draft draft = {json_object(), json_object(), facts};
	struct error fault;
	struct samples auto_samples samples;
	bool ledger = make_samples(facts, &samples, &fault);
	struct judgement judgement;
	judge(identity, facts, ledger ? &samples : NULL, ledger ? NULL : fault.text, &judgement);

	put_identity(&draft, identity);
	put(&draft, "outcome", json_string(outcome_name(judgement.outcome)));
	put(&draft, "outcome_detail", judgement.detail);
	put(&draft, "valid", json_boolean(judgement.valid));
	put(&draft, "invalid_reasons", judgement.reasons);

	struct turn_figures auto_turn_figures turns = {.correct_turns = 0};
	turn_figures_add(&turns, &samples, identity->suite_tool);
	put_startup(&draft, identity, ledger ? &samples : NULL);
	put_turn_figures(&draft, identity, &turns, ledger);
	put_memory(&draft, identity, judgement.at_limit);
	put_cpu(&draft, turns.correct_turns);
	put_sessions_per_core(&draft, turns.paced_ns);
	put_mock(&draft);
	put_fact(&draft, "steal_usec", facts->steal_usec, "steal_usec");
	put_fact(&draft, "other_load_usec", facts->other_load_usec, "other_load_usec");
	put_fact(&draft, "wall_usec", facts->wall_usec, "wall_usec");
	put(&draft, "processes_at_barrier", integer_or_null(facts->processes_at_barrier));
	put_exit(&draft);
	put(&draft, "samples", json_sprintf("samples/%" PRId64 ".csv", identity->run));
	put(&draft, "missing", draft.missing);
	return draft.record;
}

int record_write_samples(int dir_fd, const struct run_identity *identity,
	const struct run_facts *facts, struct error *err)
{
	struct error fault;
	struct samples auto_samples samples;
	make_samples(facts, &samples, &fault);
	if (mkdirat(dir_fd, "samples", 0755) && errno != EEXIST)
		return error_set(err, errno, "cannot make the folder 'samples'");
	auto_free char *name = xasprintf("samples/%" PRId64 ".csv", identity->run);
	struct file_writer writer;
	if (file_writer_open(&writer, dir_fd, name, err))
		return -1;
	samples_write(&samples, writer.stream);
	return file_writer_commit(&writer, err);
}
