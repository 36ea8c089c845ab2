#include "collector/overrides.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"
#include "common/number.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OFFSET(member) offsetof(struct plan_overrides, member)

const struct override_name override_names[] = {
	{"contenders", "CONTENDERS", "LIST", "names or manifest files", OFFSET(contenders)},
	{"sessions", "SESSIONS", "LIST", "numbers of concurrent sessions", OFFSET(sessions)},
	{"scenarios", "SCENARIOS", "LIST", "names or files", OFFSET(scenarios)},
	{"repetitions", "REPETITIONS", "N", "how often each cell is run", OFFSET(repetitions)},
	{"ttft-ms", "TTFT_MS", "MS", "the mock's time to the first token", OFFSET(ttft_ms)},
	{"tokens-per-s", "TOKENS_PER_S", "N", "how fast the mock streams", OFFSET(tokens_per_s)},
	{"memory", "MEMORY", "SIZE", "limit of a contender: 512m, 2g, none", OFFSET(memory)},
	{"cpu-quota", "CPU_QUOTA", "CPUS", "limit of a contender: 0.5, none", OFFSET(cpu_quota)},
};
const size_t override_count = sizeof override_names / sizeof *override_names;

enum { SESSIONS_MAX = 10000, REPETITIONS_MAX = 1000 };

static const double TTFT_MAX_MS = 3600000, TOKENS_MIN = 0.001, TOKENS_MAX = 1000000;

static const char **member(const struct plan_overrides *overrides, size_t index)
{
	return (const char **)((char *)overrides + override_names[index].offset);
}

static bool is_given(const struct plan_overrides *overrides, size_t index)
{
	const char *text = *member(overrides, index);
	return text && *text;
}

/* What whoever gave this text calls it: "--sessions" or, as a variable, "SESSIONS"; malloc'ed. */
static char *called(const char *option, const char *text)
{
	for (size_t i = 0; i < override_count; i++)
		if (!strcmp(override_names[i].option, option) &&
			text == getenv(override_names[i].variable))
			return xstrdup(override_names[i].variable);
	return xasprintf("--%s", option);
}

void overrides_set(struct plan_overrides *overrides, size_t index, const char *text)
{
	*member(overrides, index) = text;
}

void overrides_from_environment(struct plan_overrides *overrides)
{
	for (size_t i = 0; i < override_count; i++)
		overrides_set(overrides, i, getenv(override_names[i].variable));
}

const struct override_name *overrides_first(const struct plan_overrides *overrides)
{
	for (size_t i = 0; i < override_count; i++)
		if (is_given(overrides, i))
			return &override_names[i];
	return NULL;
}

void overrides_usage(FILE *out)
{
	fputs("Instead of the plan's own (or of every scenario's), on the command line or as a "
	      "variable:\n",
		out);
	for (size_t i = 0; i < override_count; i++) {
		const struct override_name *name = &override_names[i];
		auto_free char *option = xasprintf("--%s %s", name->option, name->value);
		fprintf(out, "  %-22s %-13s %s\n", option, name->variable, name->help);
	}
}

/* ---- one value each: new reference, or NULL with *err */

static json_t *list(const char *text, const char *option, struct error *err)
{
	json_auto_t *array = json_array();
	for (const char *at = text;; at++) {
		size_t length = strcspn(at, ",");
		if (!length) {
			error_set(err, 0,
				"%s: must be a list separated by commas without empty items, is "
				"'%.60s'",
				option, text);
			return NULL;
		}
		auto_free char *item = xasprintf("%.*s", (int)length, at);
		json_array_append_new(array, json_text(item, 4096));
		at += length;
		if (!*at)
			return json_incref(array);
	}
}

static json_t *number_list(const char *text, const char *option, struct error *err)
{
	json_auto_t *array = list(text, option, err);
	for (size_t i = 0; i < json_array_size(array); i++) {
		int64_t number;
		if (number_parse(json_string_value(json_array_get(array, i)), option, 1,
			    SESSIONS_MAX, &number, err))
			return NULL;
		json_array_set_new(array, i, json_integer(number));
	}
	return json_incref(array);
}

static json_t *repetitions(const char *text, const char *option, struct error *err)
{
	int64_t number;
	return number_parse(text, option, 1, REPETITIONS_MAX, &number, err) ? NULL
									    : json_integer(number);
}

static int real_parse(const char *text, const char *option, double min, double max, double *out,
	struct error *err)
{
	char *end;
	double value = strtod(text, &end);
	/* Decimal numbers only: no "inf", no "0x1p3", no white space before. */
	if (end == text || *end || strspn(text, "0123456789.eE+-") != strlen(text) ||
		!isfinite(value) || value < min || value > max)
		return error_set(err, 0, "%s: must be a number of %.15g to %.15g, is '%.60s'",
			option, min, max, text);
	*out = value;
	return 0;
}

static bool is_none(const char *text)
{
	return !strcmp(text, "none") || !strcmp(text, "0");
}

/* The bounds are the plan's, and so is the message where they are not kept. */
static json_t *memory(const char *text, const char *option, struct error *err)
{
	static const char units[] = "kmgt";
	char *end;
	double value = strtod(text, &end);
	if (is_none(text))
		return json_null();
	const char *unit = *end && !end[1] ? strchr(units, *end | 0x20) : NULL;
	bool good = end != text && (!*end || unit) &&
		    strspn(text, "0123456789.") == (size_t)(end - text);
	for (const char *at = units; good && unit && at <= unit; at++)
		value *= 1024;
	if (good && value >= 1 && value < 0x1p62)
		return json_integer((json_int_t)value);
	error_set(err, 0, "%s: must be a size like 512m or 2g, or none, is '%.60s'", option, text);
	return NULL;
}

static json_t *cpu_quota(const char *text, const char *option, struct error *err)
{
	double cpus;
	if (is_none(text))
		return json_null();
	if (!real_parse(text, option, 0.01, 1024, &cpus, err))
		return json_real(cpus);
	error_set(
		err, 0, "%s: must be a number of CPUs like 0.5, or none, is '%.60s'", option, text);
	return NULL;
}

/* ---- the plan */

/* Set a field, and note it where that is a change. Takes the reference. */
static void change(json_t *object, const char *field, json_t *value, const char *option,
	const char *text, json_t *changed)
{
	const json_t *old = json_object_get(object, field);
	bool same = old ? json_equal(old, value) : json_is_null(value);
	if (json_is_number(old) && json_is_number(value))
		same = json_number_value(old) == json_number_value(value);
	if (!same)
		json_set(changed, option, json_text(text, SIZE_MAX));
	json_set(object, field, value);
}

int overrides_of_plan(
	json_t *plan, const struct plan_overrides *overrides, json_t *changed, struct error *err)
{
	static const struct {
		const char *option, *object, *field;
		json_t *(*read)(const char *text, const char *option, struct error *err);
	} all[] = {
		{"contenders", NULL, "contenders", list},
		{"sessions", NULL, "sessions", number_list},
		{"scenarios", NULL, "scenarios", list},
		{"repetitions", NULL, "repetitions", repetitions},
		{"memory", "limits", "memory_bytes", memory},
		{"cpu-quota", "limits", "cpu_quota", cpu_quota},
	};
	for (size_t i = 0; i < override_count; i++) {
		const char *text = *member(overrides, i);
		for (size_t k = 0; is_given(overrides, i) && k < sizeof all / sizeof *all; k++) {
			if (strcmp(all[k].option, override_names[i].option))
				continue;
			auto_free char *name = called(all[k].option, text);
			json_t *value = all[k].read(text, name, err), *object = plan;
			if (!value)
				return -1;
			/* null, or not there, is an object of defaults */
			if (all[k].object && !json_is_object(json_object_get(plan, all[k].object)))
				json_set(plan, all[k].object, json_object());
			if (all[k].object)
				object = json_object_get(plan, all[k].object);
			change(object, all[k].field, value, all[k].option, text, changed);
		}
	}
	return 0;
}

/* ---- scenarios */

/* The number of a timing is of {"constant": MS} or {"uniform": MS, "spread": PART}. */
static const char *base_member(const json_t *timing)
{
	return json_object_get(timing, "uniform") ? "uniform" : "constant";
}

static double timing_ms(const json_t *scenario, const char *field)
{
	const json_t *timing = json_object_get(scenario, field);
	return json_number_value(json_object_get(timing, base_member(timing)));
}

/* From a request to the last send of its answer. */
static double stream_ms(const json_t *scenario)
{
	return timing_ms(scenario, "ttft_ms") +
	       timing_ms(scenario, "chunk_interval_ms") *
		       (json_number_value(json_object_get(scenario, "chunks")) - 1);
}

int overrides_of_scenario(json_t *scenario, const struct plan_overrides *overrides, json_t *changed,
	struct error *err)
{
	const struct {
		const char *text, *option, *field;
		double min, max, ms; /* ms: of the value 1; 0: the value is in ms */
	} all[] = {
		{overrides->ttft_ms, "ttft-ms", "ttft_ms", 0, TTFT_MAX_MS, 0},
		{overrides->tokens_per_s, "tokens-per-s", "chunk_interval_ms", TOKENS_MIN,
			TOKENS_MAX, 1000},
	};
	double before = stream_ms(scenario);
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		double value;
		if (!all[i].text || !*all[i].text)
			continue;
		auto_free char *name = called(all[i].option, all[i].text);
		if (real_parse(all[i].text, name, all[i].min, all[i].max, &value, err))
			return -1;
		if (all[i].ms > 0)
			value = all[i].ms / value;
		if (value == timing_ms(scenario, all[i].field))
			continue;
		json_t *timing = json_object_get(scenario, all[i].field);
		json_set(timing, base_member(timing), json_real(value));
		json_set(changed, all[i].option, json_text(all[i].text, SIZE_MAX));
	}
	double after = stream_ms(scenario);
	double spread_ms = json_number_value(json_object_get(scenario, "spread_first_ms"));
	if (spread_ms > 0 && before > 0 && after != before)
		json_set(scenario, "spread_first_ms", json_real(spread_ms * after / before));
	return 0;
}
