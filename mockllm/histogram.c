#include "mockllm/histogram.h"

#include <math.h>

static int bucket_of(int64_t value)
{
	if (value < HISTOGRAM_FINE)
		return (int)value;
	int shift = 63 - __builtin_clzll((unsigned long long)value) - 6;
	return (shift + 1) * HISTOGRAM_FINE + (int)((value >> shift) - HISTOGRAM_FINE);
}

static int64_t bucket_end(int bucket)
{
	if (bucket < HISTOGRAM_FINE)
		return bucket;
	int shift = bucket / HISTOGRAM_FINE - 1;
	int64_t fine = bucket % HISTOGRAM_FINE + HISTOGRAM_FINE;
	return (int64_t)((((uint64_t)fine + 1) << shift) - 1);
}

void histogram_add(struct histogram *histogram, int64_t value_ns)
{
	if (value_ns < 0)
		value_ns = 0;
	histogram->n++;
	histogram->counts[bucket_of(value_ns)]++;
	if (value_ns > histogram->max_ns)
		histogram->max_ns = value_ns;
}

int64_t histogram_percentile(const struct histogram *histogram, double part)
{
	int64_t wanted = (int64_t)ceil(part * (double)histogram->n), seen = 0;
	if (wanted < 1)
		wanted = 1;
	for (int i = 0; i < HISTOGRAM_BUCKETS; i++) {
		seen += histogram->counts[i];
		if (seen >= wanted) {
			int64_t end = bucket_end(i);
			return end < histogram->max_ns ? end : histogram->max_ns;
		}
	}
	return 0;
}
