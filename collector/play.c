#include "collector/play.h"

#include "collector/claim.h"
#include "collector/doctor.h"
#include "collector/escape.h"
#include "collector/folder.h"
#include "collector/launch.h"
#include "collector/local.h"
#include "collector/manifest.h"
#include "collector/mock_client.h"
#include "collector/progress.h"
#include "collector/record.h"
#include "collector/results.h"
#include "collector/run.h"
#include "collector/summary.h"
#include "collector/survey.h"
#include "collector/terminal.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/file.h"
#include "common/json.h"
#include "common/loop.h"
#include "common/scenario.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	ATTEMPTS_MAX = 3, /* of one run, while it is not valid */
	REPEATS_MIN = 3,  /* of all runs together; else half as many as there are runs */
	FAULTS_MAX = 3,   /* of the instrument, one after the other */
	WARM_UP_SESSIONS_MAX = 10,
	WARM_UP_TURNS_MAX = 2,
	WARM_UP_CHUNKS_MAX = 5,
};

/* The doctor watches the CPUs for so long before a plan begins. */
static const int64_t DOCTOR_WATCH_NS = NS_PER_S / 2;
static const int64_t TICK_NS = NS_PER_S;

/* One run of the plan, until it is valid or has had its attempts. */
struct task {
	int64_t block;
	struct plan_cell cell;
	int attempts;
	bool valid, ok;
	bool again; /* to be played again for being not valid */
};

struct play {
	const struct play_options *options;
	const struct plan *plan;
	struct loop *loop;
	struct site site;
	struct folder folder;
	struct progress progress;
	struct timer tick; /* on a terminal: the time left goes down while a run is played */
	json_t *environment;
	json_t *findings; /* the doctor's */
	struct task *tasks;
	size_t task_count;
	bool *warm;      /* by contender: its files are in the cache */
	bool *forgetful; /* by contender: but they do not stay there */
	int64_t last_run, recorded;
	int faults;
	size_t repeats_left;
};

/* ---- tasks */

static void make_tasks(struct play *play)
{
	const struct plan *plan = play->plan;
	size_t cells = plan_cell_count(plan);
	play->tasks = xcalloc(cells * (size_t)plan->repetitions, sizeof *play->tasks);
	for (int64_t block = 1; block <= plan->repetitions; block++) {
		auto_free struct plan_cell *order = plan_block(plan, block);
		for (size_t i = 0; i < cells; i++)
			play->tasks[play->task_count++] =
				(struct task){.block = block, .cell = order[i]};
	}
}

static const struct manifest *manifest_of(const struct play *play, const struct task *task)
{
	return play->plan->contenders[task->cell.contender].manifest;
}

static const struct plan_scenario *scenario_of(const struct play *play, const struct task *task)
{
	return &play->plan->scenarios[task->cell.scenario];
}

/* A run that is to be played (again). */
static bool is_open(const struct task *task)
{
	return !task->valid && task->attempts < ATTEMPTS_MAX;
}

static struct task *find_task(struct play *play, const struct run_record *record)
{
	for (size_t i = 0; i < play->task_count; i++) {
		struct task *task = &play->tasks[i];
		if (task->block == record->block && task->cell.sessions == record->sessions &&
			!strcmp(manifest_of(play, task)->name, record->contender) &&
			!strcmp(scenario_of(play, task)->scenario->name, record->scenario))
			return task;
	}
	return NULL;
}

static void note_result(struct task *task, bool valid, bool ok)
{
	task->attempts++;
	task->valid = valid;
	task->ok = valid && ok;
}

/* Is one of the reasons "NAME: …"? */
static bool has_reason(const json_t *reasons, const char *name)
{
	size_t i, length = strlen(name);
	json_t *reason;
	json_array_foreach((json_t *)reasons, i, reason)
	{
		const char *text = json_string_value(reason);
		if (text && !strncmp(text, name, length) && text[length] == ':')
			return true;
	}
	return false;
}

/* What a results folder has already. */
static int take_records(struct play *play, struct error *err)
{
	struct stat status;
	if (fstat(play->folder.log_fd, &status))
		return error_set(err, errno, "%s: cannot read 'runs.jsonl'", play->folder.path);
	if (!status.st_size)
		return 0;
	auto_results struct results results = {0};
	if (results_read(play->folder.fd, &results, err))
		return error_prefix(err, "%s", play->folder.path);
	for (size_t i = 0; i < results.run_count; i++) {
		const struct run_record *record = &results.runs[i];
		struct task *task = record->warm_up ? NULL : find_task(play, record);
		if (record->run > play->last_run)
			play->last_run = record->run;
		play->recorded++;
		if (task && !has_reason(record->invalid_reasons, "interrupted"))
			note_result(task, record->valid, record->outcome == OUTCOME_OK);
	}
	return 0;
}

/* ---- one run */

static void describe_task(
	const struct play *play, const struct task *task, bool warm_up, char *text, size_t size)
{
	snprintf(text, size, "%s, %" PRId64 " session%s, %s, block %" PRId64 "%s",
		manifest_of(play, task)->name, task->cell.sessions,
		task->cell.sessions == 1 ? "" : "s", scenario_of(play, task)->scenario->name,
		task->block, warm_up ? " (warm-up)" : "");
}

/* A run's schedule as the setup has it: a warm-up has its own. */
static struct run_identity identify(const struct play *play, const struct task *task,
	const struct run_setup *setup, bool warm_up, const char *started_at)
{
	const struct plan *plan = play->plan;
	const struct manifest *manifest = setup->manifest;
	const json_t *machine = json_object_get(play->environment, "machine");
	const json_t *contender =
		json_object_get(json_object_get(play->environment, "contenders"), manifest->name);
	return (struct run_identity){
		.plan_sha256 = plan->sha256,
		.run = play->last_run + 1,
		.block = task->block,
		.run_seed = setup->seed,
		.warm_up = warm_up,
		.contender = manifest->name,
		.track = plan->track,
		.sessions = setup->sessions,
		.scenario = scenario_of(play, task)->scenario->name,
		.turns = setup->scenario->turns,
		.suite_tool = setup->scenario->tool_kind == SCENARIO_TOOLS_TMTOOL,
		.placement = plan->split ? "split" : "shared",
		.mode = play->site.local ? "local" : "container",
		.emulated = json_is_true(json_object_get(machine, "emulated")),
		.machine_cpus = json_integer_value(json_object_get(machine, "cpus_online")),
		.page_bytes = json_integer_value(json_object_get(machine, "page_bytes")),
		.contender_cpus = CPU_COUNT(setup->contender_cpus),
		.bounds = plan->bounds,
		.machine_id = json_string_value(json_object_get(play->environment, "machine_id")),
		.suite_version = TURNMETER_VERSION,
		.executable_sha256 =
			json_string_value(json_object_get(contender, "executable_sha256")),
		.started_at = started_at,
	};
}

static struct run_limits run_limits_of(const struct cgroup_limits *limits)
{
	return (struct run_limits){
		limits->memory_bytes, limits->cpu_quota, *limits->cpus ? limits->cpus : NULL};
}

/* Judge, write the samples, then the record: a record's samples are always there. */
static int keep_record(struct play *play, struct run_identity *identity,
	const struct run_facts *facts, const struct cgroup_limits *asked,
	const struct cgroup_limits *in_force, json_t **record, struct error *err)
{
	identity->asked = run_limits_of(asked);
	identity->in_force = run_limits_of(in_force);
	json_auto_t *made = record_make(identity, facts);
	char name[64];
	snprintf(name, sizeof name, "samples/%" PRId64 ".csv", identity->run);
	if (record_write_samples(play->folder.fd, identity, facts, err))
		return error_prefix(err, "%s", play->folder.path);
	folder_give(&play->folder, "samples");
	folder_give(&play->folder, name);
	if (folder_append_run(&play->folder, made, err))
		return -1;
	play->last_run++;
	play->recorded++;
	*record = json_incref(made);
	return 0;
}

static bool record_is(const json_t *record, const char *outcome)
{
	return !strcmp(json_string_value(json_object_get(record, "outcome")), outcome);
}

static void describe_result(const json_t *record, char *text, size_t size)
{
	const char *outcome = json_string_value(json_object_get(record, "outcome"));
	const char *detail = json_string_value(json_object_get(record, "outcome_detail"));
	const char *reason =
		json_string_value(json_array_get(json_object_get(record, "invalid_reasons"), 0));
	int length = snprintf(
		text, size, "%s%s%s", outcome, detail && *detail ? ": " : "", detail ? detail : "");
	if (reason && length >= 0 && (size_t)length < size)
		snprintf(text + length, size - (size_t)length, "; not valid: %s", reason);
	for (char *c = text; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
}

/* Play one run with this schedule and keep its record: new reference in *record. */
static int play_run(struct play *play, const struct task *task, const struct scenario *scenario,
	const char *model, int64_t sessions, bool warm_up, json_t **record, struct error *err)
{
	struct place *place = &play->site.places[task->cell.contender];
	const json_t *machine = json_object_get(play->environment, "machine");
	struct run_setup setup = {
		.loop = play->loop,
		.launcher = place->launcher,
		.container = &place->container,
		.mock = play->site.mock,
		.mock_port = play->site.mock_port,
		.manifest = manifest_of(play, task),
		.track = play->plan->track,
		.scenario = scenario,
		.model = model,
		.sessions = sessions,
		.seed = plan_run_seed(play->plan, task->block, &task->cell),
		.timeout_s = play->plan->run_timeout_s,
		.report = play->plan->agent_report,
		.asked = &place->asked,
		.machine_swaps = json_integer_value(json_object_get(machine, "swap_bytes")) > 0,
		.page_bytes = json_integer_value(json_object_get(machine, "page_bytes")),
		.contender_cpus = &place->cpus,
		.stop = play->options->site.stop,
	};
	char what[256], result[1024], started_at[CLOCK_LABEL_MAX];
	describe_task(play, task, warm_up, what, sizeof what);
	progress_run(&play->progress, what, scenario_seconds(scenario), warm_up);
	clock_label(CLOCK_STAMP, started_at);
	struct run_facts facts;
	struct cgroup_limits in_force;
	int status = run_play(&setup, &facts, &in_force, err);
	if (!status) {
		struct run_identity identity = identify(play, task, &setup, warm_up, started_at);
		status =
			keep_record(play, &identity, &facts, &place->asked, &in_force, record, err);
	}
	run_facts_release(&facts);
	if (status)
		return -1;
	describe_result(*record, result, sizeof result);
	progress_ran(&play->progress, result, record_is(*record, "ok"),
		json_is_true(json_object_get(*record, "valid")));
	return 0;
}

/* ---- warm-ups */

static void lower_member(json_t *object, const char *name, json_int_t max)
{
	if (json_integer_value(json_object_get(object, name)) > max)
		json_object_set_new(object, name, json_integer(max));
}

/* The scenario's shape, with the same tools and sizes, in a hurry. */
static json_t *warm_up_of(const json_t *scenario)
{
	json_t *warm_up = json_deep_copy(scenario);
	json_object_set_new(warm_up, "name", json_string(SCENARIO_WARM_UP));
	json_object_set_new(warm_up, "ttft_ms", json_pack("{s:i}", "constant", 1));
	json_object_set_new(warm_up, "chunk_interval_ms", json_pack("{s:i}", "constant", 1));
	json_object_set_new(warm_up, "spread_first_ms", json_integer(0));
	lower_member(warm_up, "turns", WARM_UP_TURNS_MAX);
	lower_member(warm_up, "chunks", WARM_UP_CHUNKS_MAX);
	return warm_up;
}

/* The first toucher of a file pays for its page cache: let that be a run that does not count. */
static int warm_up(struct play *play, const struct task *task, struct error *err)
{
	json_auto_t *json = warm_up_of(scenario_of(play, task)->json);
	struct scenario *scenario = scenario_read(json, SCENARIO_WARM_UP, err);
	int64_t sessions = task->cell.sessions < WARM_UP_SESSIONS_MAX ? task->cell.sessions
								      : WARM_UP_SESSIONS_MAX;
	json_t *record = NULL;
	int result = -1;
	if (scenario && !mock_load_scenario(play->site.mock, json, err))
		result = play_run(
			play, task, scenario, SCENARIO_WARM_UP, sessions, true, &record, err);
	scenario_free(scenario);
	json_decref(record);
	if (!result)
		play->warm[task->cell.contender] = true;
	return result;
}

/* ---- the plan */

static bool stopped(const struct play *play)
{
	return *play->options->site.stop;
}

static int play_task(struct play *play, struct task *task, struct error *err)
{
	const struct plan_scenario *scenario = scenario_of(play, task);
	json_t *record = NULL;
	if (site_attach(&play->site, task->cell.contender, err) ||
		(!play->warm[task->cell.contender] && warm_up(play, task, err)))
		return -1;
	if (stopped(play))
		return 0;
	if (play_run(play, task, scenario->scenario, scenario->scenario->name, task->cell.sessions,
		    false, &record, err))
		return -1;
	/* On this machine files do not stay in the cache until a contender's next turn comes. */
	if (has_reason(json_object_get(record, "invalid_reasons"), "refaults"))
		play->forgetful[task->cell.contender] = true;
	/* Out of memory, the kernel has thrown the contender's files out of its cache. */
	if (play->forgetful[task->cell.contender] || record_is(record, "oom"))
		play->warm[task->cell.contender] = false;
	if (!stopped(play))
		note_result(task, json_is_true(json_object_get(record, "valid")),
			record_is(record, "ok"));
	json_decref(record);
	return 0;
}

/* Is it a fault that can pass, so that the plan may go on? */
static bool may_go_on(struct play *play, const struct error *err)
{
	if (stopped(play) || site_mock_ended(&play->site) || err->code == ENOSPC ||
		err->code == EDQUOT || err->code == EROFS || err->code == EFBIG)
		return false;
	return ++play->faults < FAULTS_MAX;
}

/* Play until there is a record, or a fault that does not pass. */
static int insist(struct play *play, struct task *task, struct error *err)
{
	while (play_task(play, task, err)) {
		site_explain(&play->site, err);
		if (!may_go_on(play, err))
			return -1;
		if (play->progress.out)
			fprintf(play->progress.out, "%sonce more: %s\n",
				play->progress.terminal ? "\r\033[K" : "", err->text);
	}
	play->faults = 0;
	return 0;
}

/*
 * The tasks that are open, or of those the ones to be played again. What is not valid comes again
 * in the next pass, as long as there are repeats left: where most is not valid, more of it would
 * not be either.
 */
static int play_pass(struct play *play, bool again, struct error *err)
{
	for (size_t i = 0; i < play->task_count && !stopped(play); i++) {
		struct task *task = &play->tasks[i];
		if (!is_open(task) || (again && !task->again))
			continue;
		task->again = false;
		if (insist(play, task, err))
			return -1;
		if (stopped(play) || !is_open(task) || !play->repeats_left)
			continue;
		task->again = true;
		play->repeats_left--;
		progress_more(&play->progress, scenario_seconds(scenario_of(play, task)->scenario));
	}
	return 0;
}

static int play_all(struct play *play, struct error *err)
{
	play->repeats_left =
		play->task_count / 2 > REPEATS_MIN ? play->task_count / 2 : REPEATS_MIN;
	for (int pass = 0; pass < ATTEMPTS_MAX && !stopped(play); pass++)
		if (play_pass(play, pass > 0, err))
			return -1;
	return 0;
}

static int load_scenarios(struct play *play, struct error *err)
{
	struct error ignored; /* there is a run only if a collector was killed in one */
	json_decref(mock_end(play->site.mock, &ignored));
	for (size_t i = 0; i < play->plan->scenario_count; i++)
		if (mock_load_scenario(play->site.mock, play->plan->scenarios[i].json, err))
			return -1;
	return 0;
}

static double planned_seconds(const struct play *play, int64_t *open)
{
	double sum = 0;
	*open = 0;
	for (size_t i = 0; i < play->task_count; i++) {
		if (!is_open(&play->tasks[i]))
			continue;
		sum += scenario_seconds(scenario_of(play, &play->tasks[i])->scenario);
		++*open;
	}
	return sum;
}

/* ---- results */

static int summarise(struct play *play, struct error *err)
{
	static const char *const names[] = {
		"summary.json", "summary.csv", "summary.md", "report.html"};
	json_auto_t *summary = NULL;
	if (report_write(play->folder.fd, play->folder.path, &summary, err))
		return -1;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		folder_give(&play->folder, names[i]);
	FILE *out = play->options->table;
	if (play->options->json) {
		json_dumpf(summary, out, JSON_INDENT(1) | JSON_REAL_PRECISION(12));
		fputc('\n', out);
	} else {
		auto_free char *table =
			summary_terminal(summary, terminal_has_colour(out), terminal_width(out));
		fprintf(out, "%s\nresults: %s\n", table, play->folder.path);
	}
	fflush(out);
	return 0;
}

static int result_of(const struct play *play)
{
	for (size_t i = 0; i < play->task_count; i++)
		if (!play->tasks[i].ok)
			return PLAY_NOT_OK;
	return PLAY_OK;
}

/* Go on only where it was begun: figures of two machines are never put together. */
static int check_machine(struct play *play, const json_t *now, struct error *err)
{
	const char *then_id = json_string_value(json_object_get(play->environment, "machine_id"));
	const char *now_id = json_string_value(json_object_get(now, "machine_id"));
	if (then_id && !strcmp(then_id, now_id))
		return 0;
	return error_set(err, 0,
		"%s: was begun on another machine or kernel: run the plan again instead",
		play->folder.path);
}

/* The doctor first: a failure ends it here, warnings go with the results. */
static int examine(struct play *play, struct error *err)
{
	const struct play_options *options = play->options;
	struct doctor doctor = {.root = "",
		.cgroup_root = options->site.cgroup_root,
		.cgroup_parent = options->site.cgroup_parent,
		.results = options->resume ? options->resume
			   : options->out  ? options->out
					   : "results",
		.plan = play->plan,
		.containers = options->site.listen};
	auto_free char *prefix = local_prefix(err);
	if (!prefix)
		return -1;
	doctor.prefix = prefix;
	doctor_look(&doctor, DOCTOR_WATCH_NS);
	play->findings = doctor_examine(&doctor);
	doctor_release(&doctor);
	return doctor_first_failure(play->findings, err);
}

/*
 * What the doctor found this time stands beside what it found before the first run, with the number
 * of the run that comes next. An entry that no run followed is replaced.
 */
static int note_resumption(struct play *play, const json_t *now, struct error *err)
{
	json_t *all = json_object_get(play->environment, "resumed");
	if (!json_is_array(all)) {
		all = json_array();
		json_set(play->environment, "resumed", all);
	}
	size_t last = json_array_size(all) - 1; /* of none: not there */
	const json_t *before = json_object_get(json_array_get(all, last), "first_run");
	if (json_integer_value(before) == play->last_run + 1)
		json_array_remove(all, last);
	json_array_append_new(all,
		json_pack("{s:O, s:I, s:O}", "started_at", json_object_get(now, "started_at"),
			"first_run", (json_int_t)play->last_run + 1, "doctor", play->findings));
	return folder_write_json(&play->folder, "environment.json", play->environment, err);
}

static int prepare_results(struct play *play, int64_t open, struct error *err)
{
	json_auto_t *now = survey_make(&play->site, err);
	if (!now)
		return -1;
	if (play->options->resume)
		return check_machine(play, now, err) ||
				       (open > 0 && note_resumption(play, now, err))
			       ? -1
			       : 0;
	json_set(now, "doctor", json_incref(play->findings));
	play->environment = json_incref(now);
	if (folder_make(&play->folder, play->options->out, play->plan->name, err))
		return -1;
	return folder_write_json(&play->folder, "plan.json", play->plan->resolved, err) ||
			       folder_write_json(
				       &play->folder, "environment.json", play->environment, err)
		       ? -1
		       : 0;
}

static void tell_warnings(struct play *play)
{
	size_t i;
	const json_t *finding;
	json_array_foreach(play->findings, i, finding)
	{
		const char *status, *id, *found, *remedy;
		if (json_unpack((json_t *)finding, "{s:s, s:s, s:s, s:s}", "status", &status, "id",
			    &id, "found", &found, "remedy", &remedy) ||
			strcmp(status, "warn"))
			continue;
		auto_buf struct buf line;
		buf_init(&line, 1 << 16);
		buf_addf(&line, "warning: %s: ", id);
		escape_plain(&line, found);
		buf_add_text(&line, ": ");
		escape_plain(&line, remedy);
		fprintf(play->progress.out, "%s\n", line.data);
	}
}

static void tick_due(struct timer *timer)
{
	struct play *play = container_of(timer, struct play, tick);
	progress_tick(&play->progress);
	loop_timer_set(play->loop, timer, now_ns() + TICK_NS);
}

static void tell_estimate(struct play *play, int64_t open, double planned_s)
{
	char left[64];
	progress_begin(&play->progress, play->options->progress, open, planned_s);
	if (!play->progress.out)
		return;
	if (play->progress.terminal) {
		play->tick.expired = tick_due;
		loop_timer_set(play->loop, &play->tick, now_ns() + TICK_NS);
	}
	tell_warnings(play);
	progress_format_time(progress_left_s(&play->progress), left, sizeof left);
	fprintf(play->progress.out, "%s: %" PRId64 " runs, about %s%s%s\n", play->plan->name, open,
		left, play->folder.path ? ", results in " : "",
		play->folder.path ? play->folder.path : "");
}

static int play_plan(struct play *play, struct error *err)
{
	int64_t open;
	double planned_s = planned_seconds(play, &open);
	/* Of containers the claim is with whoever started them. */
	bool local = !play->options->site.listen;
	auto_close int claim =
		local ? claim_take(local_temporary_folder(), play->plan->name, err) : -1;
	if ((local && claim < 0) || examine(play, err) ||
		site_open(&play->site, play->loop, play->plan, &play->options->site, err))
		return -1;
	if (prepare_results(play, open, err)) {
		site_close(&play->site);
		return -1;
	}
	int result = load_scenarios(play, err);
	if (result) {
		site_explain(&play->site, err);
	} else {
		tell_estimate(play, open, planned_s);
		result = play_all(play, err);
		loop_timer_clear(play->loop, &play->tick);
		progress_end(&play->progress);
	}
	site_close(&play->site);
	if (!play->recorded)
		return result ? -1 : error_set(err, 0, "ended before the first run");
	/* What was measured is summarised also when something went wrong. */
	struct error late;
	if (summarise(play, &late) && !result) {
		*err = late;
		result = -1;
	} else if (result) {
		error_prefix(err, "the plan is not complete (collector run --resume %s goes on)",
			play->folder.path);
	}
	return result ? -1 : result_of(play);
}

/* What would be played, without playing it. */
static void print_order(const struct play *play)
{
	FILE *out = play->options->table;
	int64_t open, bytes = plan_results_bytes(play->plan);
	char left[64];
	struct progress progress;
	double planned_s = planned_seconds(play, &open);
	progress_begin(&progress, NULL, open, planned_s);
	progress_format_time(progress_left_s(&progress), left, sizeof left);
	json_auto_t *order = json_array();
	for (size_t i = 0; i < play->task_count; i++) {
		const struct task *task = &play->tasks[i];
		char what[256];
		if (!is_open(task))
			continue;
		describe_task(play, task, false, what, sizeof what);
		if (!play->options->json)
			fprintf(out, "%s\n", what);
		json_array_append_new(order, json_pack("{s:s, s:I, s:s, s:I}", "contender",
						     manifest_of(play, task)->name, "sessions",
						     (json_int_t)task->cell.sessions, "scenario",
						     scenario_of(play, task)->scenario->name,
						     "block", (json_int_t)task->block));
	}
	if (play->options->json) {
		json_auto_t *all = json_pack("{s:s, s:I, s:f, s:I, s:s, s:O}", "plan",
			play->plan->name, "runs", (json_int_t)open, "seconds",
			progress_left_s(&progress), "bytes", (json_int_t)bytes, "plan_sha256",
			play->plan->sha256, "order", order);
		json_dumpf(all, out, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
		fputc('\n', out);
		return;
	}
	fprintf(out, "%" PRId64 " runs, about %s and %.1f MiB of results, plan %s\n", open, left,
		(double)bytes / (1 << 20), play->plan->sha256);
}

/* A plan named beside the results must be the one that they were begun with. */
static int check_same_plan(const struct play *play, const struct plan *begun, struct error *err)
{
	if (!play->options->plan_path)
		return 0;
	struct plan *named =
		plan_read_file(play->options->plan_path, &play->options->overrides, err);
	if (!named)
		return -1;
	bool same = !strcmp(named->sha256, begun->sha256);
	plan_free(named);
	return same ? 0
		    : error_set(err, 0,
			      "%s: is not the plan that '%s' was begun with: leave it out",
			      play->options->plan_path, play->options->resume);
}

/* The plan of a results folder; its contenders' folders come from environment.json. */
static struct plan *reopen(struct play *play, struct error *err)
{
	auto_free char *plan_path = xasprintf("%s/plan.json", play->options->resume);
	auto_free char *environment_path = xasprintf("%s/environment.json", play->options->resume);
	if (folder_open(&play->folder, play->options->resume, err))
		return NULL;
	json_t *resolved = json_read_file(plan_path, err);
	struct plan *plan = resolved ? plan_read_resolved(resolved, plan_path, err) : NULL;
	play->environment = plan && !check_same_plan(play, plan, err)
				    ? json_read_file(environment_path, err)
				    : NULL;
	if (!play->environment) {
		plan_free(plan);
		return NULL;
	}
	for (size_t i = 0; i < plan->contender_count; i++) {
		const char *here = json_string_value(json_object_get(
			json_object_get(json_object_get(play->environment, "contenders"),
				plan->contenders[i].manifest->name),
			"here"));
		plan->contenders[i].here = here ? xstrdup(here) : NULL;
	}
	return plan;
}

/* Is it the machine's or a matter of rights? Everything else about a folder of results is bad
 * input. */
static bool is_fault(const struct error *err)
{
	switch (err->code) {
	case EACCES:
	case EBUSY:
	case EDQUOT:
	case EIO:
	case EMFILE:
	case ENFILE:
	case ENOSPC:
	case EPERM:
	case EROFS:
		return true;
	default:
		return false;
	}
}

int play(struct loop *loop, const struct play_options *options, bool *bad_input, struct error *err)
{
	struct play play = {.options = options, .loop = loop, .folder = FOLDER_EMPTY};
	struct plan *plan = options->resume
				    ? reopen(&play, err)
				    : plan_read_file(options->plan_path, &options->overrides, err);
	int result = -1;
	*bad_input = !plan && !(options->resume && is_fault(err));
	play.plan = plan;
	if (plan) {
		make_tasks(&play);
		play.warm = xcalloc(plan->contender_count, sizeof *play.warm);
		play.forgetful = xcalloc(plan->contender_count, sizeof *play.forgetful);
		if (options->resume && take_records(&play, err))
			*bad_input = true;
		else if (options->dry_run)
			print_order(&play), result = PLAY_OK;
		else
			result = play_plan(&play, err);
	}
	folder_close(&play.folder);
	json_decref(play.environment);
	json_decref(play.findings);
	free(play.tasks);
	free(play.warm);
	free(play.forgetful);
	plan_free(plan);
	return result;
}
