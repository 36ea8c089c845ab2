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

struct view_figure view_figure(const json_t *cell, const char *key)
{
	const json_t *figure = json_object_get(json_object_get(cell, "figures"), key);
	struct view_figure out = {.n = view_integer(figure, "n"),
		.at_least = view_flag(figure, "at_least"),
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
	int64_t setting = view_integer(cell, "setting"), sessions = view_integer(cell, "sessions");
	size_t i;
	const json_t *ratio;
	json_array_foreach(json_object_get(summary, "ratios"), i, ratio)
	{
		if (view_integer(ratio, "setting") == setting &&
			view_integer(ratio, "sessions") == sessions &&
			!strcmp(view_text(ratio, "figure"), key) &&
			!strcmp(view_text(ratio, "kind"), kind) &&
			!strcmp(view_text(ratio, "contender"), view_text(cell, "contender")))
			return ratio;
	}
	return NULL;
}

bool view_is_best(const json_t *summary, const json_t *cell, const char *key)
{
	return strcmp(view_text(cell, "contender"), CELL_YARDSTICK) &&
	       view_figure(cell, key).known && !view_ratio(summary, cell, key, "best");
}

char *view_shown(const struct view_figure *figure, bool pooled)
{
	if (pooled ? !figure->pooled_known : !figure->known)
		return NULL;
	char number[SHOWN_MAX];
	show_number((pooled ? figure->pooled : figure->median) / shown_unit(figure->unit)->size,
		number);
	return xasprintf("%s%s", figure->at_least ? "≥ " : "", number);
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

char *view_shown_ratio(const json_t *ratio)
{
	double value;
	if (!read_number(ratio, "ratio", &value))
		return NULL;
	char number[SHOWN_MAX];
	show_number(value, number);
	return xasprintf("×%s", number);
}

const char *view_headline(const json_t *summary, size_t setting)
{
	const json_t *object = json_array_get(json_object_get(summary, "settings"), setting);
	return view_flag(object, "suite_tool") ? "overhead_ms" : "turn_gap_ms";
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

const char *view_title(const json_t *summary, const char *contender)
{
	size_t i;
	const json_t *item;
	json_array_foreach(json_object_get(json_object_get(summary, "plan"), "contenders"), i, item)
	{
		if (!strcmp(view_text(item, "name"), contender))
			return view_text(item, "title");
	}
	return contender;
}
