/*
 * How far a plan has come, for people: on a terminal one line that is rewritten, elsewhere a line
 * for each run. Time left is what the schedules still to be played last, scaled by how long the
 * ones played so far have taken against theirs.
 */
#ifndef COLLECTOR_PROGRESS_H
#define COLLECTOR_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct progress {
	FILE *out; /* NULL: quiet */
	bool terminal, colour;
	size_t width; /* columns of the terminal */
	int64_t total, finished, not_ok, invalid;
	double left_s;             /* by schedule, of the runs to come */
	double planned_s, spent_s; /* of the runs finished */
	int64_t begun_ns;          /* of the run in progress; 0: none */
	double run_planned_s;
	bool run_warm_up;
	char run_what[256];
};

void progress_begin(struct progress *progress, FILE *out, int64_t total, double planned_s);
/* A run begins; `what` is "node, 100 sessions, quick, block 2". A warm-up counts for time only. */
void progress_run(struct progress *progress, const char *what, double planned_s, bool warm_up);
/* Some time has passed: on a terminal, show how much is left now. */
void progress_tick(const struct progress *progress);
/* More is to be done than was thought: an invalid run comes again. */
void progress_more(struct progress *progress, double planned_s);
/* It has ended; "ok", "oom: ran out …", "not valid: …". */
void progress_ran(struct progress *progress, const char *result, bool ok, bool valid);
/* Take the rewritten line away. */
void progress_end(struct progress *progress);

/* s; by schedule until something was measured */
double progress_left_s(const struct progress *progress);
/* "45 s", "3 min 20 s", "2 h 05 min" */
void progress_format_time(double seconds, char *out, size_t size);

#endif
