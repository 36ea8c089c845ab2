#include "collector/local.h"

#include "collector/maker.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define NAME_PREFIX "turnmeter-"
#define MOCK "mockllm"

enum { LOG_MAX = 1 << 20, DEPTH_MAX = 64, MOCK_DESCRIPTORS = 65536 };

static const int64_t END_TIMEOUT_NS = 10 * NS_PER_S;

struct process {
	pid_t pid; /* 0: reaped */
	int status;
	const char *program; /* for messages */
	char *log;           /* path of what it wrote to stderr */
};

struct local {
	const struct cgroup_fs *fs;
	struct cgroup parent, base;
	struct cgroup own_leaf; /* see take_own_group */
	char name[64];          /* of base below parent, and of the folder below TMPDIR */
	char *folder;
	struct process *processes;
	size_t process_count;
};

/* ---- the working folder */

const char *local_temporary_folder(void)
{
	const char *folder = getenv("TMPDIR");
	return folder && *folder == '/' ? folder : "/tmp";
}

static void remove_tree(int parent_fd, const char *name, int depth)
{
	if (!unlinkat(parent_fd, name, 0) || depth > DEPTH_MAX)
		return;
	int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir)
		return;
	struct dirent *entry;
	while ((entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			remove_tree(dirfd(dir), entry->d_name, depth + 1);
	closedir(dir);
	unlinkat(parent_fd, name, AT_REMOVEDIR);
}

static void sweep_folders(void)
{
	int fd = open(local_temporary_folder(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir)
		return;
	struct dirent *entry;
	while ((entry = readdir(dir))) {
		struct stat status;
		if (!strncmp(entry->d_name, NAME_PREFIX, strlen(NAME_PREFIX)) &&
			maker_is_gone(entry->d_name + strlen(NAME_PREFIX)) &&
			!fstatat(dirfd(dir), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) &&
			S_ISDIR(status.st_mode) && status.st_uid == geteuid())
			remove_tree(dirfd(dir), entry->d_name, 0);
	}
	closedir(dir);
}

char *local_path(const struct local *local, const char *name)
{
	return xasprintf("%s/%s", local->folder, name);
}

/* ---- groups */

/*
 * Not root: work in the group we are in, which must have been delegated. On v2 no process may stay
 * in a group that hands controllers down, so all of it (the collector, the make that started it)
 * moves into a leaf, and back in the end.
 */
static int take_own_group(struct local *local, struct cgroup *own, struct error *err)
{
	if (local->fs->v2) {
		if (cgroup_make(&local->own_leaf, own, CGROUP_COLLECTOR_LEAF, err))
			return -1;
		if (cgroup_move_all(own, &local->own_leaf, err)) {
			cgroup_close(&local->own_leaf);
			return -1;
		}
	}
	local->parent = *own;
	*own = (struct cgroup)CGROUP_EMPTY;
	return 0;
}

static void leave_own_group(struct local *local)
{
	struct error ignored; /* the group goes with its scope */
	if (!local->own_leaf.fs)
		return;
	cgroup_disable(&local->parent);
	if (!cgroup_move_all(&local->own_leaf, &local->parent, &ignored))
		cgroup_remove(&local->parent, CGROUP_COLLECTOR_LEAF, &ignored);
	cgroup_close(&local->own_leaf);
}

static int choose_parent(struct local *local, const char *parent, struct error *err)
{
	if (parent)
		return cgroup_open_path(&local->parent, local->fs, parent, err);
	struct cgroup own = CGROUP_EMPTY;
	if (cgroup_open_pid(&own, local->fs, getpid(), NULL, err))
		return error_prefix(err, "give the group to work below by --cgroup-parent");
	int result = geteuid() == 0 ? cgroup_open_parent(&local->parent, &own, err)
				    : take_own_group(local, &own, err);
	cgroup_close(&own);
	return result;
}

/* ---- start and end */

struct local *local_new(const struct cgroup_fs *fs, const char *parent, struct error *err)
{
	struct local *local = xcalloc(1, sizeof *local);
	local->fs = fs;
	local->parent = local->base = local->own_leaf = (struct cgroup)CGROUP_EMPTY;
	char maker[MAKER_NAME_MAX];
	maker_name(maker);
	snprintf(local->name, sizeof local->name, NAME_PREFIX "%s", maker);
	if (choose_parent(local, parent, err)) {
		local_free(local);
		return NULL;
	}
	cgroup_sweep(&local->parent, NAME_PREFIX, maker_is_gone);
	sweep_folders();
	char *folder = xasprintf("%s/%s", local_temporary_folder(), local->name);
	if (mkdir(folder, 0700)) {
		error_set(err, errno,
			"cannot make the working folder '%s' (TMPDIR chooses another)", folder);
		free(folder);
		local_free(local);
		return NULL;
	}
	local->folder = folder;
	if (cgroup_enable_path(&local->parent, err) ||
		cgroup_make(&local->base, &local->parent, local->name, err) ||
		cgroup_enable(&local->base, err)) {
		local_free(local);
		return NULL;
	}
	return local;
}

static void end_process(struct process *process, int64_t deadline_ns)
{
	if (!process->pid)
		return;
	kill(process->pid, SIGTERM);
	for (int64_t pause_ns = NS_PER_MS; !waitpid(process->pid, &process->status, WNOHANG);) {
		if (now_ns() > deadline_ns)
			kill(process->pid, SIGKILL);
		nanosleep(&(struct timespec){.tv_nsec = pause_ns}, NULL);
		pause_ns = pause_ns < 20 * NS_PER_MS ? 2 * pause_ns : pause_ns;
	}
	process->pid = 0;
}

void local_free(struct local *local)
{
	if (!local)
		return;
	int64_t deadline_ns = now_ns() + END_TIMEOUT_NS;
	/* All are asked before one is waited for. */
	for (size_t i = 0; i < local->process_count; i++)
		if (local->processes[i].pid)
			kill(local->processes[i].pid, SIGTERM);
	for (size_t i = 0; i < local->process_count; i++) {
		end_process(&local->processes[i], deadline_ns);
		free(local->processes[i].log);
	}
	free(local->processes);
	struct error ignored; /* swept by the next start */
	if (local->base.fs)
		cgroup_remove(&local->parent, local->name, &ignored);
	cgroup_close(&local->base);
	leave_own_group(local);
	cgroup_close(&local->parent);
	if (local->folder)
		remove_tree(AT_FDCWD, local->folder, 0);
	free(local->folder);
	free(local);
}

/* ---- processes */

static _Noreturn void become(pid_t parent, const char *log, const char *const argv[])
{
	struct rlimit limit;
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	/* A session of its own: the terminal's interrupt is the collector's to handle. */
	setsid();
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(1);
	if (!getrlimit(RLIMIT_NOFILE, &limit)) {
		limit.rlim_cur =
			limit.rlim_max < MOCK_DESCRIPTORS ? limit.rlim_max : MOCK_DESCRIPTORS;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int out = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	/* What it says on stdout is no last word. */
	if (null < 0 || out < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(out, 2) < 0)
		_exit(1);
	execv(argv[0], (char *const *)argv);
	dprintf(2, "cannot execute '%s': %s\n", argv[0], strerror(errno));
	_exit(127);
}

static pid_t start_process(struct local *local, const char *program, const char *log,
	const char *const argv[], struct error *err)
{
	if (access(argv[0], X_OK)) {
		error_set(err, errno, "cannot execute '%s': build it with 'make'", argv[0]);
		return -1;
	}
	auto_free char *path = local_path(local, log);
	pid_t parent = getpid(), pid = fork();
	if (pid == 0)
		become(parent, path, argv);
	if (pid < 0) {
		error_set(err, errno, "cannot start '%s'", program);
		return -1;
	}
	local->processes =
		xrealloc(local->processes, (local->process_count + 1) * sizeof *local->processes);
	local->processes[local->process_count++] =
		(struct process){pid, 0, program, steal_ptr(path)};
	return pid;
}

char *local_prefix(struct error *err)
{
	char path[4096];
	ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
	if (length < 0) {
		error_set(err, errno, "cannot read '/proc/self/exe'");
		return NULL;
	}
	path[length] = '\0';
	for (int i = 0; i < 2; i++) {
		char *slash = strrchr(path, '/');
		if (slash)
			*slash = '\0';
	}
	return xstrdup(path);
}

int local_start_mock(struct local *local, const char *prefix, struct error *err)
{
	auto_free char *program = xasprintf("%s/bin/mockllm", prefix);
	auto_free char *tool = xasprintf("%s/bin/tmtool", prefix);
	auto_free char *control = local_path(local, "control.sock");
	const char *const argv[] = {
		program, "--port", "0", "--control", control, "--tool", tool, NULL};
	if (access(tool, X_OK))
		return error_set(err, errno, "cannot execute '%s': build it with 'make'", tool);
	return start_process(local, MOCK, "mockllm.log", argv, err) < 0 ? -1 : 0;
}

static bool has_ended(struct process *process)
{
	int status;
	if (process->pid && waitpid(process->pid, &status, WNOHANG) == process->pid) {
		process->pid = 0;
		process->status = status;
	}
	return !process->pid;
}

/*
 * A launcher that is started again has told its end already. One of the same log that hung up and
 * is still at it is waited for: it empties the scratch folder, which would be the next one's.
 */
static void forget_launchers(struct local *local, const char *log)
{
	auto_free char *path = local_path(local, log);
	int64_t deadline_ns = now_ns() + END_TIMEOUT_NS;
	size_t kept = 0;
	for (size_t i = 0; i < local->process_count; i++) {
		struct process *process = &local->processes[i];
		if (!strcmp(process->log, path))
			end_process(process, deadline_ns);
		if (strcmp(process->program, MOCK) && has_ended(process))
			free(process->log);
		else
			local->processes[kept++] = *process;
	}
	local->process_count = kept;
}

int local_start_launcher(struct local *local, const char *prefix, const char *name,
	const char *here, const char *socket, const struct cgroup_limits *limits,
	struct cgroup *container, struct error *err)
{
	auto_free char *program = xasprintf("%s/bin/launcher", prefix);
	auto_free char *scratch_name = xasprintf("scratch-%s", name);
	auto_free char *scratch = local_path(local, scratch_name);
	auto_free char *log = xasprintf("launcher-%s.log", name);
	const char *const argv[] = {program, "--once", "--socket", socket, "--name", name,
		"--scratch", scratch, "--here", here, NULL};
	struct cgroup made;
	struct cgroup_limits possible = *limits;
	/* Without the controller the launcher's affinity keeps the contender to its CPUs. */
	if (!cgroup_has(&local->base, CGROUP_CPUSET))
		*possible.cpus = '\0';
	forget_launchers(local, log);
	if (mkdir(scratch, 0700) && errno != EEXIST)
		return error_set(err, errno, "cannot make the scratch folder '%s'", scratch);
	if (cgroup_make(&made, &local->base, name, err))
		return -1;
	pid_t pid = -1;
	if (cgroup_set_limits(&made, &possible, err) ||
		(pid = start_process(local, "launcher", log, argv, err)) < 0 ||
		cgroup_attach(&made, pid, err)) {
		cgroup_close(&made);
		return error_prefix(err, "contender '%s'", name);
	}
	*container = made;
	return 0;
}

/* The last line of a log, without its end; malloc'ed. */
static char *last_line(const char *path)
{
	auto_buf struct buf text;
	struct error ignored;
	if (file_read(AT_FDCWD, path, LOG_MAX, &text, &ignored) || !text.length)
		return xstrdup("it said nothing");
	while (text.length && text.data[text.length - 1] == '\n')
		text.data[--text.length] = '\0';
	char *line = strrchr(text.data, '\n');
	return xstrdup(line ? line + 1 : text.data);
}

int local_fault(const struct local *local, struct error *err)
{
	for (size_t i = 0; i < local->process_count; i++) {
		struct process *process = &local->processes[i];
		if (!has_ended(process))
			continue;
		auto_free char *line = last_line(process->log);
		bool killed = WIFSIGNALED(process->status);
		error_set(err, 0, "%s ended with %s %d: %.300s", process->program,
			killed ? "signal" : "status",
			killed ? WTERMSIG(process->status) : WEXITSTATUS(process->status), line);
		return 0;
	}
	return -1;
}

bool local_mock_ended(const struct local *local)
{
	for (size_t i = 0; i < local->process_count; i++)
		if (!strcmp(local->processes[i].program, MOCK) && has_ended(&local->processes[i]))
			return true;
	return false;
}
