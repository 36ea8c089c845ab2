/*
 * A results folder as read: plan, environment and the records of runs, checked. What a record holds
 * beyond the members used here is not looked at.
 */
#ifndef COLLECTOR_RESULTS_H
#define COLLECTOR_RESULTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collector/judge.h"

struct error;

/* One record. Texts are borrowed from `json`. */
struct run_record {
	json_t *json;
	int64_t run, block, sessions;
	const char *contender, *track, *scenario, *placement, *mode, *backend;
	const char *machine_id, *suite_version;
	const json_t *limits; /* {asked, in_force} */
	bool warm_up, cold, timed, valid, suite_tool, at_limit;
	enum outcome outcome;
	const char *detail;
	const json_t *invalid_reasons;
};

struct results {
	json_t *plan;
	json_t *environment; /* NULL: there is no such file */
	const char *plan_sha256;
	struct run_record *runs; /* in order of the file */
	size_t run_count;
	json_t *notes; /* array of texts: what was left out, and why */
};

/*
 * Read the folder. Messages begin with the file's name and, for records, the line. A last line that
 * was torn off (no LF, no JSON) is left out and noted. A plan whose hash is not its own, records of
 * another plan, two records of one number, or no record at all are errors.
 */
int results_read(int dir_fd, struct results *out, struct error *err);
void results_release(struct results *results);
#define auto_results __attribute__((cleanup(results_release)))

/* One record by itself, of any plan. */
int record_check(json_t *record, const char *where, struct error *err);
/* The JSON Schema of a record. New reference. */
json_t *record_schema(void);

/* {p50, …} of a per-turn figure or a number; NULL where the record has none. Borrowed. */
const json_t *run_record_figure(const struct run_record *run, const char *name);
/* Why it has none. */
const char *run_record_missing(const struct run_record *run, const char *name);

#endif
