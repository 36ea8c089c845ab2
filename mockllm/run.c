#include "mockllm/run.h"

#include "common/clock.h"
#include "common/error.h"
#include "common/number.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int64_t process_cpu_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * NS_PER_S + t.tv_nsec;
}

struct run *run_new(int64_t id, struct loaded *loaded, int64_t sessions, uint64_t seed,
	const struct catalog *catalog)
{
	struct run *run = xcalloc(1, sizeof *run);
	run->holders = 1;
	run->id = id;
	run->loaded = loaded_hold(loaded);
	script_init(&run->script, loaded->scenario, seed, catalog->tool_path, catalog->tool_socket);
	run->sessions = sessions;
	run->session = xcalloc((size_t)sessions, sizeof *run->session);
	run->begun_ns = now_ns();
	run->begun_cpu_ns = process_cpu_ns();
	return run;
}

struct run *run_hold(struct run *run)
{
	run->holders++;
	return run;
}

void run_drop(struct run *run)
{
	if (!run || --run->holders)
		return;
	for (size_t i = 0; i < run->errors_kept; i++)
		free(run->errors[i].detail);
	free(run->rows);
	free(run->session);
	script_release(&run->script);
	loaded_drop(run->loaded);
	free(run);
}

void run_end(struct run *run)
{
	run->ended = true;
	run->ended_ns = now_ns();
	run->ended_cpu_ns = process_cpu_ns();
}

int64_t run_session_number(const struct run *run, const char *name)
{
	struct error ignored;
	int64_t number;
	if (name[0] != 's' || name[1] < '1' || name[1] > '9' ||
		number_parse(name + 1, "session", 1, run->sessions, &number, &ignored))
		return 0;
	return number;
}

void run_add_error(
	struct run *run, enum fault fault, int64_t session, int64_t turn, const char *format, ...)
{
	run->error_counts[fault]++;
	if (run->errors_kept == RUN_ERRORS_KEPT)
		return;
	char detail[512];
	va_list args;
	va_start(args, format);
	vsnprintf(detail, sizeof detail, format, args);
	va_end(args);
	run->errors[run->errors_kept++] =
		(struct run_error){fault, session, turn, now_ns(), xstrdup(detail)};
}

int64_t run_error_total(const struct run *run)
{
	int64_t total = 0;
	for (int i = 0; i < FAULTS; i++)
		total += run->error_counts[i];
	return total;
}

size_t run_add_row(struct run *run, int64_t session, int64_t turn, size_t tool_calls)
{
	if (run->row_count == run->row_capacity) {
		run->row_capacity = run->row_capacity ? 2 * run->row_capacity : 1024;
		run->rows = xrealloc(run->rows, run->row_capacity * sizeof *run->rows);
	}
	struct run_session *owner = run_session(run, session);
	size_t index = run->row_count++;
	run->rows[index] = (struct run_row){
		.session = session,
		.turn = turn,
		.attempt = ++owner->attempts,
		.connection = RUN_NULL,
		.headers_ns = RUN_NULL,
		.read_ns = RUN_NULL,
		.first_ns = RUN_NULL,
		.end_before_ns = RUN_NULL,
		.end_after_ns = RUN_NULL,
		.late_self_us = RUN_NULL,
		.late_peer_us = RUN_NULL,
		.tool_calls = (int64_t)tool_calls,
		.tool_demand_ns = RUN_NULL,
		.tool_wall_ns = RUN_NULL,
		.bytes_in = RUN_NULL,
		.bytes_out = RUN_NULL,
	};
	owner->calls[turn % 2] = (struct run_calls){.turn = turn, .row = index};
	return index;
}

static bool place_of_stamp(const struct run *run, const struct tool_stamp *stamp, int64_t *session,
	int64_t *turn, size_t *call)
{
	script_key_place(run->script.seed, stamp->key, session, turn, call);
	return stamp->magic == TOOL_STAMP_MAGIC && *session >= 1 && *session <= run->sessions &&
	       *turn >= 1 && *call < SCENARIO_CALLS_MAX &&
	       run->script.scenario->tool_kind == SCENARIO_TOOLS_TMTOOL;
}

static int64_t sleep_of_call(const struct run *run, int64_t session, int64_t turn, size_t call)
{
	struct script_turn made = {0};
	script_turn_make(&run->script, session, turn, &made);
	int64_t sleep_ns = made.call[call].sleep_ms * NS_PER_MS;
	script_turn_release(&made);
	return sleep_ns;
}

void run_stamp(struct run *run, const struct tool_stamp *stamp)
{
	int64_t session, turn;
	size_t call;
	run->tool_stamps++;
	struct run_calls *calls = NULL;
	if (place_of_stamp(run, stamp, &session, &turn, &call))
		calls = &run_session(run, session)->calls[turn % 2];
	if (!calls || calls->turn != turn || calls->stamped & 1u << call ||
		(int64_t)call >= run->rows[calls->row].tool_calls) {
		run->tool_stamps_unmatched++;
		return;
	}
	calls->stamped |= 1u << call;
	struct run_row *row = &run->rows[calls->row];
	if (!calls->was_early &&
		(row->end_before_ns == RUN_NULL || stamp->start_ns < row->end_before_ns)) {
		calls->was_early = true;
		run_add_error(run, FAULT_EARLY_TOOL, session, turn,
			"call %zu was started before the finish chunk went out", call);
	}
	int64_t demand_ns = sleep_of_call(run, session, turn, call) + stamp->cpu_ns;
	int64_t wall_ns = stamp->end_ns - stamp->start_ns;
	if (demand_ns > calls->demand_ns)
		calls->demand_ns = demand_ns;
	if (wall_ns > calls->wall_ns)
		calls->wall_ns = wall_ns;
	if (calls->stamped == (1u << row->tool_calls) - 1) {
		row->tool_demand_ns = calls->demand_ns;
		row->tool_wall_ns = calls->wall_ns;
	}
}

/* ---- ledger */

static const char *const columns[] = {"session", "turn", "attempt", "connection", "headers_ns",
	"read_ns", "first_ns", "end_before_ns", "end_after_ns", "late_self_us", "late_peer_us",
	"tool_calls", "tool_demand_ns", "tool_wall_ns", "bytes_in", "bytes_out"};
enum { COLUMNS = sizeof columns / sizeof *columns };
_Static_assert(sizeof(struct run_row) == COLUMNS * sizeof(int64_t), "a column for each member");

#define addf(buf, ...)                                                                             \
	do {                                                                                       \
		if (buf_addf(buf, __VA_ARGS__))                                                    \
			die_oom();                                                                 \
	} while (0)

static void add_row(struct buf *out, const struct run_row *row)
{
	int64_t values[COLUMNS];
	memcpy(values, row, sizeof values);
	for (size_t i = 0; i < COLUMNS; i++)
		if (values[i] == RUN_NULL)
			addf(out, "%snull", i ? "," : "[");
		else
			addf(out, "%s%" PRId64, i ? "," : "[", values[i]);
	addf(out, "]");
}

/* Microseconds; null where there is no sample. */
static json_t *describe_histogram(const struct histogram *histogram)
{
	static const struct {
		const char *name;
		double part;
	} parts[] = {{"p50", 0.5}, {"p90", 0.9}, {"p95", 0.95}, {"p99", 0.99}};
	json_t *object = json_object();
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		json_object_set_new(object, parts[i].name,
			histogram->n
				? json_real((double)histogram_percentile(histogram, parts[i].part) /
					    1e3)
				: json_null());
	json_object_set_new(object, "max",
		histogram->n ? json_real((double)histogram->max_ns / 1e3) : json_null());
	json_object_set_new(object, "n", json_integer(histogram->n));
	return object;
}

static json_t *describe_errors(const struct run *run)
{
	json_t *errors = json_array();
	for (size_t i = 0; i < run->errors_kept; i++) {
		const struct run_error *error = &run->errors[i];
		json_t *object = json_pack("{s:s, s:o, s:o, s:s, s:I}", "kind",
			fault_name(error->fault), "session",
			error->session ? json_integer(error->session) : json_null(), "turn",
			error->turn ? json_integer(error->turn) : json_null(), "detail",
			error->detail, "at_ns", (json_int_t)error->at_ns);
		json_array_append_new(errors, object);
	}
	return errors;
}

static json_t *describe_error_counts(const struct run *run)
{
	json_t *counts = json_object();
	for (int i = FAULT_NONE + 1; i < FAULTS; i++)
		json_object_set_new(counts, fault_name(i), json_integer(run->error_counts[i]));
	return counts;
}

/* The system prompt is one text for all sessions; everything else is each session's own. */
static int64_t history_bytes(const struct run *run)
{
	int64_t bytes = run->sessions_seen ? (int64_t)run->script.system_prompt.length : 0;
	for (int64_t i = 0; i < run->sessions; i++)
		bytes += run->session[i].text_bytes;
	return bytes;
}

static json_t *describe_run(const struct run *run)
{
	json_t *names = json_array();
	for (size_t i = 0; i < COLUMNS; i++)
		json_array_append_new(names, json_string(columns[i]));
	const struct {
		const char *name;
		json_t *value;
	} members[] = {
		{"run", json_integer(run->id)},
		{"scenario", json_string(run->script.scenario->name)},
		{"sessions", json_integer(run->sessions)},
		{"seed", json_integer((json_int_t)run->script.seed)},
		{"begun_ns", json_integer(run->begun_ns)},
		{"ended_ns", json_integer(run->ended_ns)},
		{"sessions_complete", json_integer(run->sessions_complete)},
		{"sessions_seen", json_integer(run->sessions_seen)},
		{"connections", json_integer(run->connections)},
		{"requests", json_integer(run->requests)},
		{"events", json_integer(run->totals.events)},
		{"peers_left", json_integer(run->peers_left)},
		{"checks_scanned", json_integer(run->checks_scanned)},
		{"checks_parsed", json_integer(run->checks_parsed)},
		{"checks_inline", json_integer(run->checks_inline)},
		{"error_counts", describe_error_counts(run)},
		{"errors", describe_errors(run)},
		{"late_self_us", describe_histogram(&run->totals.late_self)},
		{"late_peer_us", describe_histogram(&run->totals.late_peer)},
		{"loop_us", describe_histogram(&run->loop)},
		{"tool_calls", json_integer(run->tool_calls)},
		{"tool_stamps", json_integer(run->tool_stamps)},
		{"tool_stamps_unmatched", json_integer(run->tool_stamps_unmatched)},
		{"history_bytes", json_integer(history_bytes(run))},
		{"cpu_usec", json_integer((run->ended_cpu_ns - run->begun_cpu_ns) / 1000)},
		{"columns", names},
	};
	json_t *object = json_object();
	for (size_t i = 0; i < sizeof members / sizeof *members; i++)
		if (json_object_set_new(object, members[i].name, members[i].value))
			die_oom();
	return object;
}

/* Rows are written as text: as objects, those of a long run would take a hundred times the memory.
 */
void run_add_ledger(const struct run *run, struct buf *out)
{
	json_t *object = describe_run(run);
	char *text = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(9));
	json_decref(object);
	if (!text)
		die_oom();
	text[strlen(text) - 1] = '\0'; /* its closing brace */
	addf(out, "%s,\"rows\":[", text);
	free(text);
	for (size_t i = 0; i < run->row_count; i++) {
		addf(out, "%s", i ? "," : "");
		add_row(out, &run->rows[i]);
	}
	addf(out, "]}");
}
