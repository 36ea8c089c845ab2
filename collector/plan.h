/*
 * A plan: which contenders, how many sessions, which scenarios, how often, under which limits.
 *
 * As written it names files; as resolved it holds their contents, the overrides of the command
 * line and the SHA-256 of it all, and stands in the results folder before the first run.
 */
#ifndef COLLECTOR_PLAN_H
#define COLLECTOR_PLAN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collector/digest.h"
#include "collector/overrides.h"
#include "collector/record.h"

struct error;
struct manifest;
struct scenario;

#define PLAN_TRACK "shipped" /* of a plan that names none */

struct plan_contender {
	struct manifest *manifest;
	char *here; /* folder of the manifest's file; NULL in a plan that was read as resolved */
};

struct plan_scenario {
	struct scenario *scenario;
	json_t *json; /* as the mock takes it; borrowed from resolved */
};

struct plan {
	const char *name, *description, *track;
	struct plan_contender *contenders;
	size_t contender_count;
	struct plan_scenario *scenarios;
	size_t scenario_count;
	int64_t *sessions;
	size_t session_count;
	int64_t repetitions, seed, run_timeout_s;
	int64_t memory_bytes; /* FACT_MISSING: no limit */
	double cpu_quota;     /* CPUs; 0: none */
	bool split;           /* placement */
	bool agent_report;
	struct run_bounds bounds;
	json_t *resolved; /* with "sha256" */
	char sha256[DIGEST_HEX];
};

struct plan *plan_read_file(
	const char *path, const struct plan_overrides *overrides, struct error *err);
/* plan.json of a results folder; its hash is checked. Takes the reference. */
struct plan *plan_read_resolved(json_t *resolved, const char *where, struct error *err);
void plan_free(struct plan *plan); /* accepts NULL */
/* The JSON Schema of plans as written. New reference. */
json_t *plan_schema(void);

/* ---- what is to be run */

struct plan_cell {
	size_t contender, scenario; /* indices */
	int64_t sessions;
};

/* Runs of a block: each cell once. */
size_t plan_cell_count(const struct plan *plan);
/* The cells of a block (from 1) in the order drawn from the plan's seed; free(). */
struct plan_cell *plan_block(const struct plan *plan, int64_t block);
/* The mock's seed: the same for every contender of a block, 0 … 2^63−1. */
int64_t plan_run_seed(const struct plan *plan, int64_t block, const struct plan_cell *cell);

/* About what the results take on disk if every run is valid at once, bytes. */
int64_t plan_results_bytes(const struct plan *plan);

/* What the mock's schedule alone makes a session of the scenario last, s; for estimates. */
double scenario_seconds(const struct scenario *scenario);

#endif
