#include "collector/stats.h"

#include "common/cleanup.h"
#include "common/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { EXACT_MAX = 200 };

static int compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;
	return (a > b) - (a < b);
}

void stats_sort(double *values, size_t count)
{
	if (count)
		qsort(values, count, sizeof *values, compare);
}

double stats_percentile(const double *sorted, size_t count, double fraction)
{
	double position = (double)(count - 1) * fraction;
	size_t below = (size_t)position;
	if (below + 1 >= count)
		return sorted[count - 1];
	double part = position - (double)below;
	/* Not a weighted sum: equal neighbours must give exactly their value. */
	return sorted[below] + part * (sorted[below + 1] - sorted[below]);
}

double stats_mean(const double *values, size_t count)
{
	double mean = 0;
	for (size_t i = 0; i < count; i++)
		mean += (values[i] - mean) / (double)(i + 1);
	return mean;
}

bool stats_median_interval(
	const double *sorted, size_t count, double confidence, struct stats_interval *out)
{
	/* tail = P(Binomial(count, 1/2) <= k - 1): the chance that the k-th value is above the
	 * median */
	double tail = 0;
	size_t k = 0;
	double covered = 0;
	for (size_t i = 0; 2 * (i + 1) <= count; i++) {
		tail += exp(lgamma((double)count + 1) - lgamma((double)i + 1) -
			    lgamma((double)(count - i) + 1) - (double)count * M_LN2);
		if (1 - 2 * tail < confidence)
			break;
		k = i + 1;
		covered = 1 - 2 * tail;
	}
	if (!k)
		return false;
	*out = (struct stats_interval){sorted[k - 1], sorted[count - k], covered};
	return true;
}

/* Probabilities of 0 … count × (count + 1) / 2; free() it. */
static double *signed_rank_distribution(size_t count)
{
	size_t top = count * (count + 1) / 2;
	double *chance = xcalloc(top + 1, sizeof *chance);
	chance[0] = 1;
	/* Each rank is in the sum or not, evenly; from the top so that a rank is used once. */
	for (size_t rank = 1; rank <= count; rank++) {
		for (size_t t = rank * (rank + 1) / 2 + 1; t-- > 0;)
			chance[t] = (chance[t] + (t >= rank ? chance[t - rank] : 0)) / 2;
	}
	return chance;
}

double stats_signed_rank_cdf(size_t count, size_t t)
{
	auto_free double *chance = signed_rank_distribution(count);
	double sum = 0;
	for (size_t i = 0; i <= t && i <= count * (count + 1) / 2; i++)
		sum += chance[i];
	return sum;
}

/* The largest c with P(T <= c - 1) <= (1 - confidence) / 2, and the coverage it gives; 0: none. */
static size_t find_cut(size_t count, double confidence, double *covered)
{
	double tail_max = (1 - confidence) / 2;
	size_t top = count * (count + 1) / 2;
	size_t cut = 0;
	if (count <= EXACT_MAX) {
		auto_free double *chance = signed_rank_distribution(count);
		double tail = 0;
		for (size_t t = 0; 2 * (t + 1) <= top; t++) {
			tail += chance[t];
			if (tail > tail_max)
				break;
			cut = t + 1;
			*covered = 1 - 2 * tail;
		}
		return cut;
	}
	double n = (double)count;
	double mean = n * (n + 1) / 4, deviation = sqrt(n * (n + 1) * (2 * n + 1) / 24);
	for (size_t t = 0; 2 * (t + 1) <= top; t++) {
		double tail = erfc((mean - (double)t - 0.5) / deviation / M_SQRT2) / 2;
		if (tail > tail_max)
			break;
		cut = t + 1;
		*covered = 1 - 2 * tail;
	}
	return cut;
}

/* Thousands of ratios are of few different counts, and finding a cut takes longer than the rest. */
static size_t signed_rank_cut(size_t count, double confidence, double *covered)
{
	static struct {
		size_t count, cut;
		double confidence, covered;
	} found[EXACT_MAX];
	size_t place = count % EXACT_MAX;
	if (found[place].count != count || found[place].confidence != confidence) {
		found[place].covered = 0;
		found[place].cut = find_cut(count, confidence, &found[place].covered);
		found[place].count = count;
		found[place].confidence = confidence;
	}
	*covered = found[place].covered;
	return found[place].cut;
}

/* Pairs i <= j of the sorted values whose mean is at most x. */
static size_t means_at_most(const double *sorted, size_t count, double x)
{
	size_t found = 0, end = count;
	for (size_t i = 0; i < end; i++) {
		while (end > i && (sorted[i] + sorted[end - 1]) / 2 > x)
			end--;
		found += end - i;
	}
	return found;
}

/*
 * The k-th smallest (from 1) of the means of pairs, without making all of them: the smallest number
 * that has k of them at or below it, found by halving until there is no number in between.
 */
static double pair_mean(const double *sorted, size_t count, size_t k)
{
	double below = sorted[0], at = sorted[count - 1];
	if (means_at_most(sorted, count, below) >= k)
		return below;
	for (;;) {
		double middle = below + (at - below) / 2;
		if (middle <= below || middle >= at)
			return at;
		if (means_at_most(sorted, count, middle) >= k)
			at = middle;
		else
			below = middle;
	}
}

bool stats_hodges_lehmann(const double *values, size_t count, double confidence, double *estimate,
	struct stats_interval *out)
{
	*estimate = NAN;
	if (!count)
		return false;
	auto_free double *sorted = xmalloc(count * sizeof *sorted);
	memcpy(sorted, values, count * sizeof *sorted);
	stats_sort(sorted, count);
	size_t top = count * (count + 1) / 2;
	double low = pair_mean(sorted, count, (top + 1) / 2);
	double high = top % 2 ? low : pair_mean(sorted, count, top / 2 + 1);
	*estimate = low + (high - low) / 2;
	double covered = 0;
	size_t cut = signed_rank_cut(count, confidence, &covered);
	if (!cut)
		return false;
	*out = (struct stats_interval){
		pair_mean(sorted, count, cut), pair_mean(sorted, count, top - cut + 1), covered};
	return true;
}

void stats_fences(const double *sorted, size_t count, double *lo, double *hi)
{
	double first = stats_percentile(sorted, count, 0.25);
	double third = stats_percentile(sorted, count, 0.75);
	*lo = first - 1.5 * (third - first);
	*hi = third + 1.5 * (third - first);
}
