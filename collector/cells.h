/*
 * Cells: the runs of a results folder grouped into what was measured repeatedly, with the figures
 * of each over its runs. docs/method.md, "Units" and "Statistics".
 */
#ifndef COLLECTOR_CELLS_H
#define COLLECTOR_CELLS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collector/figures.h"
#include "collector/results.h"

struct error;

/* Share of attempted runs that may fail before a cell has no point estimate. */
#define CELL_FAILED_MAX 0.10

/* The coverage asked of intervals, where no hypothesis asks for more. */
#define CELL_CONFIDENCE 0.95

/* A figure (figure_key) of a cell. */
struct cell_figure {
	double *values; /* of cell->completed[i]; NAN: that run has none */
	size_t count;   /* values that are there */
	bool known;     /* median, lo and hi are set */
	double median;
	double lo, hi; /* interval of `confidence`; minimum and maximum where that is 0 */
	double confidence;
	bool pooled_known; /* per-turn figures: the statistic of all samples of the cell */
	double pooled;
	size_t samples; /* pooled: their number, and how many are negative */
	size_t negative;
	bool at_least;             /* a lower bound: some run stood at its limit, or was sampled */
	double fence_lo, fence_hi; /* Tukey's; values outside are flagged */
	char *missing;             /* why `known` is false; malloc'ed */
};

struct cell {
	const char *contender; /* borrowed from a record */
	int64_t sessions;
	const struct run_record *first; /* any run: what all of the cell have in common */
	char *setting;                  /* all that must be equal for a comparison; malloc'ed */
	size_t setting_number;          /* the same for equal settings, from 0 */
	const struct run_record **runs; /* attempted: valid and no warm-up, in order of the file */
	size_t attempted;
	const struct run_record **completed; /* of these, the ones with outcome ok */
	size_t completed_count;
	bool estimated;              /* not too many failed */
	struct cell_figure *figures; /* by figure_key */
};

struct cells {
	struct cell *list; /* ordered by setting, sessions, contender in the plan's order */
	size_t count;
};

/*
 * Group, read the sample files (below dir_fd) and compute. A sample file that is not there leaves
 * the pooled figures of its cell missing and adds a note to results->notes; one that is malformed
 * is an error. `results` must outlive the cells.
 */
int cells_make(int dir_fd, struct results *results, struct cells *out, struct error *err);
void cells_release(struct cells *cells);
#define auto_cells __attribute__((cleanup(cells_release)))

/* left ÷ right over blocks, with its interval (minimum and maximum of the blocks where confidence
 * is 0 in the result). False, and the reason in *why, where there is none. */
struct ratio {
	double value, lo, hi, confidence;
	size_t pairs;
};
bool cells_ratio(const struct cell *left, const struct cell *right, size_t key, double confidence,
	struct ratio *out, const char **why);

/* Position of `name` in the plan's list of contenders or scenarios; its length if it is not there.
 */
size_t plan_position(const json_t *plan, const char *list, const char *name);

#endif
