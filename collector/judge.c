#include "collector/judge.h"

#include "collector/samples.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"

#include <inttypes.h>
#include <string.h>
#include <sys/wait.h>

enum {
	DETAIL_MAX = 400,
	P99_EVENTS_MIN = 200, /* below, a p99 is the one or two worst */
};

static const char *const outcome_names[OUTCOME_COUNT] = {
	[OUTCOME_OK] = "ok",
	[OUTCOME_OOM] = "oom",
	[OUTCOME_TIMEOUT] = "timeout",
	[OUTCOME_WRONG] = "wrong",
	[OUTCOME_CRASHED] = "crashed",
	[OUTCOME_INCOMPLETE] = "incomplete",
};

const char *outcome_name(enum outcome outcome)
{
	return outcome_names[outcome];
}

int outcome_find(const char *name)
{
	for (int i = 0; i < OUTCOME_COUNT; i++) {
		if (!strcmp(outcome_names[i], name))
			return i;
	}
	return -1;
}

/* What an outcome is judged from, beside the facts. */
struct view {
	const struct run_identity *identity;
	const struct run_facts *facts;
	const struct samples *samples; /* NULL: no ledger */
	const char *ledger_fault;
	int64_t complete; /* sessions; FACT_MISSING: not known */
	bool all_complete;
	bool ended_well; /* by itself with status 0 */
};

static int64_t integer(const json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name);
	return json_is_integer(value) ? json_integer_value(value) : FACT_MISSING;
}

/* Takes `text`, which is malloc'ed. */
static json_t *sentence(char *text)
{
	json_t *value = json_text(text, DETAIL_MAX);
	free(text);
	return value;
}

/* "; stderr ends in: LAST LINE", or nothing. malloc'ed. */
static char *last_words(const struct run_facts *facts)
{
	const char *text = facts->stderr_tail;
	size_t end = strnlen(text, sizeof facts->stderr_tail);
	while (end && (text[end - 1] == '\n' || text[end - 1] == ' '))
		end--;
	size_t begin = end;
	while (begin && text[begin - 1] != '\n')
		begin--;
	if (begin == end)
		return xstrdup("");
	return xasprintf("; stderr ends in: %.*s", (int)(end - begin), text + begin);
}

/* "3 of 4 sessions complete", or nothing known. malloc'ed. */
static char *progress(const struct view *view)
{
	if (view->complete == FACT_MISSING)
		return xstrdup("how far it came is not known");
	return xasprintf("%" PRId64 " of %" PRId64 " sessions complete", view->complete,
		view->identity->sessions);
}

/* The reason noted for a fact, or a general one. */
static const char *missing_reason(const struct run_facts *facts, const char *name)
{
	const char *reason = json_string_value(json_object_get(facts->missing, name));
	return reason ? reason : "not read";
}

static bool oom(const struct view *view, json_t **detail)
{
	const struct run_facts *facts = view->facts;
	bool killed = facts->oom_kill_events != FACT_MISSING && facts->oom_kill_events > 0;
	/* An allocation can also fail without a kill; that is the contender's end only if it ends.
	 */
	bool refused = facts->oom_events != FACT_MISSING && facts->oom_events > 0;
	if (!killed && !(refused && !view->ended_well))
		return false;
	auto_free char *how_far = progress(view);
	auto_free char *limit =
		facts->memory_limit_bytes == FACT_MISSING
			? xstrdup("the machine's memory")
			: xasprintf("its limit of %" PRId64 " bytes", facts->memory_limit_bytes);
	*detail = sentence(xasprintf("ran out of memory at %s; %s", limit, how_far));
	return true;
}

/* The first session that did not come to its end, in words; malloc'ed. */
static char *first_unfinished(const struct view *view)
{
	const struct samples *samples = view->samples;
	int64_t expected = 1, turns = view->identity->turns;
	for (size_t at = 0; samples && at < samples->count;) {
		int64_t session = samples->rows[at].session, answered = 0;
		if (session != expected)
			break;
		for (; at < samples->count && samples->rows[at].session == session; at++) {
			if (samples->rows[at].end_after_ns != FACT_MISSING)
				answered = samples->rows[at].turn;
		}
		if (answered < turns)
			return xasprintf("s%" PRId64 " stopped after turn %" PRId64 " of %" PRId64,
				session, answered, turns);
		expected++;
	}
	if (expected <= view->identity->sessions)
		return xasprintf("s%" PRId64 " made no request", expected);
	return xstrdup("every session was answered to its end");
}

static bool timeout(const struct view *view, json_t **detail)
{
	if (!view->facts->timed_out)
		return false;
	auto_free char *how_far = progress(view);
	auto_free char *which = first_unfinished(view);
	auto_free char *after =
		view->facts->wall_usec == FACT_MISSING
			? xstrdup("")
			: xasprintf(" after %.1f s", (double)view->facts->wall_usec / 1e6);
	*detail = sentence(
		xasprintf("still running when its time was up%s; %s; %s", after, how_far, which));
	return true;
}

/* Where a fault of the ledger or of the agent's own telling is: "s3, turn 2"; malloc'ed. */
static char *place_of(const json_t *fault)
{
	const json_t *session = json_object_get(fault, "session");
	auto_free char *name =
		json_is_integer(session) && json_integer_value(session) > 0
			? xasprintf("s%" JSON_INTEGER_FORMAT, json_integer_value(session))
			: xstrdup(json_is_string(session) ? json_string_value(session)
							  : "an unknown session");
	json_int_t turn = json_integer_value(json_object_get(fault, "turn"));
	return turn > 0 ? xasprintf("%s, turn %" JSON_INTEGER_FORMAT, name, turn) : steal_ptr(name);
}

/* The first request seen after the contender had said that it was done; NULL: none. */
static const struct sample *after_done(const struct view *view)
{
	const struct run_facts *facts = view->facts;
	if (!view->samples || facts->done_ns == FACT_MISSING || facts->spawn_ns == FACT_MISSING)
		return NULL;
	for (size_t i = 0; i < view->samples->count; i++) {
		const struct sample *row = &view->samples->rows[i];
		if (row->headers_ns != FACT_MISSING &&
			row->headers_ns > facts->done_ns - facts->spawn_ns)
			return row;
	}
	return NULL;
}

static bool wrong(const struct view *view, json_t **detail)
{
	const struct run_facts *facts = view->facts;
	int64_t total = 0;
	const char *kind;
	json_t *count;
	json_object_foreach(json_object_get(facts->ledger, "error_counts"), kind, count) total +=
		json_integer_value(count) > 0 ? json_integer_value(count) : 0;
	if (total) {
		const json_t *first = json_array_get(json_object_get(facts->ledger, "errors"), 0);
		auto_free char *place = place_of(first);
		const char *what = json_string_value(json_object_get(first, "kind"));
		const char *text = json_string_value(json_object_get(first, "detail"));
		auto_free char *more =
			total > 1 ? xasprintf(" (the first of %" PRId64 ")", total) : xstrdup("");
		*detail = sentence(xasprintf("%s: %s: %s%s", place, what ? what : "error",
			text ? text : "no detail", more));
		return true;
	}
	if (facts->stdout_flooded) {
		*detail = sentence(xasprintf("wrote more to stdout than the contract allows: "
					     "%" PRId64 " bytes",
			facts->stdout_bytes));
		return true;
	}
	/* What is read at the barrier would be of a contender that has not worked yet. */
	const struct sample *early = after_done(view);
	if (early) {
		*detail = sentence(xasprintf("s%" PRId64 ", turn %" PRId64
					     ": asked after the contender had said \"done\"",
			early->session, early->turn));
		return true;
	}
	return false;
}

static bool crashed(const struct view *view, json_t **detail)
{
	const struct run_facts *facts = view->facts;
	if (!facts->started) {
		*detail = sentence(
			xasprintf("could not be started: %s", strerror(facts->exec_errno)));
		return true;
	}
	auto_free char *how_far = progress(view);
	auto_free char *words = last_words(facts);
	if (!facts->exited) {
		*detail = sentence(
			xasprintf("did not end after its input was closed; %s%s", how_far, words));
		return true;
	}
	int status = facts->exit_status;
	if (WIFSIGNALED(status)) {
		*detail = sentence(xasprintf("died by signal %d (%s); %s%s", WTERMSIG(status),
			strsignal(WTERMSIG(status)), how_far, words));
		return true;
	}
	/* Status 1 with its errors told is the contract's way of saying that sessions failed. */
	bool orderly = WEXITSTATUS(status) == 1 && json_array_size(facts->agent_errors) &&
		       !view->all_complete;
	if (WEXITSTATUS(status) == 0 || orderly)
		return false;
	*detail = sentence(
		xasprintf("exited with status %d; %s%s", WEXITSTATUS(status), how_far, words));
	return true;
}

static bool left_processes(const struct view *view, json_t **detail)
{
	int64_t left = view->facts->leftover_processes;
	if (left == FACT_MISSING || left <= 0)
		return false;
	*detail = sentence(xasprintf(
		"left %" PRId64 " process%s running after its end", left, left == 1 ? "" : "es"));
	return true;
}

static bool incomplete(const struct view *view, json_t **detail)
{
	if (view->all_complete)
		return false;
	const json_t *fault = json_array_get(view->facts->agent_errors, 0);
	auto_free char *how_far = progress(view);
	if (!view->samples) {
		*detail = sentence(xasprintf("no ledger: %s", view->ledger_fault));
	} else if (fault) {
		auto_free char *place = place_of(fault);
		const char *message = json_string_value(json_object_get(fault, "message"));
		*detail = sentence(xasprintf(
			"gave up at %s: %s; %s", place, message ? message : "no message", how_far));
	} else {
		auto_free char *which = first_unfinished(view);
		*detail = sentence(
			xasprintf("ended before its work was done: %s; %s", which, how_far));
	}
	return true;
}

static bool interrupted(const struct view *view, json_t **detail)
{
	if (!view->facts->interrupted)
		return false;
	auto_free char *how_far = progress(view);
	*detail = sentence(xasprintf("the collector was asked to stop; %s", how_far));
	return true;
}

static enum outcome judge_outcome(const struct view *view, json_t **detail)
{
	/* The first that holds; docs/method.md gives the same order. */
	static const struct {
		bool (*holds)(const struct view *view, json_t **detail);
		enum outcome outcome;
	} order[] = {
		{oom, OUTCOME_OOM},
		{timeout, OUTCOME_TIMEOUT},
		{wrong, OUTCOME_WRONG},
		{interrupted, OUTCOME_INCOMPLETE},
		{crashed, OUTCOME_CRASHED},
		{left_processes, OUTCOME_WRONG},
		{incomplete, OUTCOME_INCOMPLETE},
	};
	for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
		if (order[i].holds(view, detail))
			return order[i].outcome;
	}
	*detail = json_string("");
	return OUTCOME_OK;
}

static void add_reason(json_t *reasons, char *text)
{
	json_array_append_new(reasons, sentence(text));
}

/* A share in percent of the time of so many CPUs, against its bound. */
static void judge_share(json_t *reasons, const char *id, const char *what, int64_t usec,
	int64_t wall_usec, int64_t cpus, double bound_percent)
{
	if (usec == FACT_MISSING || wall_usec <= 0 || cpus <= 0)
		return;
	double percent = 100 * (double)usec / ((double)wall_usec * (double)cpus);
	/* The kernel counts in ticks, and counters are not read at one instant. */
	if (percent > 100)
		percent = 100;
	if (percent > bound_percent)
		add_reason(reasons, xasprintf("%s: %s took %.1f%% of the CPU time, bound %g%%", id,
					    what, percent, bound_percent));
}

static void judge_lateness(json_t *reasons, const char *id, const char *what, const json_t *ledger,
	const char *member, int64_t bound_us)
{
	const json_t *late = json_object_get(ledger, member);
	const json_t *n = json_object_get(late, "n");
	const char *percentile =
		json_is_integer(n) && json_integer_value(n) < P99_EVENTS_MIN ? "p95" : "p99";
	const json_t *value = json_object_get(late, percentile);
	if (json_is_number(value) && json_number_value(value) > (double)bound_us)
		add_reason(reasons, xasprintf("%s: %s, %s %.0f us, bound %" PRId64 " us", id, what,
					    percentile, json_number_value(value), bound_us));
}

/* Times count for nothing under emulation, so nothing about them makes a run invalid there. */
static void judge_timing(const struct view *view, json_t *reasons)
{
	const struct run_identity *identity = view->identity;
	const struct run_facts *facts = view->facts;
	const struct run_bounds *bounds = &identity->bounds;
	judge_lateness(reasons, "late_self", "the mock was late by its own doing", facts->ledger,
		"late_self_us",
		bounds->late_self_p99_us ? bounds->late_self_p99_us : JUDGE_LATE_SELF_P99_US);
	judge_lateness(reasons, "loop", "the mock's loop was busy", facts->ledger, "loop_us",
		bounds->loop_p99_us ? bounds->loop_p99_us : JUDGE_LOOP_P99_US);
	judge_share(reasons, "steal", "other machines on the host", facts->steal_usec,
		facts->wall_usec, identity->machine_cpus,
		bounds->steal_percent > 0 ? bounds->steal_percent : JUDGE_STEAL_PERCENT);
	/* On shared CPUs the mock itself is the other load. */
	if (strcmp(identity->placement, "shared"))
		judge_share(reasons, "other_load", "other programs on the contender's CPUs",
			facts->other_load_usec, facts->wall_usec, identity->contender_cpus,
			bounds->other_load_percent > 0 ? bounds->other_load_percent
						       : JUDGE_OTHER_LOAD_PERCENT);
}

/* What memory.peak is counted in, pages: 64 for each CPU. */
static int64_t peak_resolution_pages(const struct run_identity *identity)
{
	return 64 * identity->machine_cpus;
}

/*
 * Pages read again were charged anew: what is below the peak's resolution shows in no figure. At
 * its limit a contender pushes out its own files: then the refaults are its doing.
 */
static void judge_refaults(const struct view *view, bool at_limit, json_t *reasons)
{
	int64_t pages = view->facts->refault_events;
	int64_t bound = peak_resolution_pages(view->identity);
	if (pages == FACT_MISSING || pages <= bound || view->identity->cold || at_limit)
		return;
	add_reason(reasons, xasprintf("refaults: %" PRId64 " pages had to be read again, bound "
				      "%" PRId64,
				    pages, bound));
}

static json_t *judge_validity(const struct view *view, bool at_limit)
{
	const struct run_facts *facts = view->facts;
	json_t *reasons = json_array();
	if (!view->samples)
		add_reason(reasons, xasprintf("ledger: %s", view->ledger_fault));
	if (!facts->limits_in_force)
		add_reason(reasons, xasprintf("limits: not in force: %s", facts->limits_detail));
	if (facts->interrupted)
		add_reason(reasons, xstrdup("interrupted: the collector was asked to stop"));
	if (facts->swap_peak_bytes != FACT_MISSING && facts->swap_peak_bytes > 0)
		add_reason(reasons, xasprintf("swap: %" PRId64 " bytes were swapped out",
					    facts->swap_peak_bytes));
	judge_refaults(view, at_limit, reasons);
	if (!view->identity->emulated)
		judge_timing(view, reasons);
	/* A stamp that the mock lost makes an overhead missing, where it is largest most likely. */
	int64_t calls = integer(facts->ledger, "tool_calls");
	int64_t stamps = integer(facts->ledger, "tool_stamps");
	int64_t unmatched = integer(facts->ledger, "tool_stamps_unmatched");
	/* One that fits no call, or one call twice, does not stand for another that was lost. */
	if (stamps != FACT_MISSING && unmatched != FACT_MISSING)
		stamps -= unmatched;
	if (view->identity->suite_tool && view->all_complete && calls > 0 &&
		stamps != FACT_MISSING && stamps < calls)
		add_reason(reasons, xasprintf("tool_stamps: %" PRId64 " of %" PRId64
					      " tools were not heard of, none may be",
					    calls - stamps, calls));
	return reasons;
}

/* memory.peak is counted in batches of 64 pages a CPU: closer to the limit is at the limit. */
static bool peak_at_limit(const struct run_identity *identity, const struct run_facts *facts)
{
	if (facts->memory_limit_bytes == FACT_MISSING || facts->memory_peak_bytes == FACT_MISSING)
		return false;
	int64_t resolution = peak_resolution_pages(identity) * identity->page_bytes;
	return facts->memory_peak_bytes >= facts->memory_limit_bytes - resolution;
}

void judge(const struct run_identity *identity, const struct run_facts *facts,
	const struct samples *samples, const char *ledger_fault, struct judgement *out)
{
	int64_t complete = samples ? integer(facts->ledger, "sessions_complete") : FACT_MISSING;
	struct view view = {
		.identity = identity,
		.facts = facts,
		.samples = samples,
		.ledger_fault = ledger_fault ? ledger_fault : missing_reason(facts, "ledger"),
		.complete = complete,
		.all_complete = complete != FACT_MISSING && complete >= identity->sessions,
		.ended_well = facts->exited && WIFEXITED(facts->exit_status) &&
			      WEXITSTATUS(facts->exit_status) == 0,
	};
	out->outcome = judge_outcome(&view, &out->detail);
	out->at_limit = out->outcome == OUTCOME_OOM || peak_at_limit(identity, facts);
	out->reasons = judge_validity(&view, out->at_limit);
	out->valid = json_array_size(out->reasons) == 0;
}
