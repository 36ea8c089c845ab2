#include "collector/figures.h"

#include "collector/run_facts.h"
#include "collector/samples.h"
#include "collector/stats.h"
#include "common/cleanup.h"
#include "common/error.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct figure figures[] = {
	{"startup_ms", "ms", "Startup",
		"from just before exec in the child to the mock having read the headers of the "
		"first "
		"request; runs of one session",
		false, true, true},
	{"first_request_ms", "ms", "First request",
		"per session: from spawn to its first request fully read by the mock", true, true,
		true},
	{"overhead_ms", "ms", "Overhead per turn",
		"turn gap less the turn's tool demand: the sleep that was asked for plus the "
		"tool's own "
		"CPU time, of the call that demands most",
		true, true, true},
	{"turn_gap_ms", "ms", "Turn gap",
		"from the end of a response to the next request of the session fully read by the "
		"mock",
		true, true, true},
	{"turn_overhead_agent_ms", "ms", "Overhead by the agent's own clock",
		"second opinion, from the second turn on: the agent's own turn time less the "
		"request's "
		"service time at the mock less the tool demand",
		true, true, true},
	{"memory_peak_bytes", "bytes", "Memory peak",
		"highest memory charged to the run's cgroup, tools included, files warm", false,
		false, true},
	{"memory_peak_cold_bytes", "bytes", "Memory peak, cold",
		"the same with the contender's files evicted first", false, false, true},
	{"memory_over_history_bytes", "bytes", "Memory peak less histories",
		"memory peak less the text of all live histories", false, false, true},
	{"sessions_per_gib", "per GiB", "Sessions per GiB", "sessions of the run ÷ its memory peak",
		false, false, false},
	{"rss_peak_bytes", "bytes", "RSS peak",
		"VmHWM summed over the contender's own processes, without tools", false, false,
		true},
	{"pss_bytes", "bytes", "PSS", "proportional set size at the end barrier", false, false,
		true},
	{"history_bytes", "bytes", "Histories",
		"text of all live histories at the last turn: the floor of what must be kept",
		false, false, false},
	{"cpu_startup_usec", "usec", "CPU of startup",
		"CPU time of the run's cgroup up to the first request", false, true, true},
	{"cpu_startup_user_usec", "usec", "CPU of startup, user", "of it, user time", false, true,
		false},
	{"cpu_startup_system_usec", "usec", "CPU of startup, system", "of it, system time", false,
		true, false},
	{"cpu_usec_per_turn", "usec", "CPU per turn",
		"CPU time of the run's cgroup after the first request, tools included, ÷ correct "
		"turns",
		false, true, true},
	{"cpu_user_usec_per_turn", "usec", "CPU per turn, user", "of it, user time", false, true,
		false},
	{"cpu_system_usec_per_turn", "usec", "CPU per turn, system", "of it, system time", false,
		true, false},
	{"sessions_per_core", "per core", "Sessions per core",
		"time that sessions were with the model, and that their tools demand, ÷ CPU time "
		"after the first request: how many such sessions one CPU has time for. Overhead "
		"does not count, so being late gains nothing",
		false, true, false},
	{"throttled_usec", "usec", "Throttled",
		"time the container was held back by its CPU quota during the run", false, true,
		false},
	{"nr_throttled", "count", "Throttled periods",
		"quota periods in which the container was held back", false, true, false},
	{"pressure_cpu_usec", "usec", "CPU pressure",
		"time in which some task of the run waited for a CPU", false, true, false},
	{"pressure_memory_usec", "usec", "Memory pressure",
		"time in which some task of the run waited for memory", false, true, false},
	{"pressure_io_usec", "usec", "I/O pressure",
		"time in which some task of the run waited for I/O", false, true, false},
};

const size_t figures_count = sizeof figures / sizeof *figures;

const struct figure *figure_find(const char *name)
{
	for (size_t i = 0; i < figures_count; i++) {
		if (!strcmp(figures[i].name, name))
			return &figures[i];
	}
	return NULL;
}

const struct figure_statistic figure_statistics[] = {
	{"p50", 0.5, 1, true}, {"p90", 0.9, 1, true}, {"p99", 0.99, 1000, true},
	{"p999", 0.999, 10000, true}, {"mean", -1, 1, true},
	{"max", 1, 1, false}, /* one sample of many: described, not compared */
};

enum {
	FIGURES = sizeof figures / sizeof *figures,
	STATISTICS = sizeof figure_statistics / sizeof *figure_statistics,
	PER_TURN = 4,
	KEYS = FIGURES - PER_TURN + PER_TURN * STATISTICS,
};

const size_t figure_statistics_count = STATISTICS;
const size_t figure_keys_count = KEYS;

const struct figure_key *figure_key(size_t i)
{
	static struct figure_key keys[KEYS];
	if (!keys[0].figure) {
		size_t filled = 0;
		for (size_t f = 0; f < FIGURES; f++) {
			for (size_t s = 0; s < (figures[f].per_turn ? STATISTICS : 1); s++) {
				struct figure_key *key = &keys[filled++];
				key->figure = &figures[f];
				key->statistic = figures[f].per_turn ? &figure_statistics[s] : NULL;
				snprintf(key->name, sizeof key->name, "%s%s%s", figures[f].name,
					key->statistic ? "." : "",
					key->statistic ? key->statistic->name : "");
			}
		}
	}
	return &keys[i];
}

size_t figure_key_find(const char *name)
{
	size_t i = 0;
	while (i < KEYS && strcmp(figure_key(i)->name, name))
		i++;
	return i;
}

bool figure_key_compared(const struct figure_key *key)
{
	return key->figure->compared && (!key->statistic || key->statistic->compared);
}

void series_add(struct series *series, double value)
{
	if (series->count == series->capacity) {
		series->capacity = series->capacity ? series->capacity * 2 : 64;
		series->values =
			xrealloc(series->values, series->capacity * sizeof *series->values);
	}
	series->values[series->count++] = value;
	series->sorted = false;
}

void series_release(struct series *series)
{
	free(series->values);
	*series = (struct series){NULL, 0, 0, false};
}

json_t *series_distribution(struct series *series)
{
	if (!series->count)
		return NULL;
	if (!series->sorted)
		stats_sort(series->values, series->count);
	series->sorted = true;
	json_t *out = json_object();
	for (size_t i = 0; i < figure_statistics_count; i++) {
		const struct figure_statistic *statistic = &figure_statistics[i];
		double value = statistic->fraction < 0
				       ? stats_mean(series->values, series->count)
				       : stats_percentile(series->values, series->count,
						 statistic->fraction);
		json_object_set_new(out, statistic->name, json_real(round(value * 1e6) / 1e6));
	}
	size_t negative = 0;
	while (negative < series->count && series->values[negative] < 0)
		negative++;
	json_object_set_new(out, "n", json_integer((json_int_t)series->count));
	json_object_set_new(out, "negative", json_integer((json_int_t)negative));
	return out;
}

void turn_figures_release(struct turn_figures *figures_)
{
	series_release(&figures_->turn_gap_ms);
	series_release(&figures_->overhead_ms);
	series_release(&figures_->first_request_ms);
	series_release(&figures_->turn_overhead_agent_ms);
}

struct series *turn_figures_series(struct turn_figures *from, const char *name)
{
	struct {
		const char *name;
		struct series *series;
	} all[] = {
		{"turn_gap_ms", &from->turn_gap_ms},
		{"overhead_ms", &from->overhead_ms},
		{"first_request_ms", &from->first_request_ms},
		{"turn_overhead_agent_ms", &from->turn_overhead_agent_ms},
	};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		if (!strcmp(all[i].name, name))
			return all[i].series;
	}
	return NULL;
}

static double ms(int64_t ns)
{
	return (double)ns / 1e6;
}

/* One turn and the first request of the next; `next` is NULL where there is none. */
static void add_turn(struct turn_figures *to, const struct sample *first, const struct sample *last,
	const struct sample *next, bool suite_tool)
{
	/* Without the stamp after its end it was cut in its last burst. */
	if (last->end_before_ns == FACT_MISSING || last->end_after_ns == FACT_MISSING)
		return;
	to->correct_turns++;
	if (last->read_ns != FACT_MISSING)
		to->paced_ns += last->end_before_ns - last->read_ns;
	if (!next || next->read_ns == FACT_MISSING)
		return;
	int64_t gap_ns = next->read_ns - last->end_before_ns;
	series_add(&to->turn_gap_ms, ms(gap_ns));

	int64_t demand_ns = suite_tool && last->tool_calls != 0 ? last->tool_demand_ns : 0;
	if (demand_ns == FACT_MISSING) {
		to->demand_missing++;
		return;
	}
	to->paced_ns += demand_ns;
	if (suite_tool)
		series_add(&to->overhead_ms, ms(gap_ns - demand_ns));
	/* A repeated request's waits are no part of a turn of either clock. */
	if (last->turn >= 2 && first == last && last->agent_turn_ns != FACT_MISSING &&
		last->read_ns != FACT_MISSING)
		series_add(&to->turn_overhead_agent_ms,
			ms(last->agent_turn_ns - (last->end_before_ns - last->read_ns) -
				demand_ns));
}

/* The end of a group of rows of one session and turn that begins at `at`. */
static size_t turn_end(const struct samples *samples, size_t at)
{
	size_t end = at + 1;
	while (end < samples->count && samples->rows[end].session == samples->rows[at].session &&
		samples->rows[end].turn == samples->rows[at].turn)
		end++;
	return end;
}

static int64_t last_sign(const struct sample *row)
{
	if (row->end_after_ns != FACT_MISSING)
		return row->end_after_ns;
	if (row->end_before_ns != FACT_MISSING)
		return row->end_before_ns;
	return row->read_ns != FACT_MISSING ? row->read_ns : row->headers_ns;
}

static int64_t most_at_once(const double *begins, const double *ends, size_t count)
{
	size_t most = 0, ended = 0;
	for (size_t begun = 0; begun < count; begun++) {
		while (ended < count && ends[ended] <= begins[begun])
			ended++;
		if (begun + 1 - ended > most)
			most = begun + 1 - ended;
	}
	return (int64_t)most;
}

void turn_figures_add(struct turn_figures *to, const struct samples *samples, bool suite_tool)
{
	struct series begins = {NULL, 0, 0, false}, ends = {NULL, 0, 0, false};
	const struct sample *rows = samples->rows;
	for (size_t at = 0, end; at < samples->count; at = end) {
		end = turn_end(samples, at);
		bool opens = at == 0 || rows[at - 1].session != rows[at].session;
		bool closes = end == samples->count || rows[end].session != rows[at].session;
		bool goes_on = !closes && rows[end].turn == rows[at].turn + 1;
		if (opens && rows[at].turn == 1 && rows[at].read_ns != FACT_MISSING)
			series_add(&to->first_request_ms, ms(rows[at].read_ns));
		if (opens && rows[at].headers_ns != FACT_MISSING)
			series_add(&begins, (double)rows[at].headers_ns);
		if (closes && last_sign(&rows[end - 1]) != FACT_MISSING)
			series_add(&ends, (double)last_sign(&rows[end - 1]));
		add_turn(to, &rows[at], &rows[end - 1], goes_on ? &rows[end] : NULL, suite_tool);
	}
	stats_sort(begins.values, begins.count);
	stats_sort(ends.values, ends.count);
	size_t count = begins.count < ends.count ? begins.count : ends.count;
	int64_t most = most_at_once(begins.values, ends.values, count);
	if (most > to->sessions_at_once)
		to->sessions_at_once = most;
	series_release(&begins);
	series_release(&ends);
}
