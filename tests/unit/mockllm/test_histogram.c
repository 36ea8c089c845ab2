#include "mockllm/histogram.h"

#include "common/rng.h"
#include "tests/unit/mockllm/fixture.h"

static struct histogram histogram;

static int setup(void **state)
{
	(void)state;
	histogram = (struct histogram){0};
	return 0;
}

static void an_empty_one_has_no_samples(void **state)
{
	(void)state;
	assert_int_equal(histogram.n, 0);
	assert_int_equal(histogram_percentile(&histogram, 0.5), 0);
}

static void small_values_are_exact(void **state)
{
	(void)state;
	for (int64_t value = 1; value <= 50; value++)
		histogram_add(&histogram, value);
	assert_int_equal(histogram_percentile(&histogram, 0.5), 25);
	assert_int_equal(histogram_percentile(&histogram, 0.9), 45);
	assert_int_equal(histogram_percentile(&histogram, 0.99), 50);
	assert_int_equal(histogram_percentile(&histogram, 0), 1);
	assert_int_equal(histogram_percentile(&histogram, 1), 50);
}

static void below_zero_is_zero(void **state)
{
	(void)state;
	histogram_add(&histogram, -5);
	assert_int_equal(histogram.n, 1);
	assert_int_equal(histogram.max_ns, 0);
	assert_int_equal(histogram_percentile(&histogram, 1), 0);
}

/* Never below the true value, never more than 1/64 above it, for every size of number. */
static void large_values_are_close(void **state)
{
	(void)state;
	uint64_t random = 3;
	for (int bits = 1; bits < 63; bits++) {
		for (int i = 0; i < 20; i++) {
			histogram = (struct histogram){0};
			int64_t value = rng_between(
				&random, INT64_C(1) << (bits - 1), (INT64_C(1) << bits) - 1);
			histogram_add(&histogram, value);
			histogram_add(&histogram, INT64_MAX);
			int64_t found = histogram_percentile(&histogram, 0.5);
			assert_true(found >= value && found - value <= value / 64);
		}
	}
	assert_int_equal(histogram_percentile(&histogram, 1), INT64_MAX);
}

static void nothing_is_above_the_maximum(void **state)
{
	(void)state;
	for (int i = 0; i < 10; i++)
		histogram_add(&histogram, 1000001);
	assert_int_equal(histogram_percentile(&histogram, 0.5), 1000001);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(an_empty_one_has_no_samples, setup),
		cmocka_unit_test_setup(small_values_are_exact, setup),
		cmocka_unit_test_setup(below_zero_is_zero, setup),
		cmocka_unit_test_setup(large_values_are_close, setup),
		cmocka_unit_test_setup(nothing_is_above_the_maximum, setup),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
