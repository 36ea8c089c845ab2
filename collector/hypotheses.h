/*
 * Hypotheses: statements that a plan makes before its first run, decided by the intervals of its
 * results (docs/method.md, "Hypotheses"). In a plan:
 *
 * {"statement": "C needs at most half the memory of Node at 100 sessions",
 *  "figure": "memory_peak_bytes", "cells": {"left": "c", "right": "node", "scenario": "quick",
 *  "sessions": 100}, "relation": "<=", "threshold": 0.5}
 *
 * With "right", the ratio left ÷ right is held against the threshold; without it the figure's
 * median, in its own unit. The cells are those of the plan's track.
 */
#ifndef COLLECTOR_HYPOTHESES_H
#define COLLECTOR_HYPOTHESES_H

#include <jansson.h>

struct cells;
struct error;

/*
 * Check the "hypotheses" of a resolved plan (it may have none): fields, the figure's name, and that
 * contenders, scenario and sessions are the plan's. Messages name the field.
 */
int hypotheses_check(const json_t *plan, const char *where, struct error *err);

/*
 * An array with, for each: what the plan says, "confidence" asked (1 - 0.05/m for m hypotheses),
 * "value", "lo", "hi" of the interval, "n", "verdict" ("supported", "rejected", "undecided") and
 * "reason" where there is no interval. A memory peak that stood at its limit is at least that:
 * "at_least" (of the median, or of left), "at_most" (of right); the interval has no end on that
 * side. New reference; NULL as hypotheses_check fails.
 */
json_t *hypotheses_judge(
	const json_t *plan, const struct cells *cells, const char *where, struct error *err);

/* The JSON Schema of one of a plan's. New reference. */
json_t *hypotheses_schema(void);

#endif
