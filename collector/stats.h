/*
 * The statistics of the reports (docs/method.md, "Statistics"). Exact small-sample procedures; no
 * random numbers. Values must be finite; sorting is the caller's where it says `sorted`.
 */
#ifndef COLLECTOR_STATS_H
#define COLLECTOR_STATS_H

#include <stdbool.h>
#include <stddef.h>

/* An interval, and the coverage it really has (at least what was asked for). */
struct stats_interval {
	double lo, hi;
	double confidence;
};

/* Fewest observations for which a 95% interval of either kind below exists. */
enum { STATS_INTERVAL_MIN = 6 };

void stats_sort(double *values, size_t count);

/*
 * The one definition of a percentile: linear interpolation between order statistics, at position
 * 1 + (count − 1) × fraction counted from 1 (Hyndman and Fan's type 7, the default of R and NumPy).
 * fraction of 0 … 1, count >= 1; fraction 0.5 is the ordinary median.
 */
double stats_percentile(const double *sorted, size_t count, double fraction);

double stats_mean(const double *values, size_t count);

/*
 * Interval for the population's median from order statistics (the sign test inverted): the
 * narrowest [sorted[k-1], sorted[count-k]] that covers with at least `confidence`, whatever the
 * distribution. False when even minimum to maximum does not.
 */
bool stats_median_interval(
	const double *sorted, size_t count, double confidence, struct stats_interval *out);

/*
 * Hodges–Lehmann: the median of the count × (count + 1) / 2 pairwise means (Walsh averages) as the
 * centre of symmetric differences, and the interval by inverting the exact signed-rank test
 * (beyond 200 values: by its normal approximation). `values` in any order. *estimate is always
 * set; false, and *out untouched, when there are too few values for the confidence.
 */
bool stats_hodges_lehmann(const double *values, size_t count, double confidence, double *estimate,
	struct stats_interval *out);

/* P(T <= t) of Wilcoxon's signed-rank statistic under the null hypothesis, exact; count <= 200. */
double stats_signed_rank_cdf(size_t count, size_t t);

/* Tukey's inner fences: quartiles less and plus 1.5 × their distance. count >= 1. */
void stats_fences(const double *sorted, size_t count, double *lo, double *hi);

#endif
