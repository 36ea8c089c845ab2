#include "collector/summary.h"

#include "collector/samples.h"
#include "collector/summary_view.h"
#include "common/buf.h"
#include "tests/unit/collector/results_fixture.h"

#include <inttypes.h>
#include <sys/stat.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define CLOSE(a, b) assert_true(fabs((a) - (b)) < 1e-6)

/* tests/fixtures/results/make.py says how the numbers of "mixed" came about. */
static json_t *mixed;

static int read_mixed(void **state)
{
	(void)state;
	struct error err;
	int fd = kept_folder("mixed");
	mixed = summary_make(fd, "mixed", &err);
	close(fd);
	return mixed ? 0 : -1;
}

static int drop_mixed(void **state)
{
	(void)state;
	json_decref(mixed);
	return 0;
}

static const json_t *cell_of(const json_t *summary, const char *contender, int64_t sessions)
{
	size_t i;
	const json_t *cell;
	json_array_foreach(json_object_get(summary, "cells"), i, cell)
	{
		if (!strcmp(json_string_value(json_object_get(cell, "contender")), contender) &&
			json_integer_value(json_object_get(cell, "sessions")) == sessions)
			return cell;
	}
	return NULL;
}

static const json_t *figure_of(const json_t *cell, const char *key)
{
	const json_t *figure = json_object_get(json_object_get(cell, "figures"), key);
	assert_non_null(figure);
	return figure;
}

static const char *text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));
	return text ? text : "";
}

static bool is_null(const json_t *object, const char *name)
{
	return json_is_null(json_object_get(object, name));
}

static const json_t *ratio_of(
	const json_t *summary, const json_t *cell, const char *key, const char *kind)
{
	const json_t *place =
		json_object_get(json_object_get(figure_of(cell, key), "ratios"), kind);
	return json_is_integer(place) ? json_array_get(json_object_get(summary, "ratios"),
						(size_t)json_integer_value(place))
				      : NULL;
}

static void medians_and_their_intervals(void **state)
{
	(void)state;
	const json_t *cell = cell_of(mixed, "c", 1);
	assert_int_equal(number_at(cell, "attempted"), 8);
	assert_int_equal(number_at(cell, "completed"), 8);
	/* 2.5 MiB + 4096 × block, blocks 1 … 8: the middle is 4.5, the interval all of them */
	const json_t *memory = figure_of(cell, "memory_peak_bytes");
	CLOSE(number_at(memory, "median"), 2621440 + 4096 * 4.5);
	CLOSE(number_at(memory, "lo"), 2621440 + 4096);
	CLOSE(number_at(memory, "hi"), 2621440 + 4096 * 8);
	CLOSE(number_at(memory, "confidence"), 1 - 2.0 / 256);
	CLOSE(number_at(memory, "n"), 8);
	assert_string_equal(text_of(memory, "unit"), "bytes");
	assert_true(json_is_integer(json_object_get(memory, "median")));
	assert_int_equal(json_array_size(json_object_get(memory, "values")), 8);
	assert_int_equal(json_array_size(json_object_get(memory, "flagged")), 0);
	CLOSE(number_at(figure_of(cell, "startup_ms"), "median"), 0.695);
	CLOSE(number_at(figure_of(cell, "cpu_usec_per_turn"), "median"), 1045);
	/* p50 of one run is 2 + 0.1 × block + 0.03 + 0.001 */
	CLOSE(number_at(figure_of(cell, "overhead_ms.p50"), "median"), 2.481);
	/* 1 session ÷ 2639872 bytes; the median of reciprocals of blocks 4 and 5 */
	double four = 0x1p30 / (2621440 + 4096 * 4), five = 0x1p30 / (2621440 + 4096 * 5);
	CLOSE(number_at(figure_of(cell, "sessions_per_gib"), "median"), (four + five) / 2);
}

static void pooled_statistics_are_of_all_turns(void **state)
{
	(void)state;
	/* 3 sessions × 5 gaps × 8 blocks of 2 + 0.1 b + 0.01 t + 0.001 s */
	double values[120];
	size_t count = 0;
	double sum = 0;
	for (int b = 1; b <= 8; b++)
		for (int s = 1; s <= 3; s++)
			for (int t = 1; t <= 5; t++)
				sum += values[count++] = 2 + .1 * b + .01 * t + .001 * s;
	/* by b, then t, then s it is sorted: the 60th and 61st are b 4, t 5, s 3 and b 5, t 1, s 1
	 */
	const json_t *p50 = figure_of(cell_of(mixed, "c", 3), "overhead_ms.p50");
	CLOSE(number_at(p50, "pooled"), (2.453 + 2.511) / 2);
	CLOSE(number_at(p50, "samples"), 120);
	CLOSE(number_at(p50, "negative"), 0);
	CLOSE(number_at(figure_of(cell_of(mixed, "c", 3), "overhead_ms.mean"), "pooled"),
		sum / 120);
	CLOSE(number_at(figure_of(cell_of(mixed, "c", 3), "overhead_ms.max"), "pooled"), 2.853);
	/* 120 samples make no 99th percentile */
	const json_t *p99 = figure_of(cell_of(mixed, "c", 3), "overhead_ms.p99");
	assert_true(is_null(p99, "pooled") && is_null(p99, "median") && is_null(p99, "lo"));
	assert_string_equal(text_of(p99, "missing"), "needs 1000 samples in each run");
}

static void every_figure_of_every_cell_is_known_or_has_a_reason(void **state)
{
	(void)state;
	size_t i;
	const json_t *cell;
	json_array_foreach(json_object_get(mixed, "cells"), i, cell)
	{
		const char *name;
		json_t *figure;
		json_object_foreach(json_object_get(cell, "figures"), name, figure)
		{
			bool known = json_is_number(json_object_get(figure, "median"));
			assert_int_equal(known, !*text_of(figure, "missing"));
			assert_true(*text_of(figure, "unit"));
		}
	}
}

static void failing_cells_have_no_point_estimate_but_their_counts(void **state)
{
	(void)state;
	const json_t *wrong = cell_of(mixed, "node", 3);
	assert_int_equal(number_at(wrong, "attempted"), 8);
	assert_int_equal(number_at(wrong, "completed"), 7);
	const json_t *memory = figure_of(wrong, "memory_peak_bytes");
	assert_true(is_null(memory, "median") && is_null(memory, "lo") && is_null(memory, "hi"));
	assert_string_equal(text_of(memory, "missing"), "1 of 8 runs did not end well");
	CLOSE(number_at(json_object_get(wrong, "outcomes"), "wrong"), 1);
	const json_t *failure = json_array_get(json_object_get(wrong, "failures"), 0);
	assert_string_equal(text_of(failure, "outcome"), "wrong");
	assert_non_null(strstr(text_of(failure, "detail"), "s2, turn 3: history"));

	const json_t *oom = cell_of(mixed, "bun", 3);
	assert_int_equal(number_at(oom, "completed"), 0);
	CLOSE(number_at(json_object_get(oom, "outcomes"), "oom"), 8);
	assert_true(is_null(figure_of(oom, "memory_peak_bytes"), "median"));
	assert_true(is_null(oom, "memory_at_peak"));
	/* and no ratio is made of it */
	assert_null(ratio_of(mixed, wrong, "memory_peak_bytes", "best"));
}

static void invalid_runs_are_excluded_with_their_reason_and_repeated(void **state)
{
	(void)state;
	const json_t *excluded = json_object_get(mixed, "excluded");
	assert_int_equal(json_array_size(excluded), 1);
	const json_t *run = json_array_get(excluded, 0);
	assert_int_equal(number_at(run, "run"), 13);
	assert_string_equal(text_of(run, "contender"), "bun");
	assert_string_equal(json_string_value(json_array_get(json_object_get(run, "reasons"), 0)),
		"late_self: the mock was late by its own doing, p99 812 us, bound 500 us");
	/* the repeated one stands in for it */
	assert_int_equal(number_at(cell_of(mixed, "bun", 1), "attempted"), 8);
	const json_t *runs = json_object_get(cell_of(mixed, "bun", 1), "runs");
	for (size_t i = 0; i < json_array_size(runs); i++)
		assert_int_not_equal(json_integer_value(json_array_get(runs, i)), 13);
	CLOSE(number_at(mixed, "runs"), 55);
	CLOSE(number_at(mixed, "warm_ups"), 3);
}

static void a_value_missing_in_one_run_is_missing_there_only(void **state)
{
	(void)state;
	const json_t *pss = figure_of(cell_of(mixed, "bun", 1), "pss_bytes");
	CLOSE(number_at(pss, "n"), 7);
	const json_t *values = json_object_get(pss, "values");
	size_t missing = 0;
	for (size_t i = 0; i < json_array_size(values); i++)
		missing += json_is_null(json_array_get(values, i));
	assert_int_equal(missing, 1);
	assert_int_equal(json_array_size(values), 8);
}

static void ratios_are_per_block_against_the_best(void **state)
{
	(void)state;
	/* bun's overhead is c's × 1.05 in odd blocks and × 0.95 in even ones; bun's median is lower
	 */
	const json_t *ratio = ratio_of(mixed, cell_of(mixed, "c", 1), "overhead_ms.p50", "best");
	assert_string_equal(text_of(ratio, "against"), "bun");
	CLOSE(number_at(ratio, "ratio"), exp(-(log(1.05) + log(0.95)) / 2));
	/* signed rank, 8 blocks: the 4th of 36 Walsh averages from either end */
	CLOSE(number_at(ratio, "lo"), 1 / 1.05);
	CLOSE(number_at(ratio, "hi"), 1 / 0.95);
	CLOSE(number_at(ratio, "confidence"), 1 - 2 * 5.0 / 256);
	CLOSE(number_at(ratio, "n"), 8);
	assert_null(ratio_of(mixed, cell_of(mixed, "bun", 1), "overhead_ms.p50", "best"));
	/* a contender of two blocks: minimum and maximum, no confidence */
	const json_t *few = ratio_of(
		mixed, cell_of(mixed, "<script>alert(1)</script>", 1), "startup_ms", "best");
	CLOSE(number_at(few, "n"), 2);
	CLOSE(number_at(few, "lo"), 5.05 / 0.67);
	CLOSE(number_at(few, "hi"), 5.05 / 0.66);
	assert_true(is_null(few, "confidence"));
}

static void hypotheses_are_decided(void **state)
{
	(void)state;
	static const struct {
		const char *verdict;
		double value, lo, hi, n;
		const char *reason;
	} rows[] = {
		{"supported", 0.125, 0.125, 0.125, 8, ""},
		/* 8 blocks at 98.75%: all of them, 2.131 … 2.831 */
		{"rejected", 2.481, 2.131, 2.831, 8, ""},
		{"undecided", 1.001253, 1 / 1.05, 1 / 0.95, 8, ""},
		{"undecided", NAN, NAN, NAN, 0, "one side has no estimate"},
	};
	const json_t *list = json_object_get(mixed, "hypotheses");
	assert_int_equal(json_array_size(list), 4);
	for (size_t i = 0; i < 4; i++) {
		const json_t *item = json_array_get(list, i);
		assert_string_equal(text_of(item, "verdict"), rows[i].verdict);
		assert_string_equal(text_of(item, "reason"), rows[i].reason);
		CLOSE(number_at(item, "confidence"), 0.9875);
		CLOSE(number_at(item, "n"), rows[i].n);
		if (isnan(rows[i].value)) {
			assert_true(is_null(item, "value") && is_null(item, "lo"));
			continue;
		}
		CLOSE(number_at(item, "value"), rows[i].value);
		CLOSE(number_at(item, "lo"), rows[i].lo);
		CLOSE(number_at(item, "hi"), rows[i].hi);
	}
}

static void parts_at_the_peak_are_those_of_one_run(void **state)
{
	(void)state;
	const json_t *parts = json_object_get(cell_of(mixed, "node", 1), "memory_at_peak");
	double peak = number_at(parts, "memory_peak_bytes");
	/* blocks 4 and 5 are as near to the median as each other: the first is taken */
	CLOSE(peak, 8.0 * (2621440 + 4096 * 4));
	CLOSE(number_at(parts, "anon") + number_at(parts, "file") + number_at(parts, "kernel") +
			number_at(parts, "sock") + number_at(parts, "remainder"),
		peak);
}

static void v1_and_v2_never_meet(void **state)
{
	(void)state;
	struct error err;
	int fd = kept_folder("backends");
	json_auto_t *summary = summary_make(fd, "backends", &err);
	close(fd);
	assert_non_null(summary);
	assert_int_equal(json_array_size(json_object_get(summary, "settings")), 2);
	assert_int_equal(json_array_size(json_object_get(summary, "cells")), 4);
	size_t i;
	const json_t *ratio;
	json_array_foreach(json_object_get(summary, "ratios"), i, ratio)
	{
		/* within a backend node needs 30 × c; across, it would be 15 or 60 */
		if (!strcmp(text_of(ratio, "figure"), "memory_peak_bytes"))
			CLOSE(number_at(ratio, "ratio"), 30);
	}
	assert_int_equal(json_array_size(json_object_get(summary, "notes")), 2);
	assert_true(is_null(summary, "environment"));
}

/* ---- folders made here */

static void write_samples(const struct folder *folder, int64_t run, size_t sessions, double step_ms)
{
	mkdirat(folder->fd, "samples", 0755);
	auto_free char *name = xasprintf("samples/%" PRId64 ".csv", run);
	struct file_writer writer;
	struct error err;
	assert_int_equal(file_writer_open(&writer, folder->fd, name, &err), 0);
	struct samples none = {NULL, 0};
	samples_write(&none, writer.stream);
	for (size_t s = 1; s <= sessions; s++) {
		fprintf(writer.stream, "%zu,1,1,1,0,0,0,1000000,1000000,0,0,0,,,0,0,\n", s);
		fprintf(writer.stream, "%zu,2,1,1,0,%" PRId64 ",0,,,0,0,0,,,0,0,\n", s,
			1000000 + (int64_t)llround(step_ms * 1e6 * (double)s));
	}
	assert_int_equal(file_writer_commit(&writer, &err), 0);
}

static json_t *records_of(
	const struct folder *folder, const char *contender, size_t count, int64_t first_run)
{
	json_t *records = json_array();
	for (size_t i = 0; i < count; i++) {
		json_t *record = folder_record(folder, first_run + (int64_t)i, contender);
		json_object_set_new(record, "block", json_integer((json_int_t)i + 1));
		json_array_append_new(records, record);
	}
	return records;
}

static json_t *summary_of(const struct folder *folder, const json_t *records)
{
	folder_write_runs(folder, records, "");
	struct error err;
	json_t *summary = summary_make(folder->fd, "x", &err);
	if (!summary)
		print_error("%s\n", err.text);
	assert_non_null(summary);
	return summary;
}

static void high_percentiles_need_their_samples(void **state)
{
	(void)state;
	struct folder folder = folder_make(NULL);
	json_auto_t *records = records_of(&folder, "c", 2, 1);
	static const struct {
		size_t sessions;
		bool p99, p999;
	} rows[] = {
		{499, false, false}, {500, true, false}, {4999, true, false}, {5000, true, true}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		write_samples(&folder, 1, rows[i].sessions, 0.001);
		write_samples(&folder, 2, rows[i].sessions, 0.001);
		json_auto_t *summary = summary_of(&folder, records);
		const json_t *cell = cell_of(summary, "c", 2);
		const json_t *p99 = figure_of(cell, "overhead_ms.p99");
		assert_int_equal(json_is_number(json_object_get(p99, "pooled")), rows[i].p99);
		assert_int_equal(json_is_number(json_object_get(
					 figure_of(cell, "overhead_ms.p999"), "pooled")),
			rows[i].p999);
		CLOSE(number_at(p99, "samples"), 2.0 * (double)rows[i].sessions);
		/* each run's own record has 4 turns: no median of percentiles */
		assert_true(is_null(p99, "median"));
		if (rows[i].sessions == 500) /* 1, 1, 2, 2, …: position 1 + 999 × 0.99 = 990.01 */
			CLOSE(number_at(p99, "pooled"), 0.495 + 0.01 * 0.001);
	}
	folder_remove(&folder);
}

static void runs_with_enough_turns_have_percentiles_of_their_own(void **state)
{
	(void)state;
	struct folder folder = folder_make(NULL);
	json_auto_t *records = records_of(&folder, "c", 6, 1);
	for (size_t i = 0; i < 6; i++) {
		json_t *overhead = json_object_get(json_array_get(records, i), "overhead_ms");
		json_object_set_new(overhead, "n", json_integer(i ? 1000 : 999));
		json_object_set_new(overhead, "p99", json_real(10.0 + (double)i));
	}
	json_auto_t *summary = summary_of(&folder, records);
	const json_t *p99 = figure_of(cell_of(summary, "c", 2), "overhead_ms.p99");
	CLOSE(number_at(p99, "n"), 5);
	CLOSE(number_at(p99, "median"), 13);
	assert_true(is_null(p99, "confidence")); /* 5 runs: minimum and maximum */
	CLOSE(number_at(p99, "lo"), 11);
	CLOSE(number_at(p99, "hi"), 15);
	folder_remove(&folder);
}

static void sample_files_may_be_absent_but_not_malformed(void **state)
{
	(void)state;
	struct folder folder = folder_make(NULL);
	json_auto_t *records = records_of(&folder, "c", 2, 1);
	write_samples(&folder, 1, 3, 1);
	json_auto_t *summary = summary_of(&folder, records);
	assert_string_equal(json_string_value(json_array_get(json_object_get(summary, "notes"), 0)),
		"samples/2.csv is not there: its cell has no pooled figures");
	const json_t *p50 = figure_of(cell_of(summary, "c", 2), "overhead_ms.p50");
	assert_true(is_null(p50, "pooled"));
	CLOSE(number_at(p50, "median"), 3); /* as the records have it */

	struct error err;
	assert_int_equal(file_write(folder.fd, "samples/2.csv", "x\n", 2, &err), 0);
	assert_null(summary_make(folder.fd, "results/x", &err));
	assert_string_equal(err.text, "results/x: samples/2.csv:1: column session is absent");
	folder_remove(&folder);
}

static void ten_percent_may_fail(void **state)
{
	(void)state;
	struct folder folder = folder_make(NULL);
	json_auto_t *records = records_of(&folder, "c", 10, 1);
	json_object_set_new(json_array_get(records, 4), "outcome", json_string("crashed"));
	json_auto_t *summary = summary_of(&folder, records);
	const json_t *cell = cell_of(summary, "c", 2);
	CLOSE(number_at(cell, "completed"), 9);
	CLOSE(number_at(figure_of(cell, "memory_peak_bytes"), "n"), 9);
	json_object_set_new(json_array_get(records, 5), "outcome", json_string("timeout"));
	json_auto_t *more = summary_of(&folder, records);
	assert_true(is_null(figure_of(cell_of(more, "c", 2), "memory_peak_bytes"), "median"));
	folder_remove(&folder);
}

static void outliers_are_flagged_and_stay(void **state)
{
	(void)state;
	struct folder folder = folder_make(NULL);
	json_auto_t *records = records_of(&folder, "c", 8, 1);
	for (size_t i = 0; i < 8; i++)
		json_object_set_new(json_array_get(records, i), "memory_peak_bytes",
			json_integer(i == 2 ? 9000 : 1000 + (json_int_t)i));
	json_auto_t *summary = summary_of(&folder, records);
	const json_t *memory = figure_of(cell_of(summary, "c", 2), "memory_peak_bytes");
	const json_t *flagged = json_object_get(memory, "flagged");
	assert_int_equal(json_array_size(flagged), 1);
	assert_int_equal(json_integer_value(json_array_get(flagged, 0)), 3);
	CLOSE(number_at(memory, "n"), 8);
	CLOSE(number_at(memory, "hi"), 9000);
	folder_remove(&folder);
}

static void a_sampled_peak_reads_at_least(void **state)
{
	(void)state;
	struct folder folder = folder_make(NULL);
	json_auto_t *records = records_of(&folder, "c", 3, 1);
	size_t i;
	json_t *record;
	json_array_foreach(records, i, record)
	{
		json_object_set_new(record, "cgroup_backend", json_string("v2-sampled"));
	}
	json_auto_t *summary = summary_of(&folder, records);
	const json_t *cell = cell_of(summary, "c", 2);
	assert_true(
		json_is_true(json_object_get(figure_of(cell, "memory_peak_bytes"), "at_least")));
	assert_null(json_object_get(figure_of(cell, "cpu_usec_per_turn"), "at_least"));
	folder_remove(&folder);
}

static void a_peak_at_the_limit_reads_at_least(void **state)
{
	(void)state;
	struct folder folder = folder_make(NULL);
	json_auto_t *records = records_of(&folder, "c", 3, 1);
	json_object_set_new(json_array_get(records, 1), "memory_peak_at_limit", json_true());
	json_auto_t *summary = summary_of(&folder, records);
	const json_t *cell = cell_of(summary, "c", 2);
	assert_true(
		json_is_true(json_object_get(figure_of(cell, "memory_peak_bytes"), "at_least")));
	assert_null(json_object_get(figure_of(cell, "cpu_usec_per_turn"), "at_least"));
	auto_free char *table = summary_terminal(summary, false, SIZE_MAX);
	assert_non_null(strstr(table, "≥ 8.00"));
	folder_remove(&folder);
}

static void emulated_runs_have_memory_and_no_times(void **state)
{
	(void)state;
	struct folder folder = folder_make(NULL);
	json_auto_t *records = records_of(&folder, "c", 6, 1);
	for (size_t i = 0; i < 6; i++)
		json_object_set_new(json_array_get(records, i), "timed", json_false());
	json_auto_t *summary = summary_of(&folder, records);
	const json_t *cell = cell_of(summary, "c", 2);
	CLOSE(number_at(figure_of(cell, "memory_peak_bytes"), "median"), 8 << 20);
	static const char *const times[] = {
		"overhead_ms.p50", "cpu_usec_per_turn", "throttled_usec", "first_request_ms.mean"};
	for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
		assert_true(is_null(figure_of(cell, times[i]), "median"));
		assert_true(is_null(figure_of(cell, "overhead_ms.p50"), "pooled"));
		assert_string_equal(text_of(figure_of(cell, times[i]), "missing"),
			"no times: the machine was emulated");
	}
	folder_remove(&folder);
}

static void a_value_that_is_not_above_zero_has_no_ratio(void **state)
{
	(void)state;
	struct folder folder = folder_make(NULL);
	json_auto_t *records = records_of(&folder, "c", 3, 1);
	json_auto_t *others = records_of(&folder, "node", 3, 4);
	json_array_extend(records, others);
	json_object_set_new(
		json_object_get(json_array_get(records, 1), "overhead_ms"), "p50", json_real(-0.5));
	json_auto_t *summary = summary_of(&folder, records);
	const json_t *ratio =
		ratio_of(summary, cell_of(summary, "node", 2), "overhead_ms.p50", "best");
	if (!ratio)
		ratio = ratio_of(summary, cell_of(summary, "c", 2), "overhead_ms.p50", "best");
	assert_true(is_null(ratio, "ratio"));
	assert_string_equal(
		text_of(ratio, "missing"), "a value is not above zero: there is no ratio");
	folder_remove(&folder);
}

static void the_manifest_says_what_is_a_yardstick_and_never_best(void **state)
{
	(void)state;
	struct folder folder = folder_make(NULL);
	json_auto_t *records = records_of(&folder, "c", 6, 1);
	json_auto_t *yardstick_records = records_of(&folder, "bare", 6, 7);
	for (size_t i = 0; i < 6; i++)
		json_object_set_new(json_array_get(yardstick_records, i), "memory_peak_bytes",
			json_integer(4 << 20));
	json_array_extend(records, yardstick_records);
	json_auto_t *summary = summary_of(&folder, records);
	const json_t *c = cell_of(summary, "c", 2), *yardstick = cell_of(summary, "bare", 2);
	assert_null(ratio_of(summary, c, "memory_peak_bytes", "best"));
	assert_null(ratio_of(summary, yardstick, "memory_peak_bytes", "best"));
	const json_t *ratio = ratio_of(summary, c, "memory_peak_bytes", "yardstick");
	CLOSE(number_at(ratio, "ratio"), 2);
	assert_string_equal(text_of(ratio, "against"), "bare");
	assert_true(view_is_best(summary, c, "memory_peak_bytes"));
	assert_false(view_is_best(summary, yardstick, "memory_peak_bytes"));
	folder_remove(&folder);
}

static void machines_and_limits_stand_apart(void **state)
{
	(void)state;
	static const struct {
		const char *member, *value;
	} rows[] = {
		{"machine_id", "\"other\""},
		{"suite_version", "\"9.9\""},
		{"placement", "\"shared\""},
		{"track", "\"equalised\""},
		{"mode", "\"container\""},
		{"cold", "true"},
		{"timed", "false"},
		{"limits", "{\"asked\":{\"memory_bytes\":1}}"},
	};
	struct folder folder = folder_make(NULL);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		json_auto_t *records = records_of(&folder, "c", 2, 1);
		json_object_set_new(json_array_get(records, 1), rows[i].member,
			json_loads(rows[i].value, JSON_DECODE_ANY, NULL));
		json_auto_t *summary = summary_of(&folder, records);
		assert_int_equal(json_array_size(json_object_get(summary, "cells")), 2);
		assert_int_equal(json_array_size(json_object_get(summary, "settings")), 2);
	}
	folder_remove(&folder);
}

static void cells_of_invalid_runs_only_are_shown_as_such(void **state)
{
	(void)state;
	struct folder folder = folder_make(NULL);
	json_auto_t *records = records_of(&folder, "c", 1, 1);
	json_object_set_new(json_array_get(records, 0), "valid", json_false());
	json_auto_t *summary = summary_of(&folder, records);
	const json_t *cell = cell_of(summary, "c", 2);
	CLOSE(number_at(cell, "attempted"), 0);
	assert_string_equal(
		text_of(figure_of(cell, "memory_peak_bytes"), "missing"), "no valid run");
	auto_free char *table = summary_terminal(summary, false, SIZE_MAX);
	assert_non_null(strstr(table, "0/0"));
	folder_remove(&folder);
}

static void warm_ups_alone_are_no_cell(void **state)
{
	(void)state;
	struct folder folder = folder_make(NULL);
	json_auto_t *records = records_of(&folder, "c", 1, 1);
	json_object_set_new(json_array_get(records, 0), "warm_up", json_true());
	json_auto_t *summary = summary_of(&folder, records);
	assert_int_equal(json_array_size(json_object_get(summary, "cells")), 0);
	auto_free char *table = summary_terminal(summary, true, SIZE_MAX);
	assert_non_null(table);
	folder_remove(&folder);
}

/* Those of each look of the doctor, each thing that it said once, with the run that came next. */
static void warnings_of_a_plan_gone_on_with_say_so(void **state)
{
	(void)state;
	struct folder folder = folder_make(NULL);
	static const char environment[] =
		"{\"doctor\":[{\"id\":\"turbo\",\"status\":\"warn\",\"found\":\"on\"},"
		"{\"id\":\"swap\",\"status\":\"ok\",\"found\":\"none\"}],"
		"\"resumed\":[{\"first_run\":2,\"doctor\":["
		"{\"id\":\"turbo\",\"status\":\"warn\",\"found\":\"on\"},"
		"{\"id\":\"swap\",\"status\":\"warn\",\"found\":\"2 GiB\"}]},"
		"{\"first_run\":3,\"doctor\":["
		"{\"id\":\"swap\",\"status\":\"warn\",\"found\":\"3 GiB\"}]},4]}";
	struct error err;
	assert_int_equal(file_write(folder.fd, "environment.json", environment,
				 sizeof environment - 1, &err),
		0);
	json_auto_t *records = json_pack("[o]", folder_record(&folder, 1, "c"));
	json_auto_t *summary = summary_of(&folder, records);
	json_auto_t *expected = json_pack("[{s:s,s:s,s:s}, {s:s,s:s,s:s,s:i}, {s:s,s:s,s:s,s:i}]",
		"id", "turbo", "status", "warn", "found", "on", "id", "swap", "status", "warn",
		"found", "2 GiB", "first_run", 2, "id", "swap", "status", "warn", "found", "3 GiB",
		"first_run", 3);
	assert_true(json_equal(json_object_get(summary, "warnings"), expected));
	folder_remove(&folder);
}

/* Whoever has the summary alone must be able to tell what was asked of the contenders. */
static void scenarios_tell_what_a_session_does(void **state)
{
	(void)state;
	json_auto_t *plan = json_pack("{s:s, s:[s], s:[s,s], s:[i], s:{s:{s:{s:s, s:i, s:{s:i}, "
				      "s:s}}}}",
		"name", "x", "contenders", "c", "scenarios", "quick", "burst", "sessions", 2,
		"files", "scenarios", "quick", "description", "d", "turns", 6, "ttft_ms",
		"constant", 7, "task", "not copied");
	struct folder folder = folder_make(NULL);
	digest_json(plan, folder.sha256);
	json_object_set_new(plan, "sha256", json_string(folder.sha256));
	auto_free char *text = json_dumps(plan, 0);
	struct error err;
	assert_int_equal(file_write(folder.fd, "plan.json", text, strlen(text), &err), 0);
	json_auto_t *records = json_pack("[o]", folder_record(&folder, 1, "c"));
	json_auto_t *summary = summary_of(&folder, records);
	json_auto_t *expected = json_pack("[{s:s, s:s, s:i, s:{s:i}}, {s:s, s:s}]", "name", "quick",
		"description", "d", "turns", 6, "ttft_ms", "constant", 7, "name", "burst",
		"description", "burst");
	assert_true(json_equal(
		json_object_get(json_object_get(summary, "plan"), "scenarios"), expected));
	folder_remove(&folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(warnings_of_a_plan_gone_on_with_say_so),
		cmocka_unit_test(scenarios_tell_what_a_session_does),
		cmocka_unit_test(medians_and_their_intervals),
		cmocka_unit_test(pooled_statistics_are_of_all_turns),
		cmocka_unit_test(every_figure_of_every_cell_is_known_or_has_a_reason),
		cmocka_unit_test(failing_cells_have_no_point_estimate_but_their_counts),
		cmocka_unit_test(invalid_runs_are_excluded_with_their_reason_and_repeated),
		cmocka_unit_test(a_value_missing_in_one_run_is_missing_there_only),
		cmocka_unit_test(ratios_are_per_block_against_the_best),
		cmocka_unit_test(hypotheses_are_decided),
		cmocka_unit_test(parts_at_the_peak_are_those_of_one_run),
		cmocka_unit_test(v1_and_v2_never_meet),
		cmocka_unit_test(high_percentiles_need_their_samples),
		cmocka_unit_test(runs_with_enough_turns_have_percentiles_of_their_own),
		cmocka_unit_test(sample_files_may_be_absent_but_not_malformed),
		cmocka_unit_test(ten_percent_may_fail),
		cmocka_unit_test(outliers_are_flagged_and_stay),
		cmocka_unit_test(a_peak_at_the_limit_reads_at_least),
		cmocka_unit_test(a_sampled_peak_reads_at_least),
		cmocka_unit_test(emulated_runs_have_memory_and_no_times),
		cmocka_unit_test(a_value_that_is_not_above_zero_has_no_ratio),
		cmocka_unit_test(the_manifest_says_what_is_a_yardstick_and_never_best),
		cmocka_unit_test(machines_and_limits_stand_apart),
		cmocka_unit_test(cells_of_invalid_runs_only_are_shown_as_such),
		cmocka_unit_test(warm_ups_alone_are_no_cell),
	};
	return cmocka_run_group_tests_name("summary", tests, read_mixed, drop_mixed);
}
