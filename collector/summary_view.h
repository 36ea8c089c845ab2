/* Reading a summary for its reports: what is shown of a cell, and how. All borrowed from it. */
#ifndef COLLECTOR_SUMMARY_VIEW_H
#define COLLECTOR_SUMMARY_VIEW_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

const char *view_text(const json_t *object, const char *name); /* "" if it is no text */
int64_t view_integer(const json_t *object, const char *name);  /* 0 if it is none */
bool view_flag(const json_t *object, const char *name);

/* A figure of a cell by key ("overhead_ms.p50"). */
struct view_figure {
	bool known; /* median, lo, hi */
	double median, lo, hi;
	double confidence; /* 0: lo and hi are minimum and maximum */
	bool pooled_known;
	double pooled;
	int64_t n;
	bool at_least, at_most;     /* of lower bounds */
	const char *unit, *missing; /* missing: "" where known */
};
struct view_figure view_figure(const json_t *cell, const char *key);

/* The ratio of a cell to the best ("best") or the floor ("yardstick") of its group; NULL if there
 * is none. */
const json_t *view_ratio(
	const json_t *summary, const json_t *cell, const char *key, const char *kind);
/*
 * Whether the cell itself is the best of its group: by the ratios, or of sessions per GiB and per
 * core the one with the most. Of other figures that are not compared none is.
 */
bool view_is_best(const json_t *summary, const json_t *cell, const char *key);

/*
 * "12.3", "≥ 512", "≤ 40" in the unit that people are shown; malloc'ed; NULL where it is not known.
 * High percentiles are shown of the pooled samples, everything else as the median over runs.
 */
char *view_shown(const struct view_figure *figure, bool pooled);
/* "[11.9, 12.8]", "11.9–12.8" for minimum and maximum; malloc'ed, NULL where not known. */
char *view_shown_interval(const struct view_figure *figure);
/* "×1.23": a cell against the best, which itself reads "best"; malloc'ed, NULL where there is none.
 */
char *view_times_best(const json_t *summary, const json_t *cell, const char *key);
/* A ratio, and a hypothesis's finding, as a figure for view_shown and view_shown_interval. The
 * latter is known only with its interval. */
struct view_figure view_ratio_interval(const json_t *ratio);
struct view_figure view_hypothesis(const json_t *hypothesis);
/* "< 1.00 ms"; malloc'ed. */
char *view_claim(const json_t *hypothesis);

/* Per-turn overhead of a setting: "overhead_ms", or "turn_gap_ms" where tools tell no demand. */
const char *view_headline(const json_t *summary, size_t setting);
/* Its memory peak: "memory_peak_bytes", of cold cells "memory_peak_cold_bytes". */
const char *view_memory_key(const json_t *summary, size_t setting);

/* "quick · 512 MiB · split · shipped · local · v1": what a setting is, in a line. malloc'ed, not
 * escaped. */
char *view_setting(const json_t *setting);

#endif
