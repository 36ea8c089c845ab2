#include "collector/run.h"

#include "collector/cgroup_figures.h"
#include "collector/contender.h"
#include "collector/cpu_points.h"
#include "collector/launch.h"
#include "collector/limits.h"
#include "collector/manifest.h"
#include "collector/machine.h"
#include "collector/mock_client.h"
#include "collector/output.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/json.h"
#include "common/loop.h"
#include "common/scenario.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>

static const int64_t MEMORY_SAMPLE_NS = 100 * NS_PER_MS;
/* After the barrier there is nothing left to do but to exit. */
static const int64_t EXIT_GRACE_NS = 10 * NS_PER_S;
/* A tool that was killed at the very end may still be on its way out. */
static const int64_t LEFTOVER_GRACE_NS = 50 * NS_PER_MS;
static const int64_t KILL_TIMEOUT_NS = 10 * NS_PER_S;
/* Below this, /proc/stat's steps of 10 ms say nothing about shares of the time. */
static const int64_t OTHER_LOAD_MIN_NS = NS_PER_S;

enum { SPARE_LINES = 64 };

#define PROMPT_FILE "system_prompt.txt"

struct run {
	const struct run_setup *setup;
	struct run_facts *facts;
	struct cgroup leaf;
	char leaf_name[64];
	pid_t pid; /* in our namespace */
	clockid_t cpu_clock;
	bool has_cpu_clock;
	int fds[LAUNCH_FDS];
	struct source pidfd, out, err_out;
	struct timer sample, deadline;
	struct output output;
	int64_t go_ns, memory_due_ns;
	struct cpu_points points;
	int64_t swap_peak_bytes; /* FACT_MISSING: not read, on a machine that swaps */
	bool mock_begun, spawned;
	bool released; /* stdin was closed */
	bool over, forced;
	struct launch_exited exited;
	struct cgroup_events leaf_events, container_events; /* before */
	struct cgroup_throttling throttling;                /* before */
	struct machine_times times;                         /* before */
	bool has_container_events, has_throttling, has_times;
};

/* ---- samples */

static void add_point(struct run *run)
{
	struct cgroup_cpu cpu;
	struct timespec fresh;
	int64_t at_ns = now_ns();
	/* A running task is charged at its next tick, or when somebody asks for its clock. */
	if (run->has_cpu_clock)
		clock_gettime(run->cpu_clock, &fresh);
	struct error ignored; /* the final reading tells */
	if (cgroup_get_cpu(&run->leaf, &cpu, &ignored))
		return;
	cpu_points_add(&run->points, at_ns, &cpu);
}

static void add_memory_sample(struct run *run)
{
	struct run_facts *facts = run->facts;
	struct memory_sample sample;
	struct error ignored; /* no sample at all becomes a missing fact */
	int64_t swap_bytes;
	if (cgroup_get_memory(&run->leaf, &sample, &ignored))
		return;
	facts->memory_samples++;
	if (facts->at_peak.total_bytes == FACT_MISSING ||
		sample.total_bytes > facts->at_peak.total_bytes)
		facts->at_peak = sample;
	if (run->setup->machine_swaps && !cgroup_get_swap(&run->leaf, &swap_bytes, &ignored) &&
		swap_bytes > run->swap_peak_bytes)
		run->swap_peak_bytes = swap_bytes;
}

/* ---- ending a run */

/* Kill all of it. Without cgroup.kill a collector of no privilege may not, but the launcher may. */
static void kill_all(struct run *run)
{
	struct error ignored; /* a process that stays is found when the leaf is removed */
	if (!cgroup_can_kill(&run->leaf))
		launcher_kill(run->setup->launcher, &ignored);
	cgroup_kill(&run->leaf, &ignored);
}

static void force_end(struct run *run)
{
	run->over = run->forced = true;
	kill_all(run);
}

static void deadline_passed(struct timer *timer)
{
	struct run *run = container_of(timer, struct run, deadline);
	run->facts->timed_out = !run->released;
	force_end(run);
}

/* The barrier: every session has ended, the contender waits. Read its memory, then let it go. */
static void at_barrier(struct run *run)
{
	struct run_facts *facts = run->facts;
	struct launch_probe probe;
	struct error err;
	facts->done_ns = now_ns();
	add_memory_sample(run); /* a short run has had none yet */
	if (launcher_probe(run->setup->launcher, &probe, &err)) {
		run_facts_miss(facts, "rss_peak_bytes", err.text);
		run_facts_miss(facts, "pss_bytes", err.text);
	} else {
		facts->processes_at_barrier = probe.processes;
		if (probe.rss_peak_bytes >= 0)
			facts->rss_peak_bytes = probe.rss_peak_bytes;
		else
			run_facts_miss(
				facts, "rss_peak_bytes", "VmHWM of a process could not be read");
		if (probe.pss_bytes >= 0)
			facts->pss_bytes = probe.pss_bytes;
		else
			run_facts_miss(
				facts, "pss_bytes", "smaps_rollup of a process could not be read");
	}
	close(steal_fd(&run->fds[LAUNCH_FD_STDIN]));
	run->released = true;
	int64_t latest_ns = now_ns() + EXIT_GRACE_NS;
	if (run->deadline.deadline_ns > latest_ns)
		loop_timer_set(run->setup->loop, &run->deadline, latest_ns);
	/* The probe's answer may have come after the end of the process. */
	run->over |= launcher_exited(run->setup->launcher, &run->exited);
}

static void out_ready(struct source *source, uint32_t events)
{
	struct run *run = container_of(source, struct run, out);
	(void)events;
	enum drained drained = output_read_stdout(&run->output, source->fd);
	if (run->output.flooded) {
		force_end(run);
		return;
	}
	if (run->facts->done_ns == FACT_MISSING && output_has_done(&run->output))
		at_barrier(run);
	if (drained == DRAINED_END)
		loop_remove(run->setup->loop, source);
}

static void err_ready(struct source *source, uint32_t events)
{
	struct run *run = container_of(source, struct run, err_out);
	(void)events;
	if (output_read_stderr(&run->output, source->fd) == DRAINED_END)
		loop_remove(run->setup->loop, source);
}

static void pidfd_ready(struct source *source, uint32_t events)
{
	struct run *run = container_of(source, struct run, pidfd);
	(void)events;
	run->facts->exit_ns = now_ns();
	loop_remove(run->setup->loop, source);
}

static void launcher_changed(void *context)
{
	struct run *run = context;
	if (run->facts->exit_ns == FACT_MISSING)
		run->facts->exit_ns = now_ns();
	run->over |= launcher_lost(run->setup->launcher) ||
		     launcher_exited(run->setup->launcher, &run->exited);
}

/* ---- when samples are due */

static void sample_due(struct timer *timer)
{
	struct run *run = container_of(timer, struct run, sample);
	add_point(run);
	int64_t at_ns = now_ns();
	if (at_ns >= run->memory_due_ns) {
		add_memory_sample(run);
		run->memory_due_ns += MEMORY_SAMPLE_NS;
	}
	int64_t next_ns = cpu_point_next_ns(run->go_ns, at_ns);
	if (next_ns > run->memory_due_ns)
		next_ns = run->memory_due_ns;
	loop_timer_set(run->setup->loop, &run->sample, next_ns);
}

/* ---- setting a run up */

static void add_number(json_t *all, const char *name, int64_t value)
{
	char text[32];
	snprintf(text, sizeof text, "%" PRId64, value);
	contender_set(all, name, text);
}

static json_t *contract_environment(const struct run_setup *setup, const char *task)
{
	json_t *all = contender_environment(setup->launcher, setup->manifest, setup->track);
	char url[64];
	snprintf(url, sizeof url, "http://127.0.0.1:%" PRId64 "/v1", setup->mock_port);
	auto_free char *prompt = xasprintf("%s/" PROMPT_FILE, launcher_scratch(setup->launcher));
	contender_set(all, "AGENT_CONTRACT", "1");
	contender_set(all, "OPENAI_BASE_URL", url);
	contender_set(all, "OPENAI_API_KEY", "sk-turnmeter");
	contender_set(all, "OPENAI_MODEL", setup->model);
	add_number(all, "AGENT_SESSIONS", setup->sessions);
	contender_set(all, "AGENT_SYSTEM_PROMPT_FILE", prompt);
	contender_set(all, "AGENT_TASK", task);
	if (setup->report)
		contender_set(all, "AGENT_REPORT", "1");
	return all;
}

static int make_leaf(struct run *run, struct cgroup_limits *in_force, struct error *err)
{
	const struct run_setup *setup = run->setup;
	struct cgroup_limits memory_only = {setup->asked->memory_bytes, FACT_MISSING, 0, ""};
	if (cgroup_make_leaf(&run->leaf, setup->container, run->leaf_name, err))
		return -1;
	if (cgroup_set_limits(&run->leaf, &memory_only, err) ||
		limits_in_force(&run->leaf, setup->container, setup->launcher, in_force, err))
		return -1;
	run->facts->backend = cgroup_backend_of(&run->leaf);
	run->facts->memory_limit_bytes = in_force->memory_bytes;
	run->facts->limits_in_force = limits_match(setup->asked, in_force, setup->machine_swaps,
		setup->page_bytes, run->facts->limits_detail, sizeof run->facts->limits_detail);
	return 0;
}

static int set_up(struct run *run, struct cgroup_limits *in_force, struct error *err)
{
	const struct run_setup *setup = run->setup;
	if (launcher_clean(setup->launcher, err))
		return -1;
	json_auto_t *begun =
		mock_begin(setup->mock, setup->model, setup->sessions, setup->seed, err);
	if (!begun)
		return -1;
	run->mock_begun = true;
	const json_t *prompt = json_object_get(begun, "system_prompt");
	if (launcher_write_file(setup->launcher, PROMPT_FILE, json_string_value(prompt),
		    json_string_length(prompt), err) ||
		make_leaf(run, in_force, err))
		return -1;
	json_auto_t *environment =
		contract_environment(setup, json_string_value(json_object_get(begun, "task")));
	if (contender_spawn(setup->launcher, setup->manifest->command, environment, run->fds, err))
		return -1;
	run->spawned = true;
	if (pidfd_pid(run->fds[LAUNCH_FD_PID], &run->pid, err) ||
		cgroup_attach(&run->leaf, run->pid, err))
		return -1;
	run->has_cpu_clock = !clock_getcpuclockid(run->pid, &run->cpu_clock);
	return 0;
}

static void look_before(struct run *run)
{
	struct error ignored; /* asked again afterwards, where the reason is kept */
	run->has_container_events =
		!cgroup_get_events(run->setup->container, &run->container_events, &ignored);
	run->has_throttling =
		!cgroup_get_throttling(run->setup->container, &run->throttling, &ignored);
	run->has_times =
		!machine_times("/proc/stat", run->setup->contender_cpus, &run->times, &ignored);
}

static int watch(struct run *run, struct error *err)
{
	struct loop *loop = run->setup->loop;
	run->pidfd.ready = pidfd_ready;
	run->out.ready = out_ready;
	run->err_out.ready = err_ready;
	run->sample.expired = sample_due;
	run->deadline.expired = deadline_passed;
	launcher_watch(run->setup->launcher, launcher_changed, run);
	return loop_add(loop, &run->pidfd, run->fds[LAUNCH_FD_PID], EPOLLIN, err) ||
			       loop_add(
				       loop, &run->out, run->fds[LAUNCH_FD_STDOUT], EPOLLIN, err) ||
			       loop_add(loop, &run->err_out, run->fds[LAUNCH_FD_STDERR], EPOLLIN,
				       err)
		       ? -1
		       : 0;
}

static void unwatch(struct run *run)
{
	struct loop *loop = run->setup->loop;
	loop_remove(loop, &run->pidfd);
	loop_remove(loop, &run->out);
	loop_remove(loop, &run->err_out);
	loop_timer_clear(loop, &run->sample);
	loop_timer_clear(loop, &run->deadline);
	launcher_watch(run->setup->launcher, NULL, NULL);
}

static int observe(struct run *run, struct error *err)
{
	const struct run_setup *setup = run->setup;
	if (watch(run, err))
		return -1;
	look_before(run);
	add_point(run);
	run->go_ns = now_ns();
	run->memory_due_ns = run->go_ns + MEMORY_SAMPLE_NS;
	loop_timer_set(setup->loop, &run->sample, cpu_point_next_ns(run->go_ns, run->go_ns));
	loop_timer_set(setup->loop, &run->deadline, run->go_ns + setup->timeout_s * NS_PER_S);
	if (write(run->fds[LAUNCH_FD_GO], "", 1) != 1)
		return error_set(err, errno, "cannot start '%s'", setup->manifest->name);
	while (!run->over) {
		if (loop_once(setup->loop, -1, err))
			return -1;
		if (*setup->stop && !run->over) {
			run->facts->interrupted = true;
			force_end(run);
		}
	}
	return 0;
}

/* ---- after the end */

/* Wait for the launcher to tell the end, which it does once it has reaped the process. */
static int await_exited(struct run *run, struct error *err)
{
	struct launcher *launcher = run->setup->launcher;
	int64_t deadline_ns = now_ns() + KILL_TIMEOUT_NS;
	while (!launcher_exited(launcher, &run->exited)) {
		int64_t left_ns = deadline_ns - now_ns();
		if (launcher_lost(launcher))
			return error_set(err, 0,
				"lost the launcher of '%s': its container has ended, or it was "
				"killed",
				run->setup->manifest->name);
		if (left_ns <= 0)
			return error_set(
				err, 0, "'%s' cannot be ended", run->setup->manifest->name);
		if (loop_once(run->setup->loop, left_ns, err))
			return -1;
	}
	return 0;
}

static void count_leftovers(struct run *run)
{
	struct error err;
	cgroup_wait_empty(&run->leaf, LEFTOVER_GRACE_NS, &err);
	int64_t count = cgroup_count(&run->leaf, &err);
	if (count >= 0)
		run->facts->leftover_processes = count;
	else
		run_facts_miss(run->facts, "leftover_processes", err.text);
}

static void take_end(struct run *run)
{
	struct run_facts *facts = run->facts;
	int32_t code = 0;
	bool refused = read(run->fds[LAUNCH_FD_STATUS], &code, sizeof code) == sizeof code;
	facts->started = !refused && run->exited.spawn_ns > 0;
	facts->exec_errno = refused ? code : 0;
	if (facts->started)
		facts->spawn_ns = run->exited.spawn_ns;
	else
		run_facts_miss(facts, "spawn_ns", "the program did not start");
	facts->exited = !run->forced;
	facts->exit_status = run->exited.status;
	if (facts->exit_ns == FACT_MISSING)
		facts->exit_ns = now_ns();
	if (facts->started)
		facts->wall_usec = (facts->exit_ns - facts->spawn_ns) / 1000;
	if (facts->done_ns == FACT_MISSING) {
		static const char *const at_barrier[] = {
			"done_ns", "rss_peak_bytes", "pss_bytes", "processes_at_barrier"};
		for (size_t i = 0; i < sizeof at_barrier / sizeof *at_barrier; i++)
			run_facts_miss(
				facts, at_barrier[i], "the program did not come to the barrier");
	}
}

static void take_memory(struct run *run)
{
	struct run_facts *facts = run->facts;
	struct error err;
	if (facts->backend == CGROUP_V2_SAMPLED) {
		facts->memory_peak_bytes = facts->at_peak.total_bytes;
		if (!facts->memory_samples)
			run_facts_miss(facts, "memory_peak_bytes",
				"there is no memory.peak, and the run ended before it was sampled");
	} else if (cgroup_get_peak(&run->leaf, &facts->memory_peak_bytes, &err)) {
		run_facts_miss(facts, "memory_peak_bytes", err.text);
	}
	if (!facts->memory_samples)
		run_facts_miss(facts, "at_peak", "the run ended before its memory was sampled");
	if (cgroup_get_refaults(&run->leaf, &facts->refault_events, &err))
		run_facts_miss(facts, "refault_events", err.text);
	facts->swap_peak_bytes = run->swap_peak_bytes;
	if (facts->swap_peak_bytes == FACT_MISSING)
		run_facts_miss(facts, "swap_peak_bytes", "the leaf's swap could not be read");
}

static void take_cpu(struct run *run)
{
	struct run_facts *facts = run->facts;
	struct cgroup_cpu cpu;
	struct error err;
	if (cgroup_get_cpu(&run->leaf, &cpu, &err)) {
		run_facts_miss(facts, "cpu_usage_usec", err.text);
		return;
	}
	facts->cpu_usage_usec = cpu.usage_usec;
	facts->cpu_user_usec = cpu.user_usec;
	facts->cpu_system_usec = cpu.system_usec;
}

/* Out of memory at the container's limit shows "oom" there and "oom_kill" in the leaf. */
static void take_events(struct run *run)
{
	struct run_facts *facts = run->facts;
	struct cgroup_events leaf, container;
	struct error err;
	if (cgroup_get_events(&run->leaf, &leaf, &err)) {
		run_facts_miss(facts, "oom_events", err.text);
		run_facts_miss(facts, "oom_kill_events", err.text);
		return;
	}
	facts->oom_events = leaf.oom;
	facts->oom_kill_events = leaf.oom_kill;
	if (leaf.oom == FACT_MISSING)
		run_facts_miss(facts, "oom_events", "cgroup v1 counts kills only");
	if (!run->has_container_events ||
		cgroup_get_events(run->setup->container, &container, &err))
		return;
	int64_t oom = container.oom - run->container_events.oom;
	int64_t oom_kill = container.oom_kill - run->container_events.oom_kill;
	if (leaf.oom != FACT_MISSING && oom > leaf.oom)
		facts->oom_events = oom;
	if (oom_kill > leaf.oom_kill)
		facts->oom_kill_events = oom_kill;
}

static void take_pressure(struct run *run, const char *what, const char *field, int64_t *usec)
{
	struct error err;
	if (cgroup_get_pressure(&run->leaf, what, usec, &err))
		run_facts_miss(run->facts, field, err.text);
}

static void take_machine(struct run *run)
{
	struct run_facts *facts = run->facts;
	struct cgroup_throttling throttling;
	struct machine_times times;
	struct error err = {0};
	if (!run->has_throttling ||
		cgroup_get_throttling(run->setup->container, &throttling, &err)) {
		run_facts_miss(facts, "throttled_usec", *err.text ? err.text : "not readable");
		run_facts_miss(facts, "nr_throttled", *err.text ? err.text : "not readable");
	} else {
		facts->throttled_usec = throttling.throttled_usec - run->throttling.throttled_usec;
		facts->nr_throttled = throttling.nr_throttled - run->throttling.nr_throttled;
	}
	err.text[0] = '\0';
	if (!run->has_times ||
		machine_times("/proc/stat", run->setup->contender_cpus, &times, &err)) {
		run_facts_miss(facts, "steal_usec", *err.text ? err.text : "not readable");
		run_facts_miss(facts, "other_load_usec", *err.text ? err.text : "not readable");
		return;
	}
	facts->steal_usec = times.steal_usec - run->times.steal_usec;
	if (now_ns() - run->go_ns < OTHER_LOAD_MIN_NS) {
		run_facts_miss(facts, "other_load_usec",
			"the run was too short for the 10 ms steps of /proc/stat");
	} else if (facts->cpu_usage_usec != FACT_MISSING) {
		int64_t other = times.busy_usec - run->times.busy_usec - facts->cpu_usage_usec;
		facts->other_load_usec = other > 0 ? other : 0;
	} else {
		run_facts_miss(facts, "other_load_usec", "the leaf's CPU time is not known");
	}
}

/* Earliest headers_ns of the ledger; FACT_MISSING if there is none. */
static int64_t first_request_ns(const json_t *ledger)
{
	size_t column = SIZE_MAX, i;
	json_t *item;
	json_array_foreach(json_object_get(ledger, "columns"), i,
		item) if (json_is_string(item) && !strcmp(json_string_value(item), "headers_ns"))
		column = i;
	int64_t first_ns = FACT_MISSING;
	json_array_foreach(json_object_get(ledger, "rows"), i, item)
	{
		const json_t *value = json_array_get(item, column);
		if (json_is_integer(value) &&
			(first_ns == FACT_MISSING || json_integer_value(value) < first_ns))
			first_ns = json_integer_value(value);
	}
	return first_ns;
}

static void take_cpu_at_first_request(struct run *run)
{
	struct run_facts *facts = run->facts;
	int64_t at_ns = first_request_ns(facts->ledger);
	struct cgroup_cpu cpu;
	if (at_ns == FACT_MISSING) {
		run_facts_miss(facts, "cpu_at_first_request_usec", "the mock saw no request");
	} else if (cpu_points_at(&run->points, at_ns, &cpu)) {
		run_facts_miss(facts, "cpu_at_first_request_usec",
			"the leaf's CPU time could not be read");
	} else {
		facts->cpu_at_first_request_usec = cpu.usage_usec;
		facts->cpu_user_at_first_request_usec = cpu.user_usec;
		facts->cpu_system_at_first_request_usec = cpu.system_usec;
	}
}

/* What came before the last writer was killed. */
static void take_output(struct run *run)
{
	struct output *output = &run->output;
	while (!output->flooded &&
		output_read_stdout(output, run->fds[LAUNCH_FD_STDOUT]) == DRAINED_MORE)
		continue;
	while (output_read_stderr(output, run->fds[LAUNCH_FD_STDERR]) == DRAINED_MORE)
		continue;
	output_take(output, run->facts);
}

/* The process has ended: look at what it left, end that too, read everything. */
static int conclude(struct run *run, struct error *err)
{
	struct run_facts *facts = run->facts;
	if (await_exited(run, err))
		return -1;
	count_leftovers(run);
	kill_all(run);
	if (cgroup_wait_empty(&run->leaf, KILL_TIMEOUT_NS, err))
		return error_prefix(err, "'%s'", run->setup->manifest->name);
	take_end(run);
	take_output(run);
	add_point(run);
	take_memory(run);
	take_cpu(run);
	take_events(run);
	take_pressure(run, "cpu", "pressure_cpu_usec", &facts->pressure_cpu_usec);
	take_pressure(run, "memory", "pressure_memory_usec", &facts->pressure_memory_usec);
	take_pressure(run, "io", "pressure_io_usec", &facts->pressure_io_usec);
	take_machine(run);
	return 0;
}

static int take_ledger(struct run *run, struct error *err)
{
	run->mock_begun = false;
	run->facts->ledger = mock_end(run->setup->mock, err);
	if (!run->facts->ledger)
		return -1;
	take_cpu_at_first_request(run);
	return 0;
}

/* Leave nothing, whatever happened before. */
static int clean_up(struct run *run, struct error *err)
{
	struct launcher *launcher = run->setup->launcher;
	struct error ignored; /* the next run cleans again, and tells */
	int result = 0;
	unwatch(run);
	contender_close(run->fds);
	if (*run->leaf_name && cgroup_remove(run->setup->container, run->leaf_name, err))
		result = -1;
	cgroup_close(&run->leaf);
	if (run->mock_begun)
		json_decref(mock_end(run->setup->mock, &ignored));
	if (!launcher_lost(launcher))
		launcher_clean(launcher, &ignored);
	output_release(&run->output);
	cpu_points_release(&run->points);
	return result;
}

int run_play(const struct run_setup *setup, struct run_facts *facts, struct cgroup_limits *in_force,
	struct error *err)
{
	int64_t lines = setup->sessions * (setup->scenario->turns + 1) + SPARE_LINES;
	struct run run = {.setup = setup,
		.facts = facts,
		.leaf = CGROUP_EMPTY,
		.fds = {-1, -1, -1, -1, -1, -1},
		.swap_peak_bytes = setup->machine_swaps ? FACT_MISSING : 0,
		.pidfd = {.fd = -1},
		.out = {.fd = -1},
		.err_out = {.fd = -1}};
	output_init(&run.output, lines);
	run_facts_init(facts);
	*in_force = (struct cgroup_limits){FACT_MISSING, FACT_MISSING, 0, ""};
	int result = -1;
	if (!set_up(&run, in_force, err) && !observe(&run, err) && !conclude(&run, err))
		result = take_ledger(&run, err);
	else if (run.spawned && !launcher_lost(setup->launcher))
		/* Where GO was never given, closing it ends the child too. */
		kill_all(&run);
	struct error late;
	if (clean_up(&run, &late) && !result) {
		*err = late;
		result = -1;
	}
	return result;
}
