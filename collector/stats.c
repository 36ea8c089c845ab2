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
static size_t signed_rank_cut(size_t count, double confidence, double *covered)
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

bool stats_hodges_lehmann(const double *values, size_t count, double confidence, double *estimate,
	struct stats_interval *out)
{
	size_t top = count * (count + 1) / 2;
	auto_free double *walsh = xmalloc((top + 1) * sizeof *walsh);
	size_t filled = 0;
	for (size_t i = 0; i < count; i++) {
		for (size_t j = i; j < count; j++)
			walsh[filled++] = (values[i] + values[j]) / 2;
	}
	stats_sort(walsh, top);
	*estimate = count ? stats_percentile(walsh, top, 0.5) : NAN;
	double covered = 0;
	size_t cut = signed_rank_cut(count, confidence, &covered);
	if (!cut)
		return false;
	*out = (struct stats_interval){walsh[cut - 1], walsh[top - cut], covered};
	return true;
}

void stats_fences(const double *sorted, size_t count, double *lo, double *hi)
{
	double first = stats_percentile(sorted, count, 0.25);
	double third = stats_percentile(sorted, count, 0.75);
	*lo = first - 1.5 * (third - first);
	*hi = third + 1.5 * (third - first);
}
