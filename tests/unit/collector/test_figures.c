#include "collector/figures.h"

#include "collector/run_facts.h"
#include "collector/samples.h"
#include "common/clock.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#define CLOSE(a, b) assert_true(fabs((a) - (b)) < 1e-9)
#define NONE FACT_MISSING

/* A row with the stamps that figures are made of, ms. */
static struct sample row(int64_t session, int64_t turn, int64_t attempt, double read, double end,
	int64_t calls, double demand, double agent)
{
	struct sample out = {.session = session, .turn = turn, .attempt = attempt};
	out.connection = out.first_ns = out.late_self_us = out.late_peer_us = NONE;
	out.tool_wall_ns = out.bytes_in = out.bytes_out = NONE;
	out.read_ns = isnan(read) ? NONE : (int64_t)(read * NS_PER_MS);
	out.headers_ns = isnan(read) ? NONE : out.read_ns - NS_PER_MS / 2;
	out.end_before_ns = isnan(end) ? NONE : (int64_t)(end * NS_PER_MS);
	out.end_after_ns = out.end_before_ns;
	out.tool_calls = calls;
	out.tool_demand_ns = isnan(demand) ? NONE : (int64_t)(demand * NS_PER_MS);
	out.agent_turn_ns = isnan(agent) ? NONE : (int64_t)(agent * NS_PER_MS);
	return out;
}

static double value(struct series *series, size_t i)
{
	assert_true(i < series->count);
	return series->values[i];
}

static void gaps_overheads_and_agent_turns(void **state)
{
	(void)state;
	struct sample rows[] = {
		row(1, 1, 1, 10, 110, 2, 5, 108),
		row(1, 2, 1, 118, 218, 1, 7, 108.25), /* gap 8, overhead 3 */
		row(1, 3, 1, 224, 324, 0, NAN, 101),  /* gap 6, overhead -1; agent 1.25 of turn 2 */
		row(2, 1, 1, 12, 112, 1, NAN, NAN),
		row(2, 2, 1, 122, NAN, 1, 5, NAN), /* gap 10, no demand known; stream cut */
	};
	struct samples samples = {rows, 5};
	struct turn_figures auto_turn_figures figures_ = {.correct_turns = 0};
	turn_figures_add(&figures_, &samples, true);
	assert_int_equal(figures_.turn_gap_ms.count, 3);
	CLOSE(value(&figures_.turn_gap_ms, 0), 8);
	CLOSE(value(&figures_.turn_gap_ms, 1), 6);
	CLOSE(value(&figures_.turn_gap_ms, 2), 10);
	assert_int_equal(figures_.overhead_ms.count, 2);
	CLOSE(value(&figures_.overhead_ms, 0), 3);
	CLOSE(value(&figures_.overhead_ms, 1), -1);
	assert_int_equal(figures_.demand_missing, 1);
	assert_int_equal(figures_.correct_turns, 4);
	assert_int_equal(figures_.first_request_ms.count, 2);
	CLOSE(value(&figures_.first_request_ms, 1), 12);
	/* turn 1 is left out, turn 3 has no next request */
	assert_int_equal(figures_.turn_overhead_agent_ms.count, 1);
	CLOSE(value(&figures_.turn_overhead_agent_ms, 0), 108.25 - 100 - 7);
	/* four streams and the demands that are known */
	assert_int_equal(figures_.paced_ns, 412000000);
	assert_int_equal(figures_.sessions_at_once, 2);
}

static void other_tools_have_no_overhead(void **state)
{
	(void)state;
	struct sample rows[] = {
		row(1, 1, 1, 10, 110, 2, NAN, NAN),
		row(1, 2, 1, 118, 218, 2, NAN, 107),
		row(1, 3, 1, 224, 324, 0, NAN, NAN),
	};
	struct samples samples = {rows, 3};
	struct turn_figures auto_turn_figures figures_ = {.correct_turns = 0};
	turn_figures_add(&figures_, &samples, false);
	assert_int_equal(figures_.turn_gap_ms.count, 2);
	assert_int_equal(figures_.overhead_ms.count, 0);
	assert_int_equal(figures_.demand_missing, 0);
	CLOSE(value(&figures_.turn_overhead_agent_ms, 0), 7);
	assert_int_equal(figures_.paced_ns, 300000000);
}

static void retries_count_from_the_last_answer_to_the_first_request(void **state)
{
	(void)state;
	struct sample rows[] = {
		row(1, 1, 1, 10, 20, 0, NAN, NAN),     /* answered with a fault */
		row(1, 1, 2, 500, 600, 1, 5, NAN),     /* the turn's answer */
		row(1, 2, 1, 608, 610, 0, NAN, NAN),   /* a fault again: overhead 3 */
		row(1, 2, 2, 1200, 1300, 1, 5, 900),   /* not comparable: repeated */
		row(1, 3, 1, 1307, 1400, 0, NAN, NAN), /* overhead 2 */
	};
	struct samples samples = {rows, 5};
	struct turn_figures auto_turn_figures figures_ = {.correct_turns = 0};
	turn_figures_add(&figures_, &samples, true);
	assert_int_equal(figures_.overhead_ms.count, 2);
	CLOSE(value(&figures_.overhead_ms, 0), 3);
	CLOSE(value(&figures_.overhead_ms, 1), 2);
	assert_int_equal(figures_.correct_turns, 3);
	assert_int_equal(figures_.paced_ns, 303000000);
	assert_int_equal(figures_.turn_overhead_agent_ms.count, 0);
	assert_int_equal(figures_.first_request_ms.count, 1);
	CLOSE(value(&figures_.first_request_ms, 0), 10);
}

static void a_turn_without_an_answer_in_between_gives_no_gap(void **state)
{
	(void)state;
	struct sample rows[] = {
		row(1, 1, 1, 10, 110, 1, 5, NAN),
		row(1, 3, 1, 300, 400, 1, 5, NAN),   /* turn 2 is not there */
		row(1, 4, 1, NAN, NAN, 0, NAN, NAN), /* never fully read */
	};
	struct samples samples = {rows, 3};
	struct turn_figures auto_turn_figures figures_ = {.correct_turns = 0};
	turn_figures_add(&figures_, &samples, true);
	assert_int_equal(figures_.turn_gap_ms.count, 0);
	assert_int_equal(figures_.correct_turns, 2);
}

static void a_turn_cut_in_its_last_burst_is_not_correct(void **state)
{
	(void)state;
	struct sample rows[] = {
		row(1, 1, 1, 10, 110, 1, 5, NAN),
		row(1, 2, 1, 117, 200, 1, 5, NAN),
	};
	rows[1].end_after_ns = NONE;
	struct samples samples = {rows, 2};
	struct turn_figures auto_turn_figures figures_ = {.correct_turns = 0};
	turn_figures_add(&figures_, &samples, true);
	assert_int_equal(figures_.correct_turns, 1);
	assert_int_equal(figures_.turn_gap_ms.count, 1);
}

static void runs_are_pooled_and_sessions_at_once_are_not_added(void **state)
{
	(void)state;
	struct sample rows[] = {
		row(1, 1, 1, 10, 110, 1, 5, NAN),
		row(1, 2, 1, 117, 200, 0, NAN, NAN),
		row(2, 1, 1, 150, 250, 1, 5, NAN),
		row(3, 1, 1, 260, 300, 1, 5, NAN),
	};
	struct samples samples = {rows, 4};
	struct turn_figures auto_turn_figures figures_ = {.correct_turns = 0};
	turn_figures_add(&figures_, &samples, true);
	turn_figures_add(&figures_, &samples, true);
	assert_int_equal(figures_.overhead_ms.count, 2);
	assert_int_equal(figures_.sessions_at_once, 2); /* s3 began after s1 and s2 had ended */
	struct samples none = {NULL, 0};
	turn_figures_add(&figures_, &none, true);
	assert_int_equal(figures_.overhead_ms.count, 2);
}

static void distributions(void **state)
{
	(void)state;
	struct series series = {NULL, 0, 0, false};
	assert_null(series_distribution(&series));
	static const double values[] = {5, -1, 3, 2, 4, -2};
	for (size_t i = 0; i < 6; i++)
		series_add(&series, values[i]);
	json_auto_t *out = series_distribution(&series);
	static const struct {
		const char *name;
		double expected;
	} rows[] = {{"p50", 2.5}, {"p90", 4.5}, {"p99", 4.95}, {"p999", 4.995}, {"mean", 1.833333},
		{"max", 5}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		CLOSE(json_real_value(json_object_get(out, rows[i].name)), rows[i].expected);
	assert_int_equal(json_integer_value(json_object_get(out, "n")), 6);
	assert_int_equal(json_integer_value(json_object_get(out, "negative")), 2);
	/* one more value after sorting is not lost */
	series_add(&series, -3);
	json_auto_t *more = series_distribution(&series);
	CLOSE(json_real_value(json_object_get(more, "p50")), 2);
	assert_int_equal(json_integer_value(json_object_get(more, "negative")), 3);
	series_release(&series);
}

static void the_catalogue_is_sound(void **state)
{
	(void)state;
	struct turn_figures auto_turn_figures figures_ = {.correct_turns = 0};
	for (size_t i = 0; i < figures_count; i++) {
		assert_ptr_equal(figure_find(figures[i].name), &figures[i]);
		assert_true((turn_figures_series(&figures_, figures[i].name) != NULL) ==
			    figures[i].per_turn);
	}
	assert_null(figure_find("overhead"));
	for (size_t i = 0; i < figure_keys_count; i++)
		assert_int_equal(figure_key_find(figure_key(i)->name), i);
	assert_int_equal(figure_key_find("overhead_ms"), figure_keys_count);
	const struct figure_key *key = figure_key(figure_key_find("overhead_ms.p99"));
	assert_true(figure_key_compared(key));
	assert_int_equal(key->statistic->pool_min, 1000);
	assert_false(figure_key_compared(figure_key(figure_key_find("overhead_ms.max"))));
	assert_false(figure_key_compared(figure_key(figure_key_find("history_bytes"))));
	assert_true(figure_key_compared(figure_key(figure_key_find("startup_ms"))));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gaps_overheads_and_agent_turns),
		cmocka_unit_test(other_tools_have_no_overhead),
		cmocka_unit_test(retries_count_from_the_last_answer_to_the_first_request),
		cmocka_unit_test(a_turn_without_an_answer_in_between_gives_no_gap),
		cmocka_unit_test(a_turn_cut_in_its_last_burst_is_not_correct),
		cmocka_unit_test(runs_are_pooled_and_sessions_at_once_are_not_added),
		cmocka_unit_test(distributions),
		cmocka_unit_test(the_catalogue_is_sound),
	};
	return cmocka_run_group_tests_name("figures", tests, NULL, NULL);
}
