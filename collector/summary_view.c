#include "collector/summary_view.h"

#include "collector/cells.h"
#include "collector/table.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/error.h"

#include <inttypes.h>
#include <string.h>

const char *view_text(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));
	return text ? text : "";
}

int64_t view_integer(const json_t *object, const char *name)
{
	return json_integer_value(json_object_get(object, name));
}

bool view_flag(const json_t *object, const char *name)
{
	return json_is_true(json_object_get(object, name));
}

static bool read_number(const json_t *object, const char *name, double *out)
{
	const json_t *value = json_object_get(object, name);
	*out = json_number_value(value);
	return json_is_number(value);
}

static const json_t *figure_of(const json_t *cell, const char *key)
{
	return json_object_get(json_object_get(cell, "figures"), key);
}

/* The more sessions the better; of everything else, the less. */
static bool more_is_better(const char *key)
{
	return !strcmp(key, "sessions_per_gib") || !strcmp(key, "sessions_per_core");
}

/* Who stood at the memory limit may have wanted more, so that a GiB would carry fewer. */
static bool is_at_most(const json_t *cell, const char *key)
{
	return !strcmp(key, "sessions_per_gib") &&
	       (view_flag(figure_of(cell, "memory_peak_bytes"), "at_least") ||
		       view_flag(figure_of(cell, "memory_peak_cold_bytes"), "at_least"));
}

struct view_figure view_figure(const json_t *cell, const char *key)
{
	const json_t *figure = figure_of(cell, key);
	struct view_figure out = {.n = view_integer(figure, "n"),
		.at_least = view_flag(figure, "at_least"),
		.at_most = is_at_most(cell, key),
		.unit = view_text(figure, "unit"),
		.missing = view_text(figure, "missing")};
	out.known = read_number(figure, "median", &out.median);
	read_number(figure, "lo", &out.lo);
	read_number(figure, "hi", &out.hi);
	read_number(figure, "confidence", &out.confidence);
	out.pooled_known = read_number(figure, "pooled", &out.pooled);
	return out;
}

const json_t *view_ratio(
	const json_t *summary, const json_t *cell, const char *key, const char *kind)
{
	const json_t *figure = figure_of(cell, key);
	const json_t *place = json_object_get(json_object_get(figure, "ratios"), kind);
	return json_is_integer(place) ? json_array_get(json_object_get(summary, "ratios"),
						(size_t)json_integer_value(place))
				      : NULL;
}

static bool is_yardstick(const json_t *summary, const char *contender)
{
	size_t i;
	const json_t *planned;
	json_array_foreach(
		json_object_get(json_object_get(summary, "plan"), "contenders"), i, planned)
	{
		if (!strcmp(view_text(planned, "name"), contender))
			return view_flag(planned, "yardstick");
	}
	return false;
}

/* Of figures that are not compared by ratios: is there another of its group with more? */
static bool has_most(const json_t *summary, const json_t *cell, const char *key)
{
	size_t i;
	const json_t *other;
	double most = view_figure(cell, key).median;
	json_array_foreach(json_object_get(summary, "cells"), i, other)
	{
		struct view_figure figure = view_figure(other, key);
		if (view_integer(other, "setting") == view_integer(cell, "setting") &&
			view_integer(other, "sessions") == view_integer(cell, "sessions") &&
			!is_yardstick(summary, view_text(other, "contender")) && figure.known &&
			figure.median > most)
			return false;
	}
	return true;
}

bool view_is_best(const json_t *summary, const json_t *cell, const char *key)
{
	size_t found = figure_key_find(key);
	if (is_yardstick(summary, view_text(cell, "contender")) || !view_figure(cell, key).known)
		return false;
	if (more_is_better(key))
		return has_most(summary, cell, key);
	return found < figure_keys_count && figure_key_compared(figure_key(found)) &&
	       !view_ratio(summary, cell, key, "best");
}

char *view_shown(const struct view_figure *figure, bool pooled)
{
	if (pooled ? !figure->pooled_known : !figure->known)
		return NULL;
	char number[SHOWN_MAX];
	show_number((pooled ? figure->pooled : figure->median) / shown_unit(figure->unit)->size,
		number);
	return xasprintf("%s%s", figure->at_least ? "≥ " : figure->at_most ? "≤ " : "", number);
}

char *view_shown_interval(const struct view_figure *figure)
{
	if (!figure->known || figure->n < 2)
		return NULL;
	char lo[SHOWN_MAX], hi[SHOWN_MAX];
	show_number(figure->lo / shown_unit(figure->unit)->size, lo);
	show_number(figure->hi / shown_unit(figure->unit)->size, hi);
	return figure->confidence > 0 ? xasprintf("[%s, %s]", lo, hi) : xasprintf("%s–%s", lo, hi);
}

static char *shown_ratio(const json_t *ratio)
{
	double value;
	if (!read_number(ratio, "ratio", &value))
		return NULL;
	char number[SHOWN_MAX];
	show_number(value, number);
	return xasprintf("×%s", number);
}

char *view_times_best(const json_t *summary, const json_t *cell, const char *key)
{
	if (view_is_best(summary, cell, key))
		return xstrdup("best");
	return shown_ratio(view_ratio(summary, cell, key, "best"));
}

struct view_figure view_ratio_interval(const json_t *ratio)
{
	struct view_figure out = {.unit = "ratio", .missing = "", .n = view_integer(ratio, "n")};
	out.known = read_number(ratio, "ratio", &out.median);
	read_number(ratio, "lo", &out.lo);
	read_number(ratio, "hi", &out.hi);
	read_number(ratio, "confidence", &out.confidence);
	return out;
}

struct view_figure view_hypothesis(const json_t *hypothesis)
{
	struct view_figure out = {.unit = view_text(hypothesis, "unit"),
		.missing = "",
		.n = view_integer(hypothesis, "n")};
	out.known = read_number(hypothesis, "value", &out.median) &&
		    read_number(hypothesis, "lo", &out.lo) &&
		    read_number(hypothesis, "hi", &out.hi);
	read_number(hypothesis, "confidence", &out.confidence);
	return out;
}

char *view_claim(const json_t *hypothesis)
{
	const struct shown_unit *unit = shown_unit(view_text(hypothesis, "unit"));
	double threshold = 0;
	read_number(hypothesis, "threshold", &threshold);
	char number[SHOWN_MAX];
	show_number(threshold / unit->size, number);
	return xasprintf("%s %s%s%s", view_text(hypothesis, "relation"), number,
		*unit->shown ? " " : "", unit->shown);
}

const char *view_headline(const json_t *summary, size_t setting)
{
	const json_t *object = json_array_get(json_object_get(summary, "settings"), setting);
	return view_flag(object, "suite_tool") ? "overhead_ms" : "turn_gap_ms";
}

const char *view_memory_key(const json_t *summary, size_t setting)
{
	const json_t *object = json_array_get(json_object_get(summary, "settings"), setting);
	return view_flag(object, "cold") ? "memory_peak_cold_bytes" : "memory_peak_bytes";
}

char *view_setting(const json_t *setting)
{
	auto_buf struct buf out;
	buf_init(&out, 1 << 16);
	const json_t *limits = json_object_get(setting, "limits");
	double quota;
	buf_addf(&out, "%s", view_text(setting, "scenario"));
	if (view_integer(limits, "memory_bytes") > 0)
		buf_addf(&out, " · %" PRId64 " MiB", view_integer(limits, "memory_bytes") >> 20);
	else
		buf_addf(&out, " · no memory limit");
	if (read_number(limits, "cpu_quota", &quota))
		buf_addf(&out, " · %g CPUs by quota", quota);
	buf_addf(&out, " · %s · %s track · %s · cgroup %s", view_text(setting, "placement"),
		view_text(setting, "track"), view_text(setting, "mode"),
		view_text(setting, "cgroup_backend"));
	if (view_flag(setting, "cold"))
		buf_addf(&out, " · cold");
	if (!view_flag(setting, "timed"))
		buf_addf(&out, " · emulated: no times");
	return steal_ptr(out.data);
}
