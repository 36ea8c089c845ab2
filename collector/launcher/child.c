#include "collector/launcher/child.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#ifndef CLONE_PIDFD
#define CLONE_PIDFD 0x00001000
#endif

/* Enough for 10,000 sessions with their tools, and the same on every machine. */
enum { DESCRIPTORS = 65536 };

int child_init(struct child *child, struct error *err)
{
	void *page = mmap(NULL, sizeof *child->spawn_ns, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return error_set(err, errno, "cannot map the shared stamp");
	*child = (struct child){.spawn_ns = page};
	return 0;
}

/* Five pipes: [0] read, [1] write. */
enum { GO, STATUS, IN, OUT, ERR, PIPES };

static void close_all(int pipes[PIPES][2])
{
	for (int i = 0; i < PIPES; i++)
		for (int end = 0; end < 2; end++)
			if (pipes[i][end] >= 0)
				close(pipes[i][end]);
}

/* The kernel shall take the contender before the launcher, which has to tell the end. */
static void offer_to_oom_killer(void)
{
	auto_close int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd >= 0 && write(fd, "1000", 4) < 0)
		return; /* lowering is refused, raising never: nothing to tell anyone */
}

static void raise_descriptor_limit(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	rlim_t wanted = limit.rlim_max < DESCRIPTORS ? limit.rlim_max : DESCRIPTORS;
	limit.rlim_cur = wanted;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static _Noreturn void run_child(const struct child *child, char *const argv[], char *const envp[],
	int scratch_fd, const sigset_t *mask, int pipes[PIPES][2])
{
	/* While it waits for GO, the end of the launcher's copy must be the end of the pipe. */
	close(pipes[GO][1]);
	setsid();
	offer_to_oom_killer();
	raise_descriptor_limit();
	int32_t code = 0;
	if (fchdir(scratch_fd) || dup2(pipes[IN][0], 0) < 0 || dup2(pipes[OUT][1], 1) < 0 ||
		dup2(pipes[ERR][1], 2) < 0)
		code = errno;
	char byte;
	ssize_t got;
	do
		got = read(pipes[GO][0], &byte, 1);
	while (got < 0 && errno == EINTR);
	if (got != 1)
		_exit(125);
	if (!code) {
		sigprocmask(SIG_SETMASK, mask, NULL);
		*child->spawn_ns = now_ns();
		execve(argv[0], argv, envp);
		code = errno;
		*child->spawn_ns = 0;
	}
	if (write(pipes[STATUS][1], &code, sizeof code) != sizeof code)
		_exit(126);
	_exit(127);
}

int child_spawn(struct child *child, char *const argv[], char *const envp[], int scratch_fd,
	const sigset_t *mask, int fds[LAUNCH_FDS], struct error *err)
{
	int pipes[PIPES][2] = {{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}};
	for (int i = 0; i < LAUNCH_FDS; i++)
		fds[i] = -1;
	for (int i = 0; i < PIPES; i++) {
		if (pipe2(pipes[i], O_CLOEXEC)) {
			int code = errno;
			pipes[i][0] = pipes[i][1] = -1;
			close_all(pipes);
			return error_set(err, code, "cannot make a pipe");
		}
	}
	*child->spawn_ns = 0;
	int pidfd = -1;
	/* The third argument is the pidfd's address on every architecture; the order of the last
	 * two differs, both are unused. */
	long pid = syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, NULL, &pidfd, NULL, NULL);
	if (pid == 0)
		run_child(child, argv, envp, scratch_fd, mask, pipes);
	if (pid < 0) {
		int code = errno;
		close_all(pipes);
		return error_set(err, code, "cannot fork");
	}
	child->pid = (int)pid;
	fds[LAUNCH_FD_PID] = pidfd;
	fds[LAUNCH_FD_GO] = steal_fd(&pipes[GO][1]);
	fds[LAUNCH_FD_STATUS] = steal_fd(&pipes[STATUS][0]);
	fds[LAUNCH_FD_STDIN] = steal_fd(&pipes[IN][1]);
	fds[LAUNCH_FD_STDOUT] = steal_fd(&pipes[OUT][0]);
	fds[LAUNCH_FD_STDERR] = steal_fd(&pipes[ERR][0]);
	close_all(pipes);
	return 0;
}
