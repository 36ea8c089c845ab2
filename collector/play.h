/* A whole plan, from the first warm-up to the summary. */
#ifndef COLLECTOR_PLAY_H
#define COLLECTOR_PLAY_H

#include <stdbool.h>
#include <stdio.h>

#include "collector/plan.h"
#include "collector/site.h"

struct error;
struct loop;

struct play_options {
	const char *plan_path; /* may be NULL with resume; else it must be the same plan */
	const char *resume;    /* results folder to go on with */
	const char *out;       /* see folder_make */
	struct plan_overrides overrides;
	struct site_options site;
	FILE *progress; /* NULL: quiet */
	FILE *table;    /* where the end table goes */
	bool json;      /* summary.json there instead of the table */
	bool dry_run;   /* tell order, counts, time and disk there instead, and play nothing */
};

enum play_result {
	PLAY_OK,    /* all runs measured, all valid, every outcome "ok" */
	PLAY_NOT_OK /* the plan was played; some runs are not valid or not "ok" */
};

/*
 * Returns a play_result, or -1 with *err: *bad_input says that plan, manifest or scenario were at
 * fault and nothing was run. An interruption (options->site.stop) ends the current run, and is
 * PLAY_OK or PLAY_NOT_OK of what was measured; without any run it is -1.
 */
int play(struct loop *loop, const struct play_options *options, bool *bad_input, struct error *err);

#endif
