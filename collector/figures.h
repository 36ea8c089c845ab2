/*
 * The figures: their catalogue (names, units, what they mean), and those computed from a run's
 * samples. Definitions: docs/method.md, "Figures".
 */
#ifndef COLLECTOR_FIGURES_H
#define COLLECTOR_FIGURES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct samples;

struct figure {
	const char *name;  /* member of a record */
	const char *unit;  /* "ms", "bytes", "usec", "count", "per GiB" */
	const char *title; /* for people, with a capital */
	const char *definition;
	bool per_turn; /* a distribution in the record: {p50, p90, …} */
	bool time;     /* not shown where the machine is emulated */
	bool compared; /* between contenders: less is better */
};

extern const struct figure figures[];
extern const size_t figures_count;

/* NULL if there is none of that name. */
const struct figure *figure_find(const char *name);

/* The statistics of a per-turn figure, as members of its distribution. */
struct figure_statistic {
	const char *name; /* "p99" */
	double fraction;  /* of stats_percentile; < 0: the mean */
	size_t pool_min;  /* samples from which a summary gives it */
	bool compared;
};

extern const struct figure_statistic figure_statistics[];
extern const size_t figure_statistics_count;

/*
 * The single numbers that a summary is made of, each with its key: a figure that is one number has
 * its name ("startup_ms"), of a per-turn figure each statistic has one ("overhead_ms.p50").
 */
struct figure_key {
	const struct figure *figure;
	const struct figure_statistic *statistic; /* NULL: the figure is one number */
	char name[48];
};

extern const size_t figure_keys_count;
/* In the catalogue's order, i < figure_keys_count. Static storage. */
const struct figure_key *figure_key(size_t i);
/* figure_keys_count if there is none of that name. */
size_t figure_key_find(const char *name);
/* Both the figure and the statistic are. */
bool figure_key_compared(const struct figure_key *key);

/* Numbers that grow; auto_… not needed: part of turn_figures or released by hand. */
struct series {
	double *values;
	size_t count, capacity;
	bool sorted;
};

void series_add(struct series *series, double value);
void series_release(struct series *series);
/* {p50, p90, p99, p999, mean, max, n, negative}, rounded to 1e-6; NULL if there is no value. Sorts.
 */
json_t *series_distribution(struct series *series);

struct turn_figures {
	struct series turn_gap_ms, overhead_ms, first_request_ms, turn_overhead_agent_ms;
	int64_t correct_turns;    /* answered in full */
	int64_t paced_ns;         /* of these: time at the model, and what their tools demanded */
	int64_t demand_missing;   /* gaps without a tool demand, so without an overhead */
	int64_t sessions_at_once; /* most sessions under way at one instant, of one run */
};

/*
 * Add a run's samples; begin with a zeroed struct. Adding several runs pools them. `suite_tool`:
 * the tools report a demand; without it there is no overhead_ms.
 */
void turn_figures_add(struct turn_figures *figures, const struct samples *samples, bool suite_tool);
void turn_figures_release(struct turn_figures *figures);
#define auto_turn_figures __attribute__((cleanup(turn_figures_release)))

/* The series of a per-turn figure by name; NULL for another name. */
struct series *turn_figures_series(struct turn_figures *figures, const char *name);

#endif
