#include "mockllm/run.h"

#include "common/clock.h"
#include "tests/unit/mockllm/fixture.h"

enum { SESSIONS = 12 };

static struct catalog catalog;
static struct run *run;
static struct script_turn turn;

static int setup_with(const char *tools)
{
	catalog = (struct catalog){.tool_path = "/opt/tmtool", .tool_socket = "turnmeter-08080"};
	catalog_put(&catalog, fixture_scenario(tools, 20));
	run = run_new(3, catalog_find(&catalog, "fixture"), SESSIONS, 9, &catalog);
	turn = (struct script_turn){0};
	return 0;
}

static int setup(void **state)
{
	(void)state;
	return setup_with(tool_tmtool);
}

static int setup_bin(void **state)
{
	(void)state;
	return setup_with(tool_bin);
}

static int teardown(void **state)
{
	(void)state;
	script_turn_release(&turn);
	run_drop(run);
	catalog_release(&catalog);
	return 0;
}

static void sessions_have_names(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		int64_t number;
	} rows[] = {{"s1", 1}, {"s12", 12}, {"s13", 0}, {"s0", 0}, {"s", 0}, {"", 0}, {"1", 0},
		{"S1", 0}, {"s01", 0}, {"s1 ", 0}, {"s+1", 0}, {"s-1", 0}, {"s1x", 0},
		{"s99999999999999999999", 0}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		assert_int_equal(run_session_number(run, rows[i].name), rows[i].number);
}

/* A turn of at least two calls, its row begun. */
static int64_t begin_turn(size_t *row)
{
	for (int64_t session = 1; session <= SESSIONS; session++) {
		script_turn_make(&run->script, session, 1, &turn);
		if (turn.calls >= 2) {
			*row = run_add_row(run, session, 1, turn.calls);
			return session;
		}
	}
	fail();
	return 0;
}

static struct tool_stamp stamp_of(int64_t session, size_t call, int64_t start_ns)
{
	return (struct tool_stamp){
		.magic = TOOL_STAMP_MAGIC,
		.key = script_key(9, session, 1, call),
		.start_ns = start_ns,
		.end_ns = start_ns + (int64_t)(call + 20) * NS_PER_MS,
		.cpu_ns = 100 + (int64_t)call,
	};
}

/* Demand: the longest sleep asked plus CPU. Wall: the longest from start to end. */
static void stamps_make_the_demand(void **state)
{
	(void)state;
	size_t row;
	int64_t session = begin_turn(&row), longest_ns = 0;
	run->rows[row].end_before_ns = 1000;
	for (size_t i = turn.calls; i-- > 0;) {
		assert_int_equal(run->rows[row].tool_demand_ns, RUN_NULL);
		struct tool_stamp stamp = stamp_of(session, i, 1000);
		run_stamp(run, &stamp);
		int64_t demand_ns = turn.call[i].sleep_ms * NS_PER_MS + stamp.cpu_ns;
		if (demand_ns > longest_ns)
			longest_ns = demand_ns;
	}
	assert_int_equal(run->rows[row].tool_demand_ns, longest_ns);
	assert_int_equal(run->rows[row].tool_wall_ns, (int64_t)(turn.calls - 1 + 20) * NS_PER_MS);
	assert_int_equal(run->tool_stamps, turn.calls);
	assert_int_equal(run->tool_stamps_unmatched, 0);
	assert_int_equal(run_error_total(run), 0);
}

static void a_tool_before_the_end_is_early(void **state)
{
	(void)state;
	size_t row;
	int64_t session = begin_turn(&row);
	run->rows[row].end_before_ns = 5000;
	struct tool_stamp late = stamp_of(session, 0, 5000), early = stamp_of(session, 1, 4999);
	run_stamp(run, &late);
	assert_int_equal(run->error_counts[FAULT_EARLY_TOOL], 0);
	run_stamp(run, &early);
	assert_int_equal(run->error_counts[FAULT_EARLY_TOOL], 1);
	assert_int_equal(run->errors[0].session, session);
	assert_int_equal(run->errors[0].turn, 1);
}

static void a_tool_while_the_answer_streams_is_early_once(void **state)
{
	(void)state;
	size_t row;
	int64_t session = begin_turn(&row);
	for (size_t i = 0; i < turn.calls; i++) {
		struct tool_stamp stamp = stamp_of(session, i, 1);
		run_stamp(run, &stamp);
	}
	assert_int_equal(run->error_counts[FAULT_EARLY_TOOL], 1);
}

static void other_stamps_match_nothing(void **state)
{
	(void)state;
	size_t row;
	int64_t session = begin_turn(&row);
	run->rows[row].end_before_ns = 1;
	struct tool_stamp good = stamp_of(session, 0, 1000);
	struct tool_stamp stamps[] = {good, good, good, good, good};
	stamps[0].magic++;
	stamps[1].key = 0;
	stamps[2].key = script_key(9, session, 2, 0);          /* not asked for yet */
	stamps[3].key = script_key(9, session, 1, turn.calls); /* not asked for at all */
	stamps[4].key = script_key(8, session, 1, 0);          /* of another seed */
	for (size_t i = 0; i < 5; i++)
		run_stamp(run, &stamps[i]);
	assert_int_equal(run->tool_stamps_unmatched, 5);
	run_stamp(run, &good);
	assert_int_equal(run->tool_stamps_unmatched, 5);
	run_stamp(run, &good);
	assert_int_equal(run->tool_stamps_unmatched, 6);
	assert_int_equal(run->rows[row].tool_demand_ns, RUN_NULL);
}

static void other_tools_have_no_stamps(void **state)
{
	(void)state;
	size_t row;
	int64_t session = begin_turn(&row);
	struct tool_stamp stamp = stamp_of(session, 0, 1000);
	run_stamp(run, &stamp);
	assert_int_equal(run->tool_stamps_unmatched, 1);
}

static void attempts_count_from_one(void **state)
{
	(void)state;
	static const struct {
		int64_t session, attempt;
	} rows[] = {{2, 1}, {2, 2}, {3, 1}, {2, 3}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		size_t row = run_add_row(run, rows[i].session, 1, 0);
		assert_int_equal(run->rows[row].attempt, rows[i].attempt);
	}
}

static void errors_are_counted_and_the_first_kept(void **state)
{
	(void)state;
	for (int i = 0; i < RUN_ERRORS_KEPT + 50; i++)
		run_add_error(run, i % 2 ? FAULT_HISTORY : FAULT_REPEAT, 1, i, "number %d", i);
	assert_int_equal(run->errors_kept, RUN_ERRORS_KEPT);
	assert_int_equal(run_error_total(run), RUN_ERRORS_KEPT + 50);
	assert_string_equal(run->errors[99].detail, "number 99");
}

static json_t *ledger(void)
{
	struct buf text;
	buf_init(&text, 1 << 24);
	run_end(run);
	run_add_ledger(run, &text);
	json_t *object = json_loadb(text.data, text.length, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(object);
	buf_release(&text);
	return object;
}

static void the_ledger_has_its_columns(void **state)
{
	(void)state;
	static const char *const names[] = {"session", "turn", "attempt", "connection",
		"headers_ns", "read_ns", "first_ns", "end_before_ns", "end_after_ns",
		"late_self_us", "late_peer_us", "tool_calls", "tool_demand_ns", "tool_wall_ns",
		"bytes_in", "bytes_out"};
	size_t count = sizeof names / sizeof *names;
	size_t row = run_add_row(run, 2, 1, 3);
	run->rows[row].read_ns = 77;
	run_add_row(run, 4, 1, 1);
	run_add_error(run, FAULT_SESSION, 0, 0, "a \"detail\"");
	histogram_add(&run->totals.late_self, 1500);
	json_t *object = ledger();
	const json_t *columns = json_object_get(object, "columns");
	const json_t *rows = json_object_get(object, "rows");
	assert_int_equal(json_array_size(columns), count);
	assert_int_equal(json_array_size(rows), 2);
	for (size_t i = 0; i < count; i++)
		assert_string_equal(json_string_value(json_array_get(columns, i)), names[i]);
	const json_t *first = json_array_get(rows, 0);
	assert_int_equal(json_array_size(first), count);
	assert_int_equal(json_integer_value(json_array_get(first, 0)), 2);
	assert_true(json_is_null(json_array_get(first, 4)));
	assert_int_equal(json_integer_value(json_array_get(first, 5)), 77);
	assert_int_equal(json_integer_value(json_array_get(first, 11)), 3);

	assert_string_equal(json_string_value(json_object_get(object, "scenario")), "fixture");
	assert_int_equal(json_integer_value(json_object_get(object, "run")), 3);
	assert_int_equal(json_integer_value(json_object_get(object, "seed")), 9);
	const json_t *late = json_object_get(object, "late_self_us");
	assert_true(json_real_value(json_object_get(late, "p50")) == 1.5);
	const json_t *none = json_object_get(object, "late_peer_us");
	assert_true(json_is_null(json_object_get(none, "p99")));
	assert_int_equal(json_integer_value(json_object_get(none, "n")), 0);
	const json_t *error = json_array_get(json_object_get(object, "errors"), 0);
	assert_string_equal(json_string_value(json_object_get(error, "kind")), "session");
	assert_string_equal(json_string_value(json_object_get(error, "detail")), "a \"detail\"");
	assert_true(json_is_null(json_object_get(error, "session")));
	const json_t *counts = json_object_get(object, "error_counts");
	assert_int_equal(json_object_size(counts), FAULTS - 1);
	assert_int_equal(json_integer_value(json_object_get(counts, "session")), 1);
	json_decref(object);
}

/* The prompt once, the rest of each session. */
static void histories_are_summed(void **state)
{
	(void)state;
	run->sessions_seen = 2;
	run_session(run, 1)->text_bytes = 1000;
	run_session(run, 7)->text_bytes = 500;
	json_t *object = ledger();
	assert_int_equal(json_integer_value(json_object_get(object, "history_bytes")), 700 + 1500);
	json_decref(object);
}

/* A scenario that is replaced lives on in its run. */
static void a_run_holds_its_scenario(void **state)
{
	(void)state;
	struct scenario *scenario = run->script.scenario == run->loaded->scenario
					    ? fixture_scenario(tool_bin, 20)
					    : NULL;
	assert_non_null(scenario);
	catalog_put(&catalog, scenario);
	assert_int_equal(catalog.count, 1);
	assert_int_equal(
		catalog_find(&catalog, "fixture")->scenario->tool_kind, SCENARIO_TOOLS_BIN);
	assert_int_equal(run->script.scenario->tool_kind, SCENARIO_TOOLS_TMTOOL);
	assert_null(catalog_find(&catalog, "fixtur"));
	assert_null(catalog_find(&catalog, ""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(sessions_have_names, setup, teardown),
		cmocka_unit_test_setup_teardown(stamps_make_the_demand, setup, teardown),
		cmocka_unit_test_setup_teardown(a_tool_before_the_end_is_early, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_tool_while_the_answer_streams_is_early_once, setup, teardown),
		cmocka_unit_test_setup_teardown(other_stamps_match_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(other_tools_have_no_stamps, setup_bin, teardown),
		cmocka_unit_test_setup_teardown(attempts_count_from_one, setup, teardown),
		cmocka_unit_test_setup_teardown(
			errors_are_counted_and_the_first_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(the_ledger_has_its_columns, setup, teardown),
		cmocka_unit_test_setup_teardown(histories_are_summed, setup, teardown),
		cmocka_unit_test_setup_teardown(a_run_holds_its_scenario, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
