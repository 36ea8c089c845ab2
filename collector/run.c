#include "collector/run.h"

#include "collector/launch.h"
#include "collector/manifest.h"
#include "collector/machine.h"
#include "collector/mock_client.h"
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
static const int64_t VERSION_TIMEOUT_NS = 20 * NS_PER_S;
/* Below this, /proc/stat's steps of 10 ms say nothing about shares of the time. */
static const int64_t OTHER_LOAD_MIN_NS = NS_PER_S;

enum {
	LINE_MAX_BYTES = 512, /* of the contract */
	SPARE_LINES = 64,
	AGENT_ERRORS_MAX = 20,
	STDERR_READ_MAX = 64 << 20, /* beyond this nobody reads on, and the writer waits */
	STDERR_KEPT = 64 << 10,
};

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
	struct buf out_text, err_text;
	size_t out_scanned, err_total;
	int64_t go_ns, memory_due_ns;
	struct cpu_point *points;
	size_t point_count, point_capacity;
	int64_t swap_peak_bytes;
	bool mock_begun, spawned;
	bool released; /* stdin was closed */
	bool over, forced;
	struct launch_exited exited;
	struct cgroup_events leaf_events, container_events; /* before */
	struct cgroup_throttling throttling;                /* before */
	struct machine_times times;                         /* before */
	bool has_container_events, has_throttling, has_times;
};

/* ---- facts */

static void miss(struct run_facts *facts, const char *field, const char *reason)
{
	json_object_set_new(facts->missing, field, json_text(reason, 400));
}

static void facts_init(struct run_facts *facts)
{
	*facts = (struct run_facts){
		.spawn_ns = FACT_MISSING,
		.exit_ns = FACT_MISSING,
		.done_ns = FACT_MISSING,
		.leftover_processes = FACT_MISSING,
		.agent_turns = json_array(),
		.agent_errors = json_array(),
		.memory_peak_bytes = FACT_MISSING,
		.memory_limit_bytes = FACT_MISSING,
		.at_peak = {FACT_MISSING, FACT_MISSING, FACT_MISSING, FACT_MISSING, FACT_MISSING,
			FACT_MISSING, FACT_MISSING},
		.cpu_usage_usec = FACT_MISSING,
		.cpu_user_usec = FACT_MISSING,
		.cpu_system_usec = FACT_MISSING,
		.cpu_at_first_request_usec = FACT_MISSING,
		.cpu_user_at_first_request_usec = FACT_MISSING,
		.cpu_system_at_first_request_usec = FACT_MISSING,
		.oom_events = FACT_MISSING,
		.oom_kill_events = FACT_MISSING,
		.refault_events = FACT_MISSING,
		.swap_peak_bytes = FACT_MISSING,
		.throttled_usec = FACT_MISSING,
		.nr_throttled = FACT_MISSING,
		.pressure_cpu_usec = FACT_MISSING,
		.pressure_memory_usec = FACT_MISSING,
		.pressure_io_usec = FACT_MISSING,
		.rss_peak_bytes = FACT_MISSING,
		.pss_bytes = FACT_MISSING,
		.processes_at_barrier = FACT_MISSING,
		.steal_usec = FACT_MISSING,
		.other_load_usec = FACT_MISSING,
		.wall_usec = FACT_MISSING,
		.missing = json_object(),
	};
}

void run_facts_release(struct run_facts *facts)
{
	json_decref(facts->agent_turns);
	json_decref(facts->agent_errors);
	json_decref(facts->ledger);
	json_decref(facts->missing);
	facts->agent_turns = facts->agent_errors = facts->ledger = facts->missing = NULL;
}

/* ---- the contender's output */

static bool is_event(const json_t *event, const char *name)
{
	const char *value = json_string_value(json_object_get(event, "event"));
	return value && !strcmp(value, name);
}

static void read_line(const char *line, size_t length, struct run_facts *facts)
{
	json_t *event = json_loadb(line, length, JSON_REJECT_DUPLICATES, NULL);
	if (is_event(event, "turn"))
		json_array_append(facts->agent_turns, event);
	else if (is_event(event, "error") &&
		 json_array_size(facts->agent_errors) < AGENT_ERRORS_MAX)
		json_array_append(facts->agent_errors, event);
	else if (!is_event(event, "error") && !is_event(event, "done"))
		facts->stdout_bad_lines++;
	json_decref(event);
}

void stdout_lines_read(const char *text, size_t length, struct run_facts *facts)
{
	for (size_t at = 0; at < length;) {
		const char *end = memchr(text + at, '\n', length - at);
		size_t size = end ? (size_t)(end - text) - at : length - at;
		if (!end || size >= LINE_MAX_BYTES)
			facts->stdout_bad_lines++;
		else
			read_line(text + at, size, facts);
		at += size + 1;
	}
}

/* Is there the line {"event":"done"} in what came since the last look? */
static bool find_done(struct run *run)
{
	const struct buf *text = &run->out_text;
	bool found = false;
	for (;;) {
		const char *line = text->data + run->out_scanned;
		const char *end = memchr(line, '\n', text->length - run->out_scanned);
		if (!end)
			return found;
		size_t length = (size_t)(end - line);
		run->out_scanned += length + 1;
		/* Turn lines are left for later: the run is being measured. */
		if (length >= 64 || !memmem(line, length, "\"done\"", 6))
			continue;
		json_t *event = json_loadb(line, length, JSON_REJECT_DUPLICATES, NULL);
		found |= is_event(event, "done");
		json_decref(event);
	}
}

static void add_stderr(struct run *run, const char *bytes, size_t length)
{
	run->err_total += length;
	size_t keep = sizeof run->facts->stderr_tail - 1;
	if (run->err_text.length + length > STDERR_KEPT && run->err_text.length > keep)
		buf_drop(&run->err_text, run->err_text.length - keep);
	buf_add(&run->err_text, bytes, length);
}

static void take_stderr_tail(struct run *run)
{
	char *tail = run->facts->stderr_tail;
	size_t size = sizeof run->facts->stderr_tail - 1;
	size_t length = run->err_text.length < size ? run->err_text.length : size;
	if (length)
		memcpy(tail, run->err_text.data + run->err_text.length - length, length);
	tail[length] = '\0';
	for (size_t i = 0; i < length; i++)
		if ((tail[i] >= 0 && tail[i] < ' ' && tail[i] != '\n') || tail[i] == 0x7f)
			tail[i] = '?';
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
	if (launcher_probe(run->setup->launcher, &probe, &err)) {
		miss(facts, "rss_peak_bytes", err.text);
		miss(facts, "pss_bytes", err.text);
	} else {
		facts->processes_at_barrier = probe.processes;
		if (probe.rss_peak_bytes >= 0)
			facts->rss_peak_bytes = probe.rss_peak_bytes;
		else
			miss(facts, "rss_peak_bytes", "VmHWM of a process could not be read");
		if (probe.pss_bytes >= 0)
			facts->pss_bytes = probe.pss_bytes;
		else
			miss(facts, "pss_bytes", "smaps_rollup of a process could not be read");
	}
	close(steal_fd(&run->fds[LAUNCH_FD_STDIN]));
	run->released = true;
	int64_t latest_ns = now_ns() + EXIT_GRACE_NS;
	if (run->deadline.deadline_ns > latest_ns)
		loop_timer_set(run->setup->loop, &run->deadline, latest_ns);
	/* The probe's answer may have come after the end of the process. */
	run->over |= launcher_exited(run->setup->launcher, &run->exited);
}

enum drained { DRAINED_MORE, DRAINED_EMPTY, DRAINED_END };

static enum drained read_some(int fd, char *bytes, size_t size, ssize_t *got)
{
	*got = read(fd, bytes, size);
	if (*got < 0)
		return errno == EINTR ? DRAINED_MORE
				      : (errno == EAGAIN ? DRAINED_EMPTY : DRAINED_END);
	return *got ? DRAINED_MORE : DRAINED_END;
}

/* Read what is there, a piece for each call, so that no writer keeps the loop. */
static enum drained drain_out(struct run *run)
{
	char bytes[65536];
	ssize_t got;
	enum drained drained = read_some(run->fds[LAUNCH_FD_STDOUT], bytes, sizeof bytes, &got);
	if (got <= 0)
		return drained;
	run->facts->stdout_bytes += got;
	run->facts->stdout_flooded = buf_add(&run->out_text, bytes, (size_t)got);
	return run->facts->stdout_flooded ? DRAINED_END : DRAINED_MORE;
}

static enum drained drain_err(struct run *run)
{
	char bytes[16384];
	ssize_t got;
	enum drained drained = read_some(run->fds[LAUNCH_FD_STDERR], bytes, sizeof bytes, &got);
	if (got > 0)
		add_stderr(run, bytes, (size_t)got);
	return run->err_total < STDERR_READ_MAX ? drained : DRAINED_END;
}

static void out_ready(struct source *source, uint32_t events)
{
	struct run *run = container_of(source, struct run, out);
	(void)events;
	enum drained drained = drain_out(run);
	if (run->facts->stdout_flooded) {
		force_end(run);
		return;
	}
	if (run->out_text.length && run->facts->done_ns == FACT_MISSING && find_done(run))
		at_barrier(run);
	if (drained == DRAINED_END)
		loop_remove(run->setup->loop, source);
}

static void err_ready(struct source *source, uint32_t events)
{
	struct run *run = container_of(source, struct run, err_out);
	(void)events;
	if (drain_err(run) == DRAINED_END)
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

/* ---- samples */

static void add_point(struct run *run)
{
	struct cpu_point point = {.at_ns = now_ns()};
	struct timespec fresh;
	/* A running task is charged at its next tick, or when somebody asks for its clock. */
	if (run->has_cpu_clock)
		clock_gettime(run->cpu_clock, &fresh);
	struct error ignored; /* the final reading tells */
	if (cgroup_get_cpu(&run->leaf, &point.cpu, &ignored))
		return;
	if (run->point_count == run->point_capacity) {
		run->point_capacity = run->point_capacity ? 2 * run->point_capacity : 512;
		run->points = xrealloc(run->points, run->point_capacity * sizeof *run->points);
	}
	run->points[run->point_count++] = point;
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

int64_t cpu_point_next_ns(int64_t start_ns, int64_t at_ns)
{
	int64_t step_ns = (at_ns - start_ns) / 64;
	if (step_ns < NS_PER_MS)
		step_ns = NS_PER_MS;
	if (step_ns > MEMORY_SAMPLE_NS)
		step_ns = MEMORY_SAMPLE_NS;
	return at_ns + step_ns;
}

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

static int64_t between(int64_t a, int64_t b, double part)
{
	return a + llround((double)(b - a) * part);
}

int cpu_points_at(
	const struct cpu_point *points, size_t count, int64_t at_ns, struct cgroup_cpu *cpu)
{
	if (!count)
		return -1;
	size_t after = 0;
	while (after < count && points[after].at_ns < at_ns)
		after++;
	if (after == 0 || after == count) {
		*cpu = points[after ? count - 1 : 0].cpu;
		return 0;
	}
	const struct cpu_point *a = &points[after - 1], *b = &points[after];
	double part = (double)(at_ns - a->at_ns) / (double)(b->at_ns - a->at_ns);
	*cpu = (struct cgroup_cpu){between(a->cpu.usage_usec, b->cpu.usage_usec, part),
		between(a->cpu.user_usec, b->cpu.user_usec, part),
		between(a->cpu.system_usec, b->cpu.system_usec, part)};
	return 0;
}

/* ---- limits */

int run_limits_in_force(const struct cgroup *leaf, const struct cgroup *container,
	const struct launcher *launcher, struct cgroup_limits *in_force, struct error *err)
{
	struct cgroup_limits of_leaf, all;
	if (cgroup_get_limits(container, &all, err) || cgroup_get_limits(leaf, &of_leaf, err))
		return -1;
	all.memory_bytes = of_leaf.memory_bytes;
	all.swap_bytes = of_leaf.swap_bytes;
	if (!*all.cpus) {
		cpu_set_t cpus;
		if (sched_getaffinity(launcher_pid(launcher), sizeof cpus, &cpus))
			return error_set(err, errno, "cannot read the CPUs of the launcher of '%s'",
				launcher_name(launcher));
		cpus_format(&cpus, all.cpus, sizeof all.cpus);
	}
	*in_force = all;
	return 0;
}

bool limits_match(const struct cgroup_limits *asked, const struct cgroup_limits *found,
	bool machine_swaps, char *detail, size_t size)
{
	int64_t page = sysconf(_SC_PAGESIZE);
	*detail = '\0';
	/* The kernel keeps whole pages. */
	if (asked->memory_bytes != FACT_MISSING &&
		(found->memory_bytes == FACT_MISSING ||
			found->memory_bytes / page != asked->memory_bytes / page))
		snprintf(detail, size, "memory: asked %" PRId64 " bytes, in force %" PRId64,
			asked->memory_bytes,
			found->memory_bytes == FACT_MISSING ? -1 : found->memory_bytes);
	else if (asked->memory_bytes != FACT_MISSING && machine_swaps && found->swap_bytes != 0)
		snprintf(detail, size, "swap: asked none, in force %s",
			found->swap_bytes == FACT_MISSING ? "no limit" : "some");
	else if (fabs(asked->cpu_quota - found->cpu_quota) > 0.005)
		snprintf(detail, size, "CPU quota: asked %g CPUs, in force %g (0: none)",
			asked->cpu_quota, found->cpu_quota);
	else if (*asked->cpus && strcmp(asked->cpus, found->cpus))
		snprintf(detail, size, "CPUs: asked %.60s, in force %.60s", asked->cpus,
			found->cpus);
	return !*detail;
}

/* ---- setting a run up */

static void add_variable(json_t *all, const char *name, const char *value)
{
	json_object_set_new(all, name, json_text(value, LAUNCH_MESSAGE_MAX));
}

static void add_number(json_t *all, const char *name, int64_t value)
{
	char text[32];
	snprintf(text, sizeof text, "%" PRId64, value);
	add_variable(all, name, text);
}

/* What every contender has, then its own. */
static json_t *base_environment(
	const struct launcher *launcher, const struct manifest *manifest, const char *track)
{
	json_t *all = json_object();
	add_variable(all, "PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
	add_variable(all, "HOME", launcher_scratch(launcher));
	add_variable(all, "TMPDIR", launcher_scratch(launcher));
	add_variable(all, "LANG", "C.UTF-8");
	json_auto_t *own = manifest_environment(manifest, track);
	const char *name;
	json_t *value;
	json_object_foreach(own, name, value)
	{
		auto_free char *text = manifest_expand(json_string_value(value),
			launcher_prefix(launcher), launcher_here(launcher));
		add_variable(all, name, text);
	}
	return all;
}

static json_t *contract_environment(const struct run_setup *setup, const char *task)
{
	json_t *all = base_environment(setup->launcher, setup->manifest, setup->track);
	char url[64];
	snprintf(url, sizeof url, "http://127.0.0.1:%" PRId64 "/v1", setup->mock_port);
	auto_free char *prompt = xasprintf("%s/" PROMPT_FILE, launcher_scratch(setup->launcher));
	add_variable(all, "AGENT_CONTRACT", "1");
	add_variable(all, "OPENAI_BASE_URL", url);
	add_variable(all, "OPENAI_API_KEY", "sk-turnmeter");
	add_variable(all, "OPENAI_MODEL", setup->model);
	add_number(all, "AGENT_SESSIONS", setup->sessions);
	add_variable(all, "AGENT_SYSTEM_PROMPT_FILE", prompt);
	add_variable(all, "AGENT_TASK", task);
	if (setup->report)
		add_variable(all, "AGENT_REPORT", "1");
	return all;
}

/* "NAME=VALUE" texts, NULL-ended; texts_free. */
static char **environment_texts(const json_t *all)
{
	char **texts = xcalloc(json_object_size(all) + 1, sizeof *texts);
	size_t count = 0;
	const char *name;
	json_t *value;
	json_object_foreach((json_t *)all, name, value) texts[count++] =
		xasprintf("%s=%s", name, json_string_value(value));
	return texts;
}

static int spawn(struct launcher *launcher, const char **command, const json_t *environment,
	int fds[LAUNCH_FDS], struct error *err)
{
	char **argv =
		manifest_expand_all(command, launcher_prefix(launcher), launcher_here(launcher));
	char **envp = environment_texts(environment);
	pid_t pid;
	int result = launcher_spawn(
		launcher, (const char *const *)argv, (const char *const *)envp, &pid, fds, err);
	texts_free(argv);
	texts_free(envp);
	return result;
}

static int make_nonblocking(const int fds[LAUNCH_FDS], struct error *err)
{
	static const enum launch_fd readable[] = {
		LAUNCH_FD_STATUS, LAUNCH_FD_STDOUT, LAUNCH_FD_STDERR};
	for (size_t i = 0; i < sizeof readable / sizeof *readable; i++)
		if (fcntl(fds[readable[i]], F_SETFL, O_RDONLY | O_NONBLOCK))
			return error_set(err, errno, "cannot read from the contender");
	return 0;
}

static void close_fds(int fds[LAUNCH_FDS])
{
	for (int i = 0; i < LAUNCH_FDS; i++)
		if (fds[i] >= 0)
			close(steal_fd(&fds[i]));
}

static int make_leaf(struct run *run, struct cgroup_limits *in_force, struct error *err)
{
	const struct run_setup *setup = run->setup;
	struct cgroup_limits memory_only = {setup->asked->memory_bytes, FACT_MISSING, 0, ""};
	if (cgroup_make_leaf(&run->leaf, setup->container, run->leaf_name, err))
		return -1;
	if (cgroup_set_limits(&run->leaf, &memory_only, err) ||
		run_limits_in_force(&run->leaf, setup->container, setup->launcher, in_force, err))
		return -1;
	run->facts->backend = cgroup_backend_of(&run->leaf);
	run->facts->memory_limit_bytes = in_force->memory_bytes;
	run->facts->limits_in_force = limits_match(setup->asked, in_force, setup->machine_swaps,
		run->facts->limits_detail, sizeof run->facts->limits_detail);
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
	if (spawn(setup->launcher, setup->manifest->command, environment, run->fds, err))
		return -1;
	run->spawned = true;
	if (make_nonblocking(run->fds, err) || pidfd_pid(run->fds[LAUNCH_FD_PID], &run->pid, err) ||
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
		miss(run->facts, "leftover_processes", err.text);
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
		miss(facts, "spawn_ns", "the program did not start");
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
			miss(facts, at_barrier[i], "the program did not come to the barrier");
	}
}

static void take_memory(struct run *run)
{
	struct run_facts *facts = run->facts;
	struct error err;
	if (facts->backend == CGROUP_V2_SAMPLED) {
		facts->memory_peak_bytes = facts->at_peak.total_bytes;
		if (!facts->memory_samples)
			miss(facts, "memory_peak_bytes",
				"there is no memory.peak, and the run was too short to sample");
	} else if (cgroup_get_peak(&run->leaf, &facts->memory_peak_bytes, &err)) {
		miss(facts, "memory_peak_bytes", err.text);
	}
	if (!facts->memory_samples)
		miss(facts, "at_peak", "the run was too short for a sample of memory.stat");
	if (cgroup_get_refaults(&run->leaf, &facts->refault_events, &err))
		miss(facts, "refault_events", err.text);
	facts->swap_peak_bytes = run->swap_peak_bytes;
}

static void take_cpu(struct run *run)
{
	struct run_facts *facts = run->facts;
	struct cgroup_cpu cpu;
	struct error err;
	if (cgroup_get_cpu(&run->leaf, &cpu, &err)) {
		miss(facts, "cpu_usage_usec", err.text);
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
		miss(facts, "oom_events", err.text);
		miss(facts, "oom_kill_events", err.text);
		return;
	}
	facts->oom_events = leaf.oom;
	facts->oom_kill_events = leaf.oom_kill;
	if (leaf.oom == FACT_MISSING)
		miss(facts, "oom_events", "cgroup v1 counts kills only");
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
		miss(run->facts, field, err.text);
}

static void take_machine(struct run *run)
{
	struct run_facts *facts = run->facts;
	struct cgroup_throttling throttling;
	struct machine_times times;
	struct error err = {0};
	if (!run->has_throttling ||
		cgroup_get_throttling(run->setup->container, &throttling, &err)) {
		miss(facts, "throttled_usec", *err.text ? err.text : "not readable");
		miss(facts, "nr_throttled", *err.text ? err.text : "not readable");
	} else {
		facts->throttled_usec = throttling.throttled_usec - run->throttling.throttled_usec;
		facts->nr_throttled = throttling.nr_throttled - run->throttling.nr_throttled;
	}
	if (!run->has_times ||
		machine_times("/proc/stat", run->setup->contender_cpus, &times, &err)) {
		miss(facts, "steal_usec", *err.text ? err.text : "not readable");
		miss(facts, "other_load_usec", *err.text ? err.text : "not readable");
		return;
	}
	facts->steal_usec = times.steal_usec - run->times.steal_usec;
	if (now_ns() - run->go_ns < OTHER_LOAD_MIN_NS) {
		miss(facts, "other_load_usec",
			"the run was too short for the 10 ms steps of /proc/stat");
	} else if (facts->cpu_usage_usec != FACT_MISSING) {
		int64_t other = times.busy_usec - run->times.busy_usec - facts->cpu_usage_usec;
		facts->other_load_usec = other > 0 ? other : 0;
	} else {
		miss(facts, "other_load_usec", "the leaf's CPU time is not known");
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
		miss(facts, "cpu_at_first_request_usec", "the mock saw no request");
	} else if (cpu_points_at(run->points, run->point_count, at_ns, &cpu)) {
		miss(facts, "cpu_at_first_request_usec", "the leaf's CPU time could not be read");
	} else {
		facts->cpu_at_first_request_usec = cpu.usage_usec;
		facts->cpu_user_at_first_request_usec = cpu.user_usec;
		facts->cpu_system_at_first_request_usec = cpu.system_usec;
	}
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
	while (!facts->stdout_flooded && drain_out(run) == DRAINED_MORE)
		continue;
	while (drain_err(run) == DRAINED_MORE)
		continue;
	stdout_lines_read(run->out_text.data, run->out_text.length, facts);
	take_stderr_tail(run);
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
	close_fds(run->fds);
	if (*run->leaf_name && cgroup_remove(run->setup->container, run->leaf_name, err))
		result = -1;
	cgroup_close(&run->leaf);
	if (run->mock_begun)
		json_decref(mock_end(run->setup->mock, &ignored));
	if (!launcher_lost(launcher))
		launcher_clean(launcher, &ignored);
	buf_release(&run->out_text);
	buf_release(&run->err_text);
	free(run->points);
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
		.pidfd = {.fd = -1},
		.out = {.fd = -1},
		.err_out = {.fd = -1}};
	buf_init(&run.out_text, (size_t)lines * LINE_MAX_BYTES);
	buf_init(&run.err_text, STDERR_KEPT + 65536);
	facts_init(facts);
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

/* ---- the version command */

/* Read to the end of the file, or until the time is up. */
static int read_output(int fd, struct buf *text, int64_t deadline_ns)
{
	for (;;) {
		char bytes[4096];
		int64_t left_ns = deadline_ns - now_ns();
		struct pollfd ready = {fd, POLLIN, 0};
		if (left_ns <= 0 || poll(&ready, 1, (int)(left_ns / NS_PER_MS) + 1) < 0)
			return -1;
		ssize_t got;
		switch (read_some(fd, bytes, sizeof bytes, &got)) {
		case DRAINED_END:
			return 0;
		case DRAINED_MORE:
			/* The first line is enough; what is too long is dropped. */
			if (got > 0)
				buf_add(text, bytes, (size_t)got);
			break;
		case DRAINED_EMPTY:
			break;
		}
	}
}

static char *first_line(const struct buf *text)
{
	auto_free char *line = xasprintf("%.*s", (int)strcspn(text->data, "\n"), text->data);
	json_auto_t *printable = json_text(line, 200);
	char *copy = xstrdup(json_string_value(printable));
	for (char *c = copy; *c; c++)
		if (iscntrl((unsigned char)*c))
			*c = '?';
	return copy;
}

char *run_version(struct loop *loop, struct launcher *launcher, const struct manifest *manifest,
	struct error *err)
{
	int fds[LAUNCH_FDS] = {-1, -1, -1, -1, -1, -1};
	json_auto_t *environment = base_environment(launcher, manifest, "shipped");
	if (spawn(launcher, manifest->version, environment, fds, err))
		return NULL;
	auto_buf struct buf text;
	buf_init(&text, 4096);
	int64_t deadline_ns = now_ns() + VERSION_TIMEOUT_NS;
	close(steal_fd(&fds[LAUNCH_FD_STDIN]));
	bool whole = !make_nonblocking(fds, err) && write(fds[LAUNCH_FD_GO], "", 1) == 1 &&
		     !read_output(fds[LAUNCH_FD_STDOUT], &text, deadline_ns);
	int32_t code = 0;
	bool refused = read(fds[LAUNCH_FD_STATUS], &code, sizeof code) == sizeof code;
	close_fds(fds);
	struct error ignored;
	launcher_kill(launcher, &ignored);
	struct launch_exited exited;
	while (!launcher_exited(launcher, &exited) && !launcher_lost(launcher) &&
		now_ns() < deadline_ns)
		if (loop_once(loop, 100 * NS_PER_MS, err))
			return NULL;
	if (whole && !refused && text.length)
		return first_line(&text);
	error_set(err, refused ? code : 0, "'%s' does not tell its version", manifest->version[0]);
	return NULL;
}
