#include "collector/judge.h"

#include "collector/samples.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "tests/unit/collector/run_fixture.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

struct case_ {
	struct run_identity identity;
	struct run_facts facts;
	struct judgement judgement;
};

static struct case_ begin(void)
{
	return (struct case_){.identity = fixture_identity(), .facts = fixture_facts()};
}

static void judge_case(struct case_ *c)
{
	struct samples auto_samples samples = {NULL, 0};
	struct error err;
	if (c->facts.ledger)
		assert_int_equal(
			samples_from_ledger(c->facts.ledger, NULL, NS_PER_S, &samples, &err), 0);
	judge(&c->identity, &c->facts, c->facts.ledger ? &samples : NULL, NULL, &c->judgement);
}

static void end(struct case_ *c)
{
	json_decref(c->judgement.detail);
	json_decref(c->judgement.reasons);
	fixture_release(&c->facts);
}

static void expect(struct case_ *c, enum outcome outcome, const char *detail)
{
	judge_case(c);
	assert_string_equal(outcome_name(c->judgement.outcome), outcome_name(outcome));
	assert_string_equal(json_string_value(c->judgement.detail), detail);
	end(c);
}

static void complete_sessions(struct case_ *c, int count)
{
	json_object_set_new(c->facts.ledger, "sessions_complete", json_integer(count));
}

/* The ledger as it is when the second session got no answer to its second request. */
static void stop_second_session(struct case_ *c)
{
	complete_sessions(c, 1);
	json_t *rows = json_object_get(c->facts.ledger, "rows");
	json_array_remove(rows, 5);
	json_t *row = json_array_get(rows, 4);
	for (size_t i = 6; i <= 8; i++)
		json_array_set_new(row, i, json_null());
}

static void add_fault(struct case_ *c, const char *kind, int count, const char *detail)
{
	json_object_set_new(
		json_object_get(c->facts.ledger, "error_counts"), kind, json_integer(count));
	json_array_append_new(json_object_get(c->facts.ledger, "errors"),
		json_pack("{s:s,s:i,s:i,s:s,s:i}", "kind", kind, "session", 2, "turn", 3, "detail",
			detail, "at_ns", 5));
}

static void a_good_run_is_ok_and_valid(void **state)
{
	(void)state;
	struct case_ c = begin();
	judge_case(&c);
	assert_int_equal(c.judgement.outcome, OUTCOME_OK);
	assert_string_equal(json_string_value(c.judgement.detail), "");
	assert_true(c.judgement.valid);
	assert_int_equal(json_array_size(c.judgement.reasons), 0);
	assert_false(c.judgement.at_limit);
	end(&c);
	/* a contender that does not wait at the barrier can be measured */
	struct case_ silent = begin();
	silent.facts.done_ns = FACT_MISSING;
	expect(&silent, OUTCOME_OK, "");
}

static void out_of_memory(void **state)
{
	(void)state;
	struct case_ c = begin();
	c.facts.oom_kill_events = 3;
	c.facts.exit_status = SIGKILL;
	stop_second_session(&c);
	judge_case(&c);
	assert_int_equal(c.judgement.outcome, OUTCOME_OOM);
	assert_string_equal(json_string_value(c.judgement.detail),
		"ran out of memory at its limit of 536870912 bytes; 1 of 2 sessions complete");
	assert_true(c.judgement.valid);
	assert_true(c.judgement.at_limit);
	end(&c);
	/* v1 has no oom counter; the container's limit refused, nobody was killed, it went on */
	struct case_ refused = begin();
	refused.facts.oom_events = 1;
	refused.facts.oom_kill_events = FACT_MISSING;
	expect(&refused, OUTCOME_OK, "");
	struct case_ gave_up = begin();
	gave_up.facts.oom_events = 1;
	gave_up.facts.exit_status = SIGABRT;
	gave_up.facts.memory_limit_bytes = FACT_MISSING;
	expect(&gave_up, OUTCOME_OOM,
		"ran out of memory at the machine's memory; 2 of 2 sessions complete");
}

static void out_of_time(void **state)
{
	(void)state;
	struct case_ c = begin();
	c.facts.timed_out = true;
	c.facts.exited = false;
	c.facts.wall_usec = 30000000;
	stop_second_session(&c);
	expect(&c, OUTCOME_TIMEOUT,
		"still running when its time was up after 30.0 s; 1 of 2 sessions complete; s2 "
		"stopped after turn 1 of 3");
	struct case_ idle = begin();
	idle.facts.timed_out = true;
	idle.facts.exited = false;
	idle.facts.wall_usec = FACT_MISSING;
	complete_sessions(&idle, 0);
	json_array_clear(json_object_get(idle.facts.ledger, "rows"));
	expect(&idle, OUTCOME_TIMEOUT,
		"still running when its time was up; 0 of 2 sessions complete; s1 made no request");
}

static void wrong_by_the_ledger(void **state)
{
	(void)state;
	struct case_ c = begin();
	add_fault(&c, "history", 1, "messages[4].content: expected \"a\", got \"b\"");
	expect(&c, OUTCOME_WRONG,
		"s2, turn 3: history: messages[4].content: expected \"a\", got \"b\"");
	/* also when it crashed for being told so, and with many faults */
	struct case_ crash = begin();
	add_fault(&crash, "early_tool", 40, "call c1");
	crash.facts.exit_status = SIGSEGV;
	complete_sessions(&crash, 0);
	expect(&crash, OUTCOME_WRONG, "s2, turn 3: early_tool: call c1 (the first of 40)");
	/* a fault of no session, without a list */
	struct case_ bare = begin();
	add_fault(&bare, "malformed", 1, "x");
	json_array_clear(json_object_get(bare.facts.ledger, "errors"));
	expect(&bare, OUTCOME_WRONG, "an unknown session: error: no detail");
}

static void wrong_by_conduct(void **state)
{
	(void)state;
	struct case_ flood = begin();
	flood.facts.stdout_flooded = true;
	flood.facts.stdout_bytes = 70000000;
	flood.facts.exited = false;
	expect(&flood, OUTCOME_WRONG,
		"wrote more to stdout than the contract allows: 70000000 bytes");
	struct case_ early = begin();
	early.facts.done_ns = early.facts.spawn_ns;
	expect(&early, OUTCOME_WRONG, "s1, turn 1: asked after the contender had said \"done\"");
	struct case_ daemon_ = begin();
	daemon_.facts.leftover_processes = 1;
	expect(&daemon_, OUTCOME_WRONG, "left 1 process running after its end");
	/* tools left by a crash are the crash's */
	struct case_ crash = begin();
	crash.facts.leftover_processes = 2;
	crash.facts.exit_status = 3 << 8;
	expect(&crash, OUTCOME_CRASHED, "exited with status 3; 2 of 2 sessions complete");
}

static void crashes(void **state)
{
	(void)state;
	struct case_ c = begin();
	c.facts.exit_status = SIGSEGV;
	snprintf(c.facts.stderr_tail, sizeof c.facts.stderr_tail, "first\nlast words \n\n");
	stop_second_session(&c);
	expect(&c, OUTCOME_CRASHED,
		"died by signal 11 (Segmentation fault); 1 of 2 sessions complete; stderr ends in: "
		"last words");
	struct case_ absent = begin();
	absent.facts.started = false;
	absent.facts.exec_errno = ENOENT;
	complete_sessions(&absent, 0);
	expect(&absent, OUTCOME_CRASHED, "could not be started: No such file or directory");
	struct case_ stays = begin();
	stays.facts.exited = false;
	expect(&stays, OUTCOME_CRASHED,
		"did not end after its input was closed; 2 of 2 sessions complete");
	/* status 1 with nothing told is no orderly end */
	struct case_ silent = begin();
	silent.facts.exit_status = 1 << 8;
	stop_second_session(&silent);
	expect(&silent, OUTCOME_CRASHED, "exited with status 1; 1 of 2 sessions complete");
	/* bytes that are no UTF-8 do not lose the sentence */
	struct case_ bytes = begin();
	bytes.facts.exit_status = 2 << 8;
	snprintf(bytes.facts.stderr_tail, sizeof bytes.facts.stderr_tail, "caf\xe9");
	expect(&bytes, OUTCOME_CRASHED,
		"exited with status 2; 2 of 2 sessions complete; stderr ends in: caf?");
}

static void incomplete_runs(void **state)
{
	(void)state;
	struct case_ early = begin();
	stop_second_session(&early);
	expect(&early, OUTCOME_INCOMPLETE,
		"ended before its work was done: s2 stopped after turn 1 of 3; 1 of 2 sessions "
		"complete");
	struct case_ told = begin();
	stop_second_session(&told);
	told.facts.exit_status = 1 << 8;
	json_array_append_new(
		told.facts.agent_errors, json_pack("{s:s,s:s,s:i,s:s}", "event", "error", "session",
						 "s2", "turn", 2, "message", "status 503"));
	expect(&told, OUTCOME_INCOMPLETE,
		"gave up at s2, turn 2: status 503; 1 of 2 sessions complete");
	struct case_ stopped = begin();
	stopped.facts.interrupted = true;
	stopped.facts.exited = false;
	complete_sessions(&stopped, 0);
	judge_case(&stopped);
	assert_int_equal(stopped.judgement.outcome, OUTCOME_INCOMPLETE);
	assert_string_equal(json_string_value(stopped.judgement.detail),
		"the collector was asked to stop; 0 of 2 sessions complete");
	assert_false(stopped.judgement.valid);
	end(&stopped);
}

static void a_missing_ledger_is_the_instruments_fault(void **state)
{
	(void)state;
	struct case_ c = begin();
	json_decref(c.facts.ledger);
	c.facts.ledger = NULL;
	json_object_set_new(c.facts.missing, "ledger", json_string("the mock did not answer"));
	judge_case(&c);
	assert_int_equal(c.judgement.outcome, OUTCOME_INCOMPLETE);
	assert_string_equal(
		json_string_value(c.judgement.detail), "no ledger: the mock did not answer");
	assert_false(c.judgement.valid);
	assert_string_equal(json_string_value(json_array_get(c.judgement.reasons, 0)),
		"ledger: the mock did not answer");
	end(&c);
}

/* One reason each, or none. */
static void expect_reason(struct case_ *c, const char *reason)
{
	judge_case(c);
	assert_int_equal(c->judgement.valid, reason == NULL);
	assert_int_equal(json_array_size(c->judgement.reasons), reason ? 1 : 0);
	if (reason)
		assert_string_equal(
			json_string_value(json_array_get(c->judgement.reasons, 0)), reason);
	end(c);
}

static void set_p99(struct case_ *c, const char *group, json_t *value)
{
	json_object_set_new(json_object_get(c->facts.ledger, group), "p99", value);
}

static void the_mocks_lateness(void **state)
{
	(void)state;
	struct case_ fine = begin();
	set_p99(&fine, "late_self_us", json_integer(JUDGE_LATE_SELF_P99_US));
	set_p99(&fine, "loop_us", json_integer(JUDGE_LOOP_P99_US));
	set_p99(&fine, "late_peer_us", json_integer(9000000)); /* the contender's doing */
	expect_reason(&fine, NULL);
	struct case_ late = begin();
	late.identity.bounds.late_self_p99_us = 150;
	set_p99(&late, "late_self_us", json_integer(151));
	expect_reason(
		&late, "late_self: the mock was late by its own doing, p99 151 us, bound 150 us");
	struct case_ busy = begin();
	set_p99(&busy, "loop_us", json_integer(2001));
	expect_reason(&busy, "loop: the mock's loop was busy, p99 2001 us, bound 2000 us");
	struct case_ fraction = begin(); /* the mock gives fractions of a microsecond */
	set_p99(&fraction, "late_self_us", json_real(1812.3));
	expect_reason(&fraction,
		"late_self: the mock was late by its own doing, p99 1812 us, bound 1000 us");
	struct case_ no_event = begin();
	set_p99(&no_event, "late_self_us", json_null());
	expect_reason(&no_event, NULL);
	/* times are not shown under emulation, so they exclude nothing */
	/* So few events that their p99 is the worst of them: the p95 is judged. */
	static const struct {
		int n, p95_us, p99_us;
		const char *reason;
	} few[] = {
		{199, 900, 5000, NULL},
		{199, 1001, 5000,
			"late_self: the mock was late by its own doing, p95 1001 us, bound 1000 "
			"us"},
		{200, 900, 5000,
			"late_self: the mock was late by its own doing, p99 5000 us, bound 1000 "
			"us"},
	};
	for (size_t i = 0; i < sizeof few / sizeof *few; i++) {
		struct case_ c = begin();
		json_t *counts = json_object_get(c.facts.ledger, "late_self_us");
		json_object_set_new(counts, "n", json_integer(few[i].n));
		json_object_set_new(counts, "p95", json_integer(few[i].p95_us));
		json_object_set_new(counts, "p99", json_integer(few[i].p99_us));
		expect_reason(&c, few[i].reason);
	}
	struct case_ emulated = begin();
	emulated.identity.emulated = true;
	set_p99(&emulated, "late_self_us", json_integer(99999));
	emulated.facts.steal_usec = 1000000;
	expect_reason(&emulated, NULL);
}

static void the_machine(void **state)
{
	(void)state;
	struct case_ steal = begin();
	steal.facts.steal_usec = 50000; /* of 2 CPUs × 1 s */
	expect_reason(
		&steal, "steal: other machines on the host took 2.5% of the CPU time, bound 2%");
	struct case_ within = begin();
	within.facts.steal_usec = 50000;
	within.identity.bounds.steal_percent = 2.5;
	expect_reason(&within, NULL);
	struct case_ load = begin();
	load.facts.other_load_usec = 125000; /* of 1 CPU × 1 s */
	expect_reason(&load, "other_load: other programs on the contender's CPUs took 12.5% of the "
			     "CPU time, bound "
			     "10%");
	/* "no load is too much" must hold, although ticks may add up to more than there is */
	struct case_ all = begin();
	all.facts.other_load_usec = 1060000;
	all.identity.bounds.other_load_percent = 100;
	expect_reason(&all, NULL);
	struct case_ shared = begin();
	shared.facts.other_load_usec = 125000;
	shared.identity.placement = "shared";
	expect_reason(&shared, NULL);
	struct case_ unknown = begin();
	unknown.facts.steal_usec = unknown.facts.other_load_usec = FACT_MISSING;
	unknown.facts.swap_peak_bytes = unknown.facts.refault_events = FACT_MISSING;
	expect_reason(&unknown, NULL);
	struct case_ no_wall = begin();
	no_wall.facts.steal_usec = 5;
	no_wall.facts.wall_usec = FACT_MISSING;
	expect_reason(&no_wall, NULL);
	struct case_ swap = begin();
	swap.facts.swap_peak_bytes = 4096;
	expect_reason(&swap, "swap: 4096 bytes were swapped out");
	struct case_ limits = begin();
	limits.facts.limits_in_force = false;
	snprintf(limits.facts.limits_detail, sizeof limits.facts.limits_detail,
		"memory is 1 GiB, asked was 512 MiB");
	expect_reason(&limits, "limits: not in force: memory is 1 GiB, asked was 512 MiB");
	struct case_ stamps = begin();
	json_object_set_new(stamps.facts.ledger, "tool_stamps", json_integer(7));
	expect_reason(&stamps, "tool_stamps: 1 of 8 tools were not heard of, none may be");
	struct case_ twice = begin();
	json_object_set_new(twice.facts.ledger, "tool_stamps_unmatched", json_integer(1));
	expect_reason(&twice, "tool_stamps: 1 of 8 tools were not heard of, none may be");
	struct case_ bin = begin();
	bin.identity.suite_tool = false;
	json_object_set_new(bin.facts.ledger, "tool_stamps", json_integer(0));
	expect_reason(&bin, NULL);
}

static void refaults_count_against_the_machine_only_when_warm_and_roomy(void **state)
{
	(void)state;
	struct case_ warm = begin();
	warm.facts.refault_events = 129;
	expect_reason(&warm, "refaults: 129 pages had to be read again, bound 128");
	struct case_ few = begin();
	few.facts.refault_events = 128; /* of two CPUs: what the peak cannot show */
	expect_reason(&few, NULL);
	struct case_ cold = begin();
	cold.facts.refault_events = 129;
	cold.identity.cold = true;
	expect_reason(&cold, NULL);
	struct case_ full = begin();
	full.facts.refault_events = 129;
	full.facts.memory_peak_bytes = full.facts.memory_limit_bytes;
	expect_reason(&full, NULL);
}

static void a_peak_at_the_limit_is_marked(void **state)
{
	(void)state;
	/* two CPUs, 64 pages for each */
	static const struct {
		int64_t page_bytes, below;
		bool marked;
	} rows[] = {{4096, 0, true}, {4096, 2 * 64 * 4096, true}, {4096, 2 * 64 * 4096 + 1, false},
		{16384, 2 * 64 * 16384, true}, {16384, 2 * 64 * 16384 + 1, false},
		{65536, 2 * 64 * 65536, true}, {65536, 2 * 64 * 65536 + 1, false}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct case_ c = begin();
		c.identity.page_bytes = rows[i].page_bytes;
		c.facts.memory_peak_bytes = c.facts.memory_limit_bytes - rows[i].below;
		judge_case(&c);
		assert_int_equal(c.judgement.at_limit, rows[i].marked);
		end(&c);
	}
	struct case_ none = begin();
	none.facts.memory_limit_bytes = FACT_MISSING;
	judge_case(&none);
	assert_false(none.judgement.at_limit);
	end(&none);
}

static void names_of_outcomes(void **state)
{
	(void)state;
	for (int i = 0; i < OUTCOME_COUNT; i++)
		assert_int_equal(outcome_find(outcome_name((enum outcome)i)), i);
	assert_int_equal(outcome_find("good"), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_good_run_is_ok_and_valid),
		cmocka_unit_test(out_of_memory),
		cmocka_unit_test(out_of_time),
		cmocka_unit_test(wrong_by_the_ledger),
		cmocka_unit_test(wrong_by_conduct),
		cmocka_unit_test(crashes),
		cmocka_unit_test(incomplete_runs),
		cmocka_unit_test(a_missing_ledger_is_the_instruments_fault),
		cmocka_unit_test(the_mocks_lateness),
		cmocka_unit_test(the_machine),
		cmocka_unit_test(refaults_count_against_the_machine_only_when_warm_and_roomy),
		cmocka_unit_test(a_peak_at_the_limit_is_marked),
		cmocka_unit_test(names_of_outcomes),
	};
	return cmocka_run_group_tests_name("judge", tests, NULL, NULL);
}
