#include "collector/hypotheses.h"

#include "collector/cells.h"
#include "common/cleanup.h"
#include "common/error.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define GOOD                                                                                       \
	"\"statement\":\"s\",\"figure\":\"memory_peak_bytes\",\"relation\":\"<\",\"threshold\":1," \
	"\"cells\":{\"left\":\"c\",\"right\":\"node\",\"scenario\":\"quick\",\"sessions\":1}"

static json_t *plan_with(const char *hypotheses)
{
	auto_free char *text =
		xasprintf("{\"contenders\":[\"c\",\"node\"],\"scenarios\":[\"quick\"],"
			  "\"sessions\":[1,10],\"hypotheses\":%s}",
			hypotheses);
	json_error_t at;
	json_t *plan = json_loads(text, 0, &at);
	if (!plan)
		print_error("%s: %s\n", at.text, text);
	assert_non_null(plan);
	return plan;
}

static void wrong_ones_are_refused_with_their_field(void **state)
{
	(void)state;
	static const struct {
		const char *text, *message;
	} rows[] = {
		{"3", "p: hypotheses: must be an array, is 3"},
		{"[3]", "p: hypotheses[0]: must be an object, is 3"},
		{"[{}]", "p: hypotheses[0].statement: must be a text of 1 to 1000 bytes without "
			 "NUL, is "
			 "absent"},
		{"[{" GOOD "},{" GOOD ",\"more\":1}]", "p: hypotheses[1].more: unknown field"},
		{"[{\"statement\":\"s\",\"figure\":\"memory\",\"relation\":\"<\",\"threshold\":1,"
		 "\"cells\":{\"left\":\"c\",\"scenario\":\"quick\",\"sessions\":1}}]",
			"p: hypotheses[0].figure: there is no figure \"memory\""},
		{"[{\"statement\":\"s\",\"figure\":\"overhead_ms\",\"relation\":\"<\","
		 "\"threshold\":1,"
		 "\"cells\":{\"left\":\"c\",\"scenario\":\"quick\",\"sessions\":1}}]",
			"p: hypotheses[0].figure: there is no figure \"overhead_ms\", it needs a "
			"statistic like .p50"},
		{"[{\"statement\":\"s\",\"figure\":\"startup_ms\",\"relation\":\"!=\","
		 "\"threshold\":1,"
		 "\"cells\":{\"left\":\"c\",\"scenario\":\"quick\",\"sessions\":1}}]",
			"p: hypotheses[0].relation: must be \"<\", \"<=\", \">\" or \">=\", is "
			"\"!=\""},
		{"[{\"statement\":\"s\",\"figure\":\"startup_ms\",\"relation\":\"<\",\"threshold\":"
		 "\"1\","
		 "\"cells\":{\"left\":\"c\",\"scenario\":\"quick\",\"sessions\":1}}]",
			"p: hypotheses[0].threshold: must be a number of -1e+18 to 1e+18, is "
			"\"1\""},
		{"[{\"statement\":\"s\",\"figure\":\"startup_ms\",\"relation\":\"<\",\"threshold\":"
		 "1,"
		 "\"cells\":{\"left\":\"c\",\"scenario\":\"quick\"}}]",
			"p: hypotheses[0].cells.sessions: must be an integer of 1 to 10000, is "
			"absent"},
		{"[{\"statement\":\"s\",\"figure\":\"startup_ms\",\"relation\":\"<\",\"threshold\":"
		 "1,"
		 "\"cells\":{\"left\":\"c\",\"scenario\":\"quick\",\"sessions\":2}}]",
			"p: hypotheses[0].cells.sessions: 2 is not among the plan's sessions"},
		{"[{\"statement\":\"s\",\"figure\":\"startup_ms\",\"relation\":\"<\",\"threshold\":"
		 "1,"
		 "\"cells\":{\"left\":\"c\",\"right\":\"bun\",\"scenario\":\"quick\",\"sessions\":"
		 "1}}]",
			"p: hypotheses[0].cells.right: \"bun\" is not among the plan's contenders"},
		{"[{\"statement\":\"s\",\"figure\":\"startup_ms\",\"relation\":\"<\",\"threshold\":"
		 "1,"
		 "\"cells\":{\"left\":\"c\",\"scenario\":\"slow\",\"sessions\":1}}]",
			"p: hypotheses[0].cells.scenario: \"slow\" is not among the plan's "
			"scenarios"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		json_auto_t *plan = plan_with(rows[i].text);
		struct error err;
		assert_int_equal(hypotheses_check(plan, "p", &err), -1);
		assert_string_equal(err.text, rows[i].message);
		struct cells none = {NULL, 0};
		assert_null(hypotheses_judge(plan, &none, "p", &err));
	}
	static const char *const good[] = {"[]", "null", "[{" GOOD "},{" GOOD "}]"};
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		json_auto_t *plan = plan_with(good[i]);
		struct error err;
		assert_int_equal(hypotheses_check(plan, "p", &err), 0);
	}
}

enum { BLOCKS = 8 };

/* One cell of "c" whose startup runs through the values, and enough around it to be judged. */
struct scene {
	struct run_record records[BLOCKS];
	const struct run_record *runs[BLOCKS];
	double values[BLOCKS];
	struct cell_figure *figures;
	struct cell cell;
};

static char one_setting[] = "x", other_setting[] = "y";

static void scene_init(struct scene *scene, double lowest, size_t blocks)
{
	*scene = (struct scene){.figures = xcalloc(figure_keys_count, sizeof *scene->figures)};
	for (size_t i = 0; i < blocks; i++) {
		scene->records[i] = (struct run_record){.block = (int64_t)i + 1,
			.scenario = "quick",
			.contender = "c",
			.track = "shipped"};
		scene->runs[i] = &scene->records[i];
		scene->values[i] = lowest + (double)i;
	}
	scene->figures[figure_key_find("startup_ms")] = (struct cell_figure){
		.values = scene->values, .count = blocks, .known = true, .median = lowest + 3.5};
	scene->cell = (struct cell){.contender = "c",
		.sessions = 1,
		.first = &scene->records[0],
		.setting = one_setting,
		.completed = scene->runs,
		.completed_count = blocks,
		.attempted = blocks,
		.estimated = true,
		.figures = scene->figures};
}

static void the_whole_interval_decides(void **state)
{
	(void)state;
	/* 8 values 10 … 17: one hypothesis, at 95%, has all of them as its interval */
	static const struct {
		const char *relation, *threshold, *verdict;
		size_t blocks;
	} rows[] = {
		{"<", "17.5", "supported", 8},
		{"<", "17", "undecided", 8},
		{"<=", "17", "supported", 8},
		{"<", "12", "undecided", 8},
		{"<", "10", "rejected", 8},
		{"<=", "10", "undecided", 8},
		{"<=", "9.5", "rejected", 8},
		{">", "9.5", "supported", 8},
		{">", "10", "undecided", 8},
		{">=", "10", "supported", 8},
		{">", "17", "rejected", 8},
		{">=", "17", "undecided", 8},
		{">=", "17.5", "rejected", 8},
		{"<", "99", "undecided", 5},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct scene scene;
		scene_init(&scene, 10, rows[i].blocks);
		auto_free char *text = xasprintf(
			"[{\"statement\":\"s\",\"figure\":\"startup_ms\",\"relation\":\"%s\","
			"\"threshold\":%s,\"cells\":{\"left\":\"c\",\"scenario\":\"quick\","
			"\"sessions\":1}}]",
			rows[i].relation, rows[i].threshold);
		json_auto_t *plan = plan_with(text);
		struct cells cells = {&scene.cell, 1};
		struct error err;
		json_auto_t *judged = hypotheses_judge(plan, &cells, "p", &err);
		const json_t *item = json_array_get(judged, 0);
		assert_string_equal(
			json_string_value(json_object_get(item, "verdict")), rows[i].verdict);
		assert_string_equal(json_string_value(json_object_get(item, "unit")), "ms");
		if (rows[i].blocks < 6)
			assert_string_equal(json_string_value(json_object_get(item, "reason")),
				"too few blocks for an interval at this confidence");
		free(scene.figures);
	}
}

/* A peak at its memory limit is at least that: no interval ends above it, or below as divisor. */
static void what_is_at_least_so_much_has_no_upper_end(void **state)
{
	(void)state;
	static const struct {
		bool left_at_limit, right_at_limit, has_right;
		const char *relation, *threshold, *verdict;
	} rows[] = {
		{false, false, false, "<", "99", "supported"},
		{true, false, false, "<", "99", "undecided"},
		{true, false, false, "<=", "99", "undecided"},
		{true, false, false, "<", "10", "rejected"},
		{true, false, false, ">", "9.5", "supported"},
		{true, false, false, ">", "17", "undecided"},
		/* left is 10 … 17, right the same: a ratio of 1 in each block */
		{false, false, true, "<", "2", "supported"},
		{true, false, true, "<", "2", "undecided"},
		{true, false, true, ">", "0.5", "supported"},
		{false, true, true, "<", "2", "supported"},
		{false, true, true, ">", "0.5", "undecided"},
		{false, true, true, ">", "2", "rejected"},
		{true, true, true, "<", "2", "undecided"},
		{true, true, true, ">", "0.5", "undecided"},
	};
	size_t key = figure_key_find("startup_ms");
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct scene left, right;
		scene_init(&left, 10, BLOCKS);
		scene_init(&right, 10, BLOCKS);
		right.cell.contender = "node";
		left.figures[key].at_least = rows[i].left_at_limit;
		right.figures[key].at_least = rows[i].right_at_limit;
		auto_free char *text = xasprintf(
			"[{\"statement\":\"s\",\"figure\":\"startup_ms\",\"relation\":\"%s\","
			"\"threshold\":%s,\"cells\":{\"left\":\"c\",%s\"scenario\":\"quick\","
			"\"sessions\":1}}]",
			rows[i].relation, rows[i].threshold,
			rows[i].has_right ? "\"right\":\"node\"," : "");
		json_auto_t *plan = plan_with(text);
		struct cell both[] = {left.cell, right.cell};
		struct cells cells = {both, 2};
		struct error err;
		json_auto_t *judged = hypotheses_judge(plan, &cells, "p", &err);
		const json_t *item = json_array_get(judged, 0);
		assert_string_equal(
			json_string_value(json_object_get(item, "verdict")), rows[i].verdict);
		bool open = rows[i].left_at_limit || rows[i].right_at_limit;
		assert_int_equal(open, json_is_string(json_object_get(item, "reason")));
		assert_int_equal(
			rows[i].left_at_limit, json_is_true(json_object_get(item, "at_least")));
		assert_int_equal(
			rows[i].right_at_limit, json_is_true(json_object_get(item, "at_most")));
		free(left.figures);
		free(right.figures);
	}
}

static void many_hypotheses_need_more_confidence(void **state)
{
	(void)state;
	/* 8 blocks carry at most 1 - 2/256 = 99.2%: enough for 6 hypotheses (99.17%), not for 7 */
	static const struct {
		size_t count;
		const char *verdict;
	} rows[] = {{1, "supported"}, {6, "supported"}, {7, "undecided"}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct scene scene;
		scene_init(&scene, 10, BLOCKS);
		json_auto_t *plan = plan_with("[]");
		for (size_t k = 0; k < rows[i].count; k++)
			json_array_append_new(json_object_get(plan, "hypotheses"),
				json_pack("{s:s,s:s,s:s,s:i,s:{s:s,s:s,s:i}}", "statement", "s",
					"figure", "startup_ms", "relation", "<", "threshold", 50,
					"cells", "left", "c", "scenario", "quick", "sessions", 1));
		struct cells cells = {&scene.cell, 1};
		struct error err;
		json_auto_t *judged = hypotheses_judge(plan, &cells, "p", &err);
		assert_int_equal(json_array_size(judged), rows[i].count);
		assert_string_equal(
			json_string_value(json_object_get(json_array_get(judged, 0), "verdict")),
			rows[i].verdict);
		free(scene.figures);
	}
}

static void cells_that_are_not_there_or_not_one_leave_it_undecided(void **state)
{
	(void)state;
	struct scene scene, twin;
	scene_init(&scene, 10, BLOCKS);
	scene_init(&twin, 10, BLOCKS);
	struct cell both[] = {scene.cell, twin.cell};
	both[1].setting = other_setting; /* as another cgroup backend makes it */
	static const char text[] =
		"[{\"statement\":\"s\",\"figure\":\"startup_ms\",\"relation\":\"<\",\"threshold\":"
		"99,"
		"\"cells\":{\"left\":\"%s\",\"scenario\":\"quick\",\"sessions\":%d}}]";
	static const struct {
		const char *left;
		int sessions;
		size_t cells;
		const char *reason;
	} rows[] = {
		{"node", 1, 1, "not measured"},
		{"c", 10, 1, "not measured"},
		{"c", 1, 2, "measured under more than one set of conditions"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		auto_free char *hypotheses = xasprintf(text, rows[i].left, rows[i].sessions);
		json_auto_t *plan = plan_with(hypotheses);
		struct cells cells = {both, rows[i].cells};
		struct error err;
		json_auto_t *judged = hypotheses_judge(plan, &cells, "p", &err);
		const json_t *item = json_array_get(judged, 0);
		assert_string_equal(
			json_string_value(json_object_get(item, "verdict")), "undecided");
		assert_string_equal(
			json_string_value(json_object_get(item, "reason")), rows[i].reason);
		assert_true(json_is_null(json_object_get(item, "value")));
	}
	free(scene.figures);
	free(twin.figures);
}

/* Tracks are never mixed, and a plan has one: what is of the other is no cell of its claims. */
static void the_cells_are_of_the_plans_track(void **state)
{
	(void)state;
	static const struct {
		const char *plan, *cells[2];
		size_t count;
		double value;       /* 4.5 is of the first cell, 14.5 of the second */
		const char *reason; /* NULL: decided */
	} rows[] = {
		{NULL, {"shipped", "equalised"}, 2, 4.5, NULL},
		{"shipped", {"shipped", "equalised"}, 2, 4.5, NULL},
		{"shipped", {"equalised", "shipped"}, 2, 14.5, NULL},
		{"equalised", {"shipped", "equalised"}, 2, 14.5, NULL},
		{"equalised", {"shipped", "shipped"}, 1, 0, "not measured"},
		{"shipped", {"shipped", "shipped"}, 2, 0,
			"measured under more than one set of conditions"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct scene scenes[2];
		struct run_record firsts[2];
		struct cell both[2];
		for (size_t k = 0; k < 2; k++) {
			scene_init(&scenes[k], 1 + 10 * (double)k, BLOCKS);
			firsts[k] = *scenes[k].cell.first;
			firsts[k].track = rows[i].cells[k];
			both[k] = scenes[k].cell;
			both[k].first = &firsts[k];
		}
		json_auto_t *plan = plan_with(
			"[{\"statement\":\"s\",\"figure\":\"startup_ms\",\"relation\":\"<\","
			"\"threshold\":99,"
			"\"cells\":{\"left\":\"c\",\"scenario\":\"quick\",\"sessions\":1}}]");
		if (rows[i].plan)
			json_object_set_new(plan, "track", json_string(rows[i].plan));
		struct cells cells = {both, rows[i].count};
		struct error err;
		json_auto_t *judged = hypotheses_judge(plan, &cells, "p", &err);
		const json_t *item = json_array_get(judged, 0);
		const json_t *reason = json_object_get(item, "reason");
		const json_t *value = json_object_get(item, "value");
		if (rows[i].reason) {
			assert_string_equal(json_string_value(reason), rows[i].reason);
			assert_true(json_is_null(value));
		} else {
			assert_true(json_is_null(reason));
			assert_true(json_number_value(value) == rows[i].value);
		}
		for (size_t k = 0; k < 2; k++)
			free(scenes[k].figures);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wrong_ones_are_refused_with_their_field),
		cmocka_unit_test(the_whole_interval_decides),
		cmocka_unit_test(what_is_at_least_so_much_has_no_upper_end),
		cmocka_unit_test(many_hypotheses_need_more_confidence),
		cmocka_unit_test(cells_that_are_not_there_or_not_one_leave_it_undecided),
		cmocka_unit_test(the_cells_are_of_the_plans_track),
	};
	return cmocka_run_group_tests_name("hypotheses", tests, NULL, NULL);
}
