/*
 * Counts of durations by size, in buckets of at most 1/64 of their value (1 ns up to 64 ns), so
 * that percentiles of millions of events take 30 KB and no sorting.
 */
#ifndef MOCKLLM_HISTOGRAM_H
#define MOCKLLM_HISTOGRAM_H

#include <stdint.h>

enum {
	HISTOGRAM_FINE = 64, /* buckets for each power of two */
	HISTOGRAM_BUCKETS = 58 * HISTOGRAM_FINE,
};

struct histogram {
	int64_t n;
	int64_t max_ns;
	int64_t counts[HISTOGRAM_BUCKETS];
};

void histogram_add(struct histogram *histogram, int64_t value_ns); /* below 0 counts as 0 */

/* The smallest value that `part` (0 to 1) of all are not above, to the bucket's upper end, never
 * above the maximum. 0 when there is none: look at n. */
int64_t histogram_percentile(const struct histogram *histogram, double part);

#endif
