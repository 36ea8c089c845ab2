/*
 * What came of a run (outcome), and whether it counts (validity); docs/method.md, "Outcome,
 * validity, timing". What a contender causes is an outcome. Only faults of the instrument or the
 * machine make a run invalid.
 */
#ifndef COLLECTOR_JUDGE_H
#define COLLECTOR_JUDGE_H

#include <jansson.h>
#include <stdbool.h>

#include "collector/record.h"

struct samples;

enum outcome {
	OUTCOME_OK,
	OUTCOME_OOM,
	OUTCOME_TIMEOUT,
	OUTCOME_WRONG,
	OUTCOME_CRASHED,
	OUTCOME_INCOMPLETE,
	OUTCOME_COUNT,
};

/* As in records: "ok", "oom", … */
const char *outcome_name(enum outcome outcome);
/* -1 for a name that is none. */
int outcome_find(const char *name);

/* Bounds where a plan gives none. */
enum {
	JUDGE_LATE_SELF_P99_US = 1000,
	JUDGE_LOOP_P99_US = 2000,
	JUDGE_STEAL_PERCENT = 2,
	JUDGE_OTHER_LOAD_PERCENT = 10,
};

struct judgement {
	enum outcome outcome;
	json_t *detail; /* a short sentence; empty when ok */
	bool valid;
	json_t *reasons; /* array of texts, "id: what was found, what the bound is" */
	bool at_limit;   /* the memory peak stands at the limit: read it as "at least" */
};

/*
 * `samples` may be NULL where there is no usable ledger; `ledger_fault` then says why. The json_t
 * in *out are new references.
 */
void judge(const struct run_identity *identity, const struct run_facts *facts,
	const struct samples *samples, const char *ledger_fault, struct judgement *out);

#endif
