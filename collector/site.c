#include "collector/site.h"

#include "collector/launch.h"
#include "collector/local.h"
#include "collector/machine.h"
#include "collector/manifest.h"
#include "collector/mock_client.h"
#include "collector/limits.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/loop.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Containers of a cold machine may take a while to start. */
static const int64_t CONTAINER_WAIT_NS = 60 * NS_PER_S;
static const int64_t LOCAL_WAIT_NS = 20 * NS_PER_S;
static const int64_t RETRY_NS = 20 * NS_PER_MS;
/* Who waits longer than this wants to know what for. */
static const int64_t SILENCE_NS = 2 * NS_PER_S;

static int64_t patience_ns(const struct site *site)
{
	return site->local ? LOCAL_WAIT_NS : CONTAINER_WAIT_NS;
}

struct wait {
	int64_t begun_ns, deadline_ns;
	bool told;
};

static struct wait wait_begin(const struct site *site)
{
	int64_t at_ns = now_ns();
	return (struct wait){at_ns, at_ns + patience_ns(site), false};
}

/* One turn of the loop while `what` is waited for. */
static int wait_a_little(struct site *site, struct wait *wait, const char *what, struct error *err)
{
	if (loop_once(site->loop, RETRY_NS, err))
		return -1;
	if (!wait->told && site->options->progress && now_ns() - wait->begun_ns > SILENCE_NS) {
		fprintf(site->options->progress, "waiting for %s, at most %d s\n", what,
			(int)(patience_ns(site) / NS_PER_S));
		wait->told = true;
	}
	return *site->options->stop ? error_set(err, 0, "interrupted while starting") : 0;
}

void site_explain(const struct site *site, struct error *err)
{
	struct error cause;
	if (!site->local_side || local_fault(site->local_side, &cause))
		return;
	error_prefix(&cause, "%.400s", err->text);
	*err = cause;
}

bool site_mock_ended(const struct site *site)
{
	return site->local_side && local_mock_ended(site->local_side);
}

/* ---- the mock */

static int await_mock(struct site *site, const char *control, struct error *err)
{
	struct wait wait = wait_begin(site);
	struct error why; /* of a process that has ended: site_explain tells it */
	site->mock = mock_client_new(control, err);
	if (!site->mock)
		return -1;
	while (!(site->mock_health = mock_health(site->mock, &why))) {
		if (site->local_side && !local_fault(site->local_side, &why))
			return error_set(err, 0, "the mock did not start");
		if (now_ns() > wait.deadline_ns) {
			*err = why;
			return error_prefix(err, "the mock does not answer");
		}
		if (wait_a_little(site, &wait, "the mock", err))
			return -1;
	}
	const json_t *port = json_object_get(site->mock_health, "port");
	site->mock_port = json_integer_value(port);
	if (site->mock_port < 1 || site->mock_port > 65535)
		return error_set(err, 0, "mock at '%s': /healthz tells no port", control);
	return 0;
}

/* ---- placement */

static int share_out_cpus(struct site *site, struct error *err)
{
	cpu_set_t all;
	if (sched_getaffinity(0, sizeof all, &all))
		return error_set(err, errno, "cannot read this process's CPUs");
	site->instrument = site->contender = all;
	/* Containers have their CPUs given from outside. */
	if (!site->local || !site->plan->split)
		return 0;
	if (cpus_split("/sys/devices/system/cpu", &all, &site->instrument, &site->contender, err))
		return -1;
	if (sched_setaffinity(0, sizeof site->instrument, &site->instrument))
		return error_set(err, errno, "cannot keep to the instrument's CPUs");
	return 0;
}

/* ---- contenders */

static struct cgroup_limits limits_asked(const struct site *site)
{
	const struct plan *plan = site->plan;
	struct cgroup_limits limits = {plan->memory_bytes, FACT_MISSING, plan->cpu_quota, ""};
	if (site->local)
		cpus_format(&site->contender, limits.cpus, sizeof limits.cpus);
	return limits;
}

static int start_launcher(struct site *site, size_t contender, struct error *err)
{
	const struct plan_contender *who = &site->plan->contenders[contender];
	struct place *place = &site->places[contender];
	struct cgroup_limits limits = limits_asked(site);
	auto_free char *prefix = local_prefix(err);
	auto_free char *socket = local_path(site->local_side, "launch.sock");
	if (!prefix)
		return -1;
	return local_start_launcher(site->local_side, prefix, who->manifest->name,
		who->here ? who->here : "/", socket, &limits, &place->container, err);
}

static int open_container(
	struct site *site, const char *name, pid_t pid, struct cgroup *container, struct error *err)
{
	bool in_run_leaf;
	struct cgroup own = CGROUP_EMPTY;
	if (cgroup_open_pid(container, &site->fs, pid, &in_run_leaf, err))
		return error_prefix(err, "contender '%s'", name);
	/* Everything in the group is moved to a leaf of it: that must not be half the machine. */
	bool shared = !cgroup_open_pid(&own, &site->fs, getpid(), NULL, err) &&
		      cgroup_is_within(&own, container);
	cgroup_close(&own);
	if (!in_run_leaf && !shared)
		return 0;
	cgroup_close(container);
	return error_set(err, 0, "contender '%s': its launcher %s", name,
		in_run_leaf ? "runs inside of a run"
			    : "is in no container: the collector is in the same cgroup");
}

static bool intersect(const cpu_set_t *a, const cpu_set_t *b)
{
	cpu_set_t both;
	CPU_AND(&both, a, b);
	return CPU_COUNT(&both) > 0;
}

/* Which CPUs the contender has, and that they are not the instrument's. */
static int check_cpus(struct site *site, const char *name, struct place *place, struct error *err)
{
	struct cgroup_limits found;
	if (site->local)
		sched_setaffinity(
			launcher_pid(place->launcher), sizeof site->contender, &site->contender);
	if (limits_in_force(&place->container, &place->container, place->launcher, &found, err) ||
		cpus_parse(found.cpus, &place->cpus, err))
		return error_prefix(err, "contender '%s'", name);
	if (!site->plan->split || !intersect(&place->cpus, &site->instrument))
		return 0;
	char own[128];
	cpus_format(&site->instrument, own, sizeof own);
	return error_set(err, 0,
		"contender '%s' may use CPUs %.100s, the collector %s: placement 'split' needs "
		"them "
		"apart, give their containers other cpusets, or set the plan's placement to "
		"\"shared\"",
		name, found.cpus, own);
}

static int attach(struct site *site, size_t contender, struct error *err)
{
	struct place *place = &site->places[contender];
	const char *name = site->plan->contenders[contender].manifest->name;
	struct wait wait = wait_begin(site);
	auto_free char *what = xasprintf("the launcher of contender '%s'", name);
	struct error cause; /* site_explain tells it */
	while (!(place->launcher = launch_find(site->server, name))) {
		if (site->local_side && !local_fault(site->local_side, &cause))
			return error_set(err, 0, "contender '%s' has no launcher", name);
		if (now_ns() > wait.deadline_ns)
			return error_set(err, 0,
				"contender '%s' has no launcher here: start its container (make up "
				"does), or leave it out by --contenders",
				name);
		if (wait_a_little(site, &wait, what, err))
			return -1;
	}
	if (!site->local &&
		open_container(site, name, launcher_pid(place->launcher), &place->container, err))
		return -1;
	if (cgroup_adopt(&place->container, err))
		return error_prefix(err, "contender '%s'", name);
	place->asked = limits_asked(site);
	return check_cpus(site, name, place, err);
}

int site_attach(struct site *site, size_t contender, struct error *err)
{
	struct place *place = &site->places[contender];
	if (place->launcher && !launcher_lost(place->launcher))
		return 0;
	if (place->launcher)
		launcher_drop(place->launcher);
	place->launcher = NULL;
	cgroup_close(&place->container);
	if (site->local && start_launcher(site, contender, err))
		return -1;
	return attach(site, contender, err);
}

/* ---- start and end */

static int open_local(struct site *site, struct error *err)
{
	auto_free char *prefix = local_prefix(err);
	site->local_side = prefix ? local_new(&site->fs, site->options->cgroup_parent, err) : NULL;
	if (!site->local_side)
		return -1;
	auto_free char *control = local_path(site->local_side, "control.sock");
	auto_free char *socket = local_path(site->local_side, "launch.sock");
	if (local_start_mock(site->local_side, prefix, err) || await_mock(site, control, err))
		return -1;
	site->server = launch_server_new(site->loop, socket, false, err);
	if (!site->server)
		return -1;
	for (size_t i = 0; i < site->plan->contender_count; i++)
		if (start_launcher(site, i, err))
			return -1;
	return 0;
}

static int open_containers(struct site *site, struct error *err)
{
	site->server = launch_server_new(site->loop, site->options->listen, true, err);
	return site->server ? await_mock(site, site->options->mock_control, err) : -1;
}

int site_open(struct site *site, struct loop *loop, const struct plan *plan,
	const struct site_options *options, struct error *err)
{
	*site = (struct site){.loop = loop,
		.plan = plan,
		.options = options,
		.local = !options->listen,
		.fs = {.fds = {-1, -1, -1, -1}}};
	site->places = xcalloc(plan->contender_count, sizeof *site->places);
	for (size_t i = 0; i < plan->contender_count; i++)
		site->places[i].container = (struct cgroup)CGROUP_EMPTY;
	int result = cgroup_fs_open(&site->fs, options->cgroup_root, err) ||
		     share_out_cpus(site, err) ||
		     (site->local ? open_local(site, err) : open_containers(site, err));
	for (size_t i = 0; !result && i < plan->contender_count; i++)
		result = attach(site, i, err);
	if (!result)
		return 0;
	site_explain(site, err);
	site_close(site);
	return -1;
}

void site_close(struct site *site)
{
	launch_server_free(site->server);
	for (size_t i = 0; site->places && i < site->plan->contender_count; i++)
		cgroup_close(&site->places[i].container);
	free(site->places);
	local_free(site->local_side);
	mock_client_free(site->mock);
	json_decref(site->mock_health);
	cgroup_fs_close(&site->fs);
	*site = (struct site){.fs = {.fds = {-1, -1, -1, -1}}};
}
