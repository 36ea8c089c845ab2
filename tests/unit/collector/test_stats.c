#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "collector/stats.h"
#include "common/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CLOSE(a, b) assert_true(fabs((a) - (b)) < 1e-9)

static void percentiles_follow_the_definition(void **state)
{
	(void)state;
	const double values[] = {10, 20, 30, 40, 50};
	static const struct {
		size_t count;
		double fraction, expected;
	} rows[] = {
		{5, 0, 10},
		{5, 1, 50},
		{5, 0.5, 30}, /* ordinary order statistics */
		{4, 0.5, 25}, /* even count: the mean of the middle two */
		{5, 0.9, 46}, /* position 1 + 4 × 0.9 = 4.6: 40 + 0.6 × 10 */
		{5, 0.25, 20},
		{4, 0.25, 17.5},
		{2, 0.99, 19.9},
		{1, 0.99, 10},
		{1, 0, 10},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		CLOSE(stats_percentile(values, rows[i].count, rows[i].fraction), rows[i].expected);
	const double same[] = {0.1, 0.1, 0.1};
	assert_true(stats_percentile(same, 3, 0.37) == 0.1);
	CLOSE(stats_mean(values, 5), 30);
	CLOSE(stats_mean(values, 1), 10);
}

static void fences_are_tukeys(void **state)
{
	(void)state;
	const double values[] = {1, 2, 3, 4, 5, 6, 7, 100};
	double lo, hi;
	stats_fences(values, 8, &lo, &hi);
	/* quartiles at positions 2.75 and 6.25: 2.75 and 6.25; distance 3.5 */
	CLOSE(lo, 2.75 - 5.25);
	CLOSE(hi, 6.25 + 5.25);
}

/* P(at most k - 1 of count fair coins are heads), by counting all outcomes. */
static double coins(size_t count, size_t k)
{
	size_t hits = 0;
	for (uint32_t sides = 0; sides < UINT32_C(1) << count; sides++)
		hits += (size_t)__builtin_popcount(sides) < k;
	return (double)hits / (double)(UINT32_C(1) << count);
}

static void median_interval_is_the_narrowest_that_covers(void **state)
{
	(void)state;
	static const double confidences[] = {0.5, 0.9, 0.95, 0.99, 1 - 0.05 / 7};
	for (size_t c = 0; c < sizeof confidences / sizeof *confidences; c++) {
		for (size_t count = 1; count <= 16; count++) {
			double values[16];
			for (size_t i = 0; i < count; i++)
				values[i] = (double)i + 1;
			size_t best = 0;
			for (size_t k = 1; 2 * k <= count; k++) {
				if (1 - 2 * coins(count, k) >= confidences[c])
					best = k;
			}
			struct stats_interval interval;
			bool found =
				stats_median_interval(values, count, confidences[c], &interval);
			assert_int_equal(found, best > 0);
			if (!found)
				continue;
			CLOSE(interval.lo, (double)best);
			CLOSE(interval.hi, (double)(count + 1 - best));
			CLOSE(interval.confidence, 1 - 2 * coins(count, best));
		}
	}
}

static void no_interval_below_six(void **state)
{
	(void)state;
	const double values[] = {1, 2, 3, 4, 5, 6};
	struct stats_interval interval;
	double estimate;
	for (size_t count = 1; count <= 6; count++) {
		bool wanted = count >= STATS_INTERVAL_MIN;
		assert_int_equal(stats_median_interval(values, count, 0.95, &interval), wanted);
		assert_int_equal(
			stats_hodges_lehmann(values, count, 0.95, &estimate, &interval), wanted);
	}
	CLOSE(interval.lo, 1);
	CLOSE(interval.hi, 6);
	CLOSE(interval.confidence, 1 - 2.0 / 64);
	CLOSE(estimate, 3.5);
	/* tables of the sign test: 10 values: 2nd and 9th, 97.9%; 20: 6th and 15th, 95.9% */
	double more[20];
	for (size_t i = 0; i < 20; i++)
		more[i] = (double)i + 1;
	assert_true(stats_median_interval(more, 10, 0.95, &interval));
	CLOSE(interval.lo, 2);
	assert_true(fabs(interval.confidence - 0.978515625) < 1e-12);
	assert_true(stats_median_interval(more, 20, 0.95, &interval));
	CLOSE(interval.lo, 6);
	CLOSE(interval.hi, 15);
	/* large counts do not lose the tail to rounding */
	static double many[3000];
	for (size_t i = 0; i < 3000; i++)
		many[i] = (double)i;
	assert_true(stats_median_interval(many, 3000, 0.95, &interval));
	assert_true(interval.confidence >= 0.95 && interval.confidence < 0.96);
	assert_true(interval.lo > 1440 && interval.hi < 1560);
}

/* P(T <= t) by going through every assignment of signs. */
static double signs(size_t count, size_t t)
{
	size_t hits = 0;
	for (uint32_t set = 0; set < UINT32_C(1) << count; set++) {
		size_t sum = 0;
		for (size_t i = 0; i < count; i++)
			sum += set >> i & 1 ? i + 1 : 0;
		hits += sum <= t;
	}
	return (double)hits / (double)(UINT32_C(1) << count);
}

static void signed_rank_matches_enumeration(void **state)
{
	(void)state;
	for (size_t count = 1; count <= 12; count++) {
		for (size_t t = 0; t <= count * (count + 1) / 2; t++)
			CLOSE(stats_signed_rank_cdf(count, t), signs(count, t));
	}
	/* printed tables: n = 10, T <= 8: 0.0244; n = 20, T <= 52: 0.0242 */
	assert_true(fabs(stats_signed_rank_cdf(10, 8) - 0.0244) < 5e-5);
	assert_true(fabs(stats_signed_rank_cdf(20, 52) - 0.0242) < 5e-5);
}

/* The two-sided exact signed-rank p-value for the hypothesis "the centre is m". No ties, no zero.
 */
static double p_value(const double *values, size_t count, double m)
{
	size_t rank_sum = 0;
	for (size_t i = 0; i < count; i++) {
		size_t rank = 1;
		for (size_t j = 0; j < count; j++)
			rank += fabs(values[j] - m) < fabs(values[i] - m);
		rank_sum += values[i] > m ? rank : 0;
	}
	size_t other = count * (count + 1) / 2 - rank_sum;
	double p = 2 * signs(count, rank_sum < other ? rank_sum : other);
	return p < 1 ? p : 1;
}

static void hodges_lehmann_inverts_the_test(void **state)
{
	(void)state;
	/* The classic data of Hollander and Wolfe: estimate 0.46 */
	static const double values[] = {
		0.952, -0.147, 1.022, 0.430, 0.620, 0.590, 0.490, -0.080, 0.010};
	static const double confidences[] = {0.8, 0.9, 0.95, 0.99};
	for (size_t count = 4; count <= 9; count++) {
		for (size_t c = 0; c < sizeof confidences / sizeof *confidences; c++) {
			struct stats_interval interval;
			double estimate;
			if (!stats_hodges_lehmann(
				    values, count, confidences[c], &estimate, &interval)) {
				/* even the most extreme outcome is not rejected */
				assert_true(p_value(values, count, -100) > 1 - confidences[c]);
				continue;
			}
			assert_true(interval.confidence >= confidences[c]);
			assert_true(estimate >= interval.lo && estimate <= interval.hi);
			for (int step = 0; step < 670; step++) {
				double m = -0.5005 + 0.00297 * step;
				bool inside = m > interval.lo && m < interval.hi;
				assert_int_equal(
					inside, p_value(values, count, m) > 1 - confidences[c]);
			}
		}
	}
	double estimate;
	struct stats_interval interval;
	assert_true(stats_hodges_lehmann(values, 9, 0.95, &estimate, &interval));
	assert_true(fabs(estimate - 0.46) < 0.005);
	CLOSE(interval.lo, 0.01);
	CLOSE(interval.hi, 0.786);
}

/* The means of pairs are selected without making them; here all of them are made and sorted. */
static void pair_means_are_those_of_sorting(void **state)
{
	(void)state;
	uint64_t seed = 77;
	for (size_t count = 6; count <= 60; count++) {
		double values[60], means[60 * 61 / 2];
		for (size_t i = 0; i < count; i++) {
			/* ties, values on both sides of zero, and some far from the others */
			values[i] = floor(8 * rng_unit(&seed)) / 8 - 0.5;
			values[i] *= count % 3 == 0 ? pow(10, floor(9 * rng_unit(&seed)) - 4) : 1;
			values[i] += count % 3 == 1 ? rng_unit(&seed) : 0;
		}
		size_t top = 0;
		for (size_t i = 0; i < count; i++) {
			for (size_t j = i; j < count; j++)
				means[top++] = (values[i] + values[j]) / 2;
		}
		stats_sort(means, top);
		double estimate;
		struct stats_interval interval;
		assert_true(stats_hodges_lehmann(values, count, 0.95, &estimate, &interval));
		assert_true(estimate == stats_percentile(means, top, 0.5));
		/* P(T <= cut - 1) <= 2.5% < P(T <= cut) */
		size_t cut = 0;
		while (stats_signed_rank_cdf(count, cut) <= 0.025)
			cut++;
		assert_true(interval.lo == means[cut - 1]);
		assert_true(interval.hi == means[top - cut]);
		CLOSE(interval.confidence, 1 - 2 * stats_signed_rank_cdf(count, cut - 1));
	}
	double estimate;
	struct stats_interval interval;
	static const double zeros[8] = {0};
	assert_true(stats_hodges_lehmann(zeros, 8, 0.95, &estimate, &interval));
	assert_true(estimate == 0 && interval.lo == 0 && interval.hi == 0);
	assert_false(stats_hodges_lehmann(zeros, 0, 0.95, &estimate, &interval));
	assert_true(isnan(estimate));
}

static void many_values_use_the_normal_approximation(void **state)
{
	(void)state;
	uint64_t seed = 5;
	static double values[260];
	for (size_t i = 0; i < 260; i++)
		values[i] = rng_unit(&seed);
	double exact_centre, centre;
	struct stats_interval exact, interval;
	assert_true(stats_hodges_lehmann(values, 200, 0.95, &exact_centre, &exact));
	assert_true(stats_hodges_lehmann(values, 201, 0.95, &centre, &interval));
	/* one more value hardly moves either end: the two procedures agree where they meet */
	assert_true(fabs(exact.lo - interval.lo) < 0.004 && fabs(exact.hi - interval.hi) < 0.004);
	assert_true(interval.confidence >= 0.95 && interval.confidence < 0.951);
}

/* One draw of a distribution: 0 exponential (skewed), 1 Laplace (symmetric, centre 0). */
static double draw(int kind, uint64_t *seed)
{
	double size = -log(1 - rng_unit(seed));
	return kind == 0 || rng_next(seed) >> 63 ? size : -size;
}

/* Share of 20,000 intervals that hold the true centre, with a fixed seed. */
static double coverage(int kind, size_t count, bool ranks, double *nominal)
{
	enum { TRIALS = 20000 };
	uint64_t seed = 20240 + count;
	double centre = kind == 0 ? M_LN2 : 0;
	size_t hits = 0;
	for (int trial = 0; trial < TRIALS; trial++) {
		double values[32], estimate;
		for (size_t i = 0; i < count; i++)
			values[i] = draw(kind, &seed);
		stats_sort(values, count);
		struct stats_interval interval;
		assert_true(ranks ? stats_hodges_lehmann(values, count, 0.95, &estimate, &interval)
				  : stats_median_interval(values, count, 0.95, &interval));
		hits += interval.lo <= centre && centre <= interval.hi;
		*nominal = interval.confidence;
	}
	return (double)hits / TRIALS;
}

static void intervals_cover_as_often_as_they_say(void **state)
{
	(void)state;
	static const size_t counts[] = {6, 8, 10, 15};
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
		double nominal, share;
		share = coverage(0, counts[i], false, &nominal);
		/* 5 standard deviations of a share of 20,000 near 0.95 are 0.0077 */
		assert_true(nominal >= 0.95 && fabs(share - nominal) < 0.0077);
		share = coverage(1, counts[i], true, &nominal);
		assert_true(nominal >= 0.95 && fabs(share - nominal) < 0.0077);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(percentiles_follow_the_definition),
		cmocka_unit_test(fences_are_tukeys),
		cmocka_unit_test(median_interval_is_the_narrowest_that_covers),
		cmocka_unit_test(no_interval_below_six),
		cmocka_unit_test(signed_rank_matches_enumeration),
		cmocka_unit_test(hodges_lehmann_inverts_the_test),
		cmocka_unit_test(pair_means_are_those_of_sorting),
		cmocka_unit_test(many_values_use_the_normal_approximation),
		cmocka_unit_test(intervals_cover_as_often_as_they_say),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
