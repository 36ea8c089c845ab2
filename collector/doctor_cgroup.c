#include "collector/doctor_cgroup.h"

#include "collector/cgroup.h"
#include "collector/cgroup_file.h"
#include "collector/plan.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"
#include "common/json.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static const double GIB = 1024.0 * 1024 * 1024;

/* ---- the groups that there are */

struct groups {
	struct cgroup_fs fs;
	struct cgroup own, parent; /* parent: below it runs would be made */
	struct error parent_problem;
	bool has_own, has_parent;
};

static int open_own(const struct doctor *doctor, const struct cgroup_fs *fs, struct cgroup *group,
	struct error *err)
{
	auto_free char *path = xasprintf("%s/proc/self/cgroup", doctor->root);
	auto_buf struct buf text;
	if (file_read(AT_FDCWD, path, CG_TEXT_MAX, &text, err))
		return -1;
	return cgroup_open_text(group, fs, text.data ? text.data : "", NULL, err);
}

/* Where the collector would work: as local.h has it; containers are found anywhere. */
static int open_parent(const struct doctor *doctor, struct groups *groups)
{
	struct error *err = &groups->parent_problem;
	if (doctor->containers)
		return cgroup_open_path(&groups->parent, &groups->fs, "/", err);
	if (doctor->cgroup_parent)
		return cgroup_open_path(&groups->parent, &groups->fs, doctor->cgroup_parent, err);
	if (geteuid() == 0 && groups->has_own)
		return cgroup_open_parent(&groups->parent, &groups->own, err);
	return open_own(doctor, &groups->fs, &groups->parent, err);
}

static int open_groups(const struct doctor *doctor, struct groups *groups, struct error *err)
{
	*groups = (struct groups){.fs = {.fds = {-1, -1, -1, -1}}};
	groups->own = groups->parent = (struct cgroup)CGROUP_EMPTY;
	if (cgroup_fs_open(&groups->fs, doctor->cgroup_root, err))
		return -1;
	struct error ignored; /* open_parent tells it, where it is needed */
	groups->has_own = !open_own(doctor, &groups->fs, &groups->own, &ignored);
	groups->has_parent = !open_parent(doctor, groups);
	return 0;
}

static void close_groups(struct groups *groups)
{
	cgroup_close(&groups->own);
	cgroup_close(&groups->parent);
	cgroup_fs_close(&groups->fs);
}

/*
 * Does a file stand in groups that memory is accounted to? 1, 0, or -1 where there is no such group
 * to look at: the root has no such files, and below it only groups with the controller.
 */
static int in_memory_groups(const struct groups *groups, const char *accounted, const char *name)
{
	const struct cgroup *known[] = {
		groups->has_own ? &groups->own : NULL, groups->has_parent ? &groups->parent : NULL};
	for (size_t i = 0; i < 2; i++) {
		int fd = known[i] ? cgroup_folder(known[i], CGROUP_MEMORY) : -1;
		if (fd >= 0 && cg_exists(fd, accounted))
			return cg_exists(fd, name);
	}
	int result = -1;
	int root = groups->fs.fds[groups->fs.of[CGROUP_MEMORY]];
	int again = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = again < 0 ? NULL : fdopendir(again);
	struct dirent *entry;
	while (dir && result < 0 && (entry = readdir(dir))) {
		auto_close int fd =
			*entry->d_name == '.'
				? -1
				: openat(root, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0 && cg_exists(fd, accounted))
			result = cg_exists(fd, name);
	}
	if (dir)
		closedir(dir);
	else if (again >= 0)
		close(again);
	return result;
}

/* The kernel's release, as "5.19" or "6.1.0-18-amd64", is at least this. */
static bool kernel_is_from(const struct doctor *doctor, long major, long minor)
{
	const char *release = json_string_value(json_object_get(doctor->machine, "kernel"));
	char *end;
	long first = strtol(release ? release : "", &end, 10);
	long second = *end == '.' ? strtol(end + 1, NULL, 10) : 0;
	return first > major || (first == major && second >= minor);
}

/* ---- checks. Those after the first have nothing to say where there are no cgroups at all. */

static json_t *version(const struct doctor *doctor)
{
	struct groups groups;
	struct error err;
	if (open_groups(doctor, &groups, &err)) {
		/* the error may end in the remedy, which has its place beside it here */
		char *remedy = xasprintf(
			"mount cgroup2 there (mount -t cgroup2 none %s)", doctor->cgroup_root);
		size_t length = strlen(err.text), tail = strlen(remedy) + 2;
		if (length > tail && !strncmp(err.text + length - tail, ": ", 2) &&
			!strcmp(err.text + length - tail + 2, remedy))
			err.text[length - tail] = '\0';
		return doctor_finding(DOCTOR_FAIL, xstrdup(err.text), remedy);
	}
	bool v2 = groups.fs.v2;
	close_groups(&groups);
	if (v2)
		return doctor_finding(DOCTOR_OK, xasprintf("v2 at %s", doctor->cgroup_root), NULL);
	return doctor_finding(DOCTOR_WARN,
		xasprintf("v1 at %s: memory is accounted otherwise than on v2, figures of the two "
			  "are never compared; no pressure, no count of failed allocations",
			doctor->cgroup_root),
		xstrdup("boot with systemd.unified_cgroup_hierarchy=1"));
}

/* Root may hand controllers down from the root; others have what their group was given. */
static bool has_controller(const struct groups *groups, bool from_root, const char *name)
{
	char text[1024];
	struct error ignored;
	int fd = from_root ? groups->fs.fds[0] : cgroup_folder(&groups->parent, CGROUP_MEMORY);
	return !cg_read(fd, "cgroup.controllers", text, sizeof text, &ignored) &&
	       cg_has_word(text, name);
}

static json_t *controllers(const struct doctor *doctor)
{
	static const struct {
		const char *name, *without;
		enum cgroup_part part;
		bool v2_only;
	} parts[] = {{"memory", "nothing can be measured", CGROUP_MEMORY, false},
		{"cpu", "no CPU quota, no throttling", CGROUP_CPU, false},
		{"cpuset", "CPUs by affinity only", CGROUP_CPUSET, false},
		{"io", "no pressure of I/O", CGROUP_PARTS, true}};
	struct groups groups;
	struct error err;
	if (open_groups(doctor, &groups, &err))
		return NULL;
	bool from_root = doctor->containers || geteuid() == 0;
	bool known = groups.has_parent || from_root, fatal = false;
	auto_buf struct buf there, absent;
	buf_init(&there, 1000);
	buf_init(&absent, 1000);
	for (size_t i = 0; known && i < sizeof parts / sizeof *parts; i++) {
		if (parts[i].v2_only && !groups.fs.v2)
			continue;
		if (groups.fs.v2 ? has_controller(&groups, from_root, parts[i].name)
				 : groups.fs.of[parts[i].part] >= 0) {
			buf_addf(&there, "%s%s", there.length ? " " : "", parts[i].name);
			continue;
		}
		buf_addf(&absent, "%sno %s: %s", absent.length ? "; " : "", parts[i].name,
			parts[i].without);
		/* The quota is asked for by the plan. */
		fatal |= !i || (parts[i].part == CGROUP_CPU && doctor->plan &&
				       doctor->plan->cpu_quota > 0);
	}
	close_groups(&groups);
	if (!known)
		return NULL;
	if (!absent.length)
		return doctor_finding(DOCTOR_OK, xstrdup(there.data), NULL);
	return doctor_finding(fatal ? DOCTOR_FAIL : DOCTOR_WARN, xstrdup(absent.data),
		xstrdup("enable it in the groups above (cgroup.subtree_control; systemd: "
			"Delegate=yes), or at boot (cgroup_enable=memory, no cgroup_disable)"));
}

/* Of the effective user. */
static bool may_write(int dir_fd, const char *name)
{
	return !faccessat(dir_fd, name, W_OK, AT_EACCESS);
}

static json_t *delegation(const struct doctor *doctor)
{
	struct groups groups;
	struct error err;
	if (open_groups(doctor, &groups, &err))
		return NULL;
	json_t *finding = NULL;
	if (!groups.has_parent)
		finding = doctor_finding(DOCTOR_FAIL, xstrdup(groups.parent_problem.text),
			xstrdup("give the group to work below by --cgroup-parent"));
	for (int i = 0; !finding && i < groups.fs.count; i++) {
		int fd = groups.parent.fds[i];
		if (may_write(fd, ".") && may_write(fd, "cgroup.procs") &&
			(!groups.fs.v2 || may_write(fd, "cgroup.subtree_control")))
			continue;
		finding = doctor_finding(DOCTOR_FAIL,
			xasprintf("cannot make cgroups below '%s': %s", groups.parent.paths[i],
				strerror(errno)),
			doctor->containers
				? xstrdup("mount /sys/fs/cgroup read-write into the collector's "
					  "container (docker-compose.yml does)")
				: xstrdup(CGROUP_RIGHTS));
	}
	if (!finding)
		finding = doctor_finding(DOCTOR_OK,
			doctor->containers
				? xstrdup("cgroups can be made in the containers' groups")
				: xasprintf("cgroups can be made below '%s'",
					  groups.parent.paths[groups.fs.of[CGROUP_MEMORY]]),
			NULL);
	close_groups(&groups);
	return finding;
}

static json_t *memory_peak(const struct doctor *doctor)
{
	struct groups groups;
	struct error err;
	if (open_groups(doctor, &groups, &err))
		return NULL;
	bool v2 = groups.fs.v2;
	int there = in_memory_groups(&groups, "memory.current", "memory.peak");
	close_groups(&groups);
	if (!v2)
		return doctor_finding(DOCTOR_OK, xstrdup("memory.max_usage_in_bytes (v1)"), NULL);
	if (there < 0)
		there = kernel_is_from(doctor, 5, 19);
	if (there)
		return doctor_finding(DOCTOR_OK, xstrdup("memory.peak"), NULL);
	return doctor_finding(DOCTOR_WARN,
		xstrdup("no memory.peak: peaks are the highest of ten samples a second, so at "
			"least that"),
		xstrdup("Linux 5.19 or later"));
}

static json_t *oom_group(const struct doctor *doctor)
{
	struct groups groups;
	struct error err;
	if (open_groups(doctor, &groups, &err))
		return NULL;
	bool v2 = groups.fs.v2;
	int there = in_memory_groups(&groups, "memory.current", "memory.oom.group");
	close_groups(&groups);
	if (v2 && there < 0)
		there = kernel_is_from(doctor, 4, 19);
	if (v2 && there)
		return doctor_finding(DOCTOR_OK, xstrdup("memory.oom.group"), NULL);
	return doctor_finding(DOCTOR_WARN,
		xstrdup("no memory.oom.group: out of memory, a contender is ended process by "
			"process, and what is left of it may go on"),
		xstrdup(v2 ? "Linux 4.19 or later" : "cgroup v2"));
}

static json_t *swap(const struct doctor *doctor)
{
	const json_t *bytes = json_object_get(doctor->machine, "swap_bytes");
	struct groups groups;
	struct error err;
	if (json_is_integer(bytes) && !json_integer_value(bytes))
		return doctor_finding(DOCTOR_OK, xstrdup("none"), NULL);
	if (!json_is_integer(bytes) || open_groups(doctor, &groups, &err))
		return NULL;
	bool v2 = groups.fs.v2;
	bool limited = !doctor->plan || doctor->plan->memory_bytes != FACT_MISSING;
	bool can = in_memory_groups(&groups, v2 ? "memory.current" : "memory.usage_in_bytes",
			   v2 ? "memory.swap.max" : "memory.memsw.limit_in_bytes") != 0;
	close_groups(&groups);
	double gib = (double)json_integer_value(bytes) / GIB;
	if (limited && can)
		return doctor_finding(
			DOCTOR_OK, xasprintf("%.1f GiB, forbidden to contenders", gib), NULL);
	return doctor_finding(DOCTOR_WARN,
		xasprintf("%.1f GiB, and %s: a run is not valid if a page of the contender goes "
			  "there",
			gib,
			limited ? "the kernel keeps no account of it"
				: "the plan has no memory limit, with which it is forbidden"),
		xstrdup(limited ? "swapoff -a (as root), or boot with swapaccount=1"
				: "swapoff -a (as root), or give the plan limits.memory_bytes"));
}

const struct doctor_check doctor_cgroup_checks[] = {
	{"cgroup", version},
	{"controllers", controllers},
	{"delegation", delegation},
	{"memory-peak", memory_peak},
	{"oom-group", oom_group},
	{"swap", swap},
};
const size_t doctor_cgroup_count = sizeof doctor_cgroup_checks / sizeof *doctor_cgroup_checks;
