/*
 * What the command line or the environment puts in the place of a plan's own: texts as given, each
 * checked here. What they changed stands in the resolved plan, and so in its hash.
 */
#ifndef COLLECTOR_OVERRIDES_H
#define COLLECTOR_OVERRIDES_H

#include <jansson.h>
#include <stddef.h>

struct error;

/* NULL or "": the plan's own. */
struct plan_overrides {
	const char *contenders, *sessions, *scenarios,
		*repetitions;               /* lists: separated by commas */
	const char *ttft_ms, *tokens_per_s; /* of every scenario */
	const char *memory, *cpu_quota;     /* limits; "none" */
};

/* How each is called. */
struct override_name {
	const char *option;   /* without "--" */
	const char *variable; /* of the environment */
	const char *value, *help;
	size_t offset; /* in struct plan_overrides */
};
extern const struct override_name override_names[];
extern const size_t override_count;

/* Those of the environment. */
void overrides_from_environment(struct plan_overrides *overrides);
void overrides_set(struct plan_overrides *overrides, size_t index, const char *text);
/* The first that is given, NULL if none is. */
const struct override_name *overrides_first(const struct plan_overrides *overrides);
/* The lines of --help. */
void overrides_usage(FILE *out);

/*
 * Put those of the plan's fields into a plan as written. Of each that changed something,
 * {option: text} is added to `changed`.
 */
int overrides_of_plan(
	json_t *plan, const struct plan_overrides *overrides, json_t *changed, struct error *err);
/*
 * The same with the timing of a scenario that was read: first token, tokens per second (a send is a
 * token). The spread of the first turns goes with the length of a turn.
 */
int overrides_of_scenario(json_t *scenario, const struct plan_overrides *overrides, json_t *changed,
	struct error *err);

#endif
