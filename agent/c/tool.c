#include "agent/c/tool.h"

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef CLONE_PIDFD
#define CLONE_PIDFD 0x00001000
#endif
#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE (1U << 1)
#endif
#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1U << 2)
#endif

enum {
	READ_BYTES = 64 << 10, /* what a pipe holds */
	CHILD_STACK_BYTES = 16 << 10,
	DRAIN_MS = 100,
	GRACE_MS = 500,
	STATUS_NOT_FOUND = 127,
	STATUS_NOT_EXECUTABLE = 126,
};

extern char **environ;

static int close_range_(unsigned first, unsigned last, unsigned flags)
{
#ifdef SYS_close_range
	return (int)syscall(SYS_close_range, first, last, flags);
#else
	(void)first, (void)last, (void)flags;
	errno = ENOSYS;
	return -1;
#endif
}

void tools_hide_descriptors(void)
{
	if (!close_range_(3, ~0U, CLOSE_RANGE_CLOEXEC))
		return;
	/* Before Linux 5.11: all that can be open has a number below the next one to be given. */
	int end = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	for (int fd = 3; fd < end; fd++)
		fcntl(fd, F_SETFD, FD_CLOEXEC);
	close(end);
}

/*
 * The kernel's own call: sigaction refuses the two signals that glibc keeps for itself, and a
 * program started by glibc's posix_spawn (make does so) has them ignored. The kernel's structure
 * begins with the handler; all zero is the default.
 */
struct kernel_action {
	unsigned long words[8];
};

static long change_signal(int signal, const struct kernel_action *to, struct kernel_action *from)
{
	return syscall(SYS_rt_sigaction, signal, to, from, sizeof(uint64_t));
}

static uint64_t ignored_signals(void)
{
	uint64_t ignored = 0;
	for (int signal = 1; signal < NSIG; signal++) {
		struct kernel_action action;
		if (!change_signal(signal, NULL, &action) &&
			action.words[0] == (unsigned long)SIG_IGN)
			ignored |= UINT64_C(1) << (signal - 1);
	}
	return ignored;
}

int tools_init(struct tools *tools, struct loop *loop, struct store *store, size_t output_max,
	int64_t timeout_ns, const struct rlimit *files, struct error *err)
{
	*tools = (struct tools){.loop = loop,
		.store = store,
		.output_max = output_max,
		.timeout_ns = timeout_ns,
		.files = *files,
		.null_fd = -1,
		.place_fds = {-1, -1}};
	int subreaper = 0;
	prctl(PR_GET_CHILD_SUBREAPER, &subreaper, 0, 0, 0);
	tools->reap_orphans = getpid() == 1 || subreaper;
	tools->private_files = !close_range_(~0U, ~0U, CLOSE_RANGE_UNSHARE);
	/* Inherited as ignored, it would have the kernel reap our children before we ask. */
	sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);

	tools->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (tools->null_fd < 0)
		return error_set(err, errno, "cannot open '/dev/null'");
	for (int i = 0; i < 2; i++) {
		tools->place_fds[i] = fcntl(tools->null_fd, F_DUPFD_CLOEXEC, 3);
		if (tools->place_fds[i] < 0) {
			error_set(err, errno, "cannot copy a descriptor");
			tools_release(tools);
			return -1;
		}
	}
	return 0;
}

void tools_release(struct tools *tools)
{
	for (int i = 0; i < 2; i++)
		if (tools->place_fds[i] >= 0)
			close(tools->place_fds[i]);
	close(tools->null_fd);
}

/* ---- starting */

/*
 * The child runs on a stack of its own in our memory while we are stopped, until it execs or ends
 * (CLONE_VFORK): no page table is copied, at any size of ours. No handler can run in it, as there
 * are none. Nor is our table of descriptors copied, one reference for each of thousands of sockets:
 * the child shares it (CLONE_FILES) just until close_range gives it a table that ends where its
 * own descriptors do. Returns the status to end with if there was nothing to exec.
 */
static int child(void *argument)
{
	const struct tool *tool = argument;
	const struct tools *tools = tool->tools;
	unsigned end = (unsigned)tools->null_fd;
	for (int i = 0; i < 2; i++)
		if ((unsigned)tools->place_fds[i] > end)
			end = (unsigned)tools->place_fds[i];
	if (tools->private_files && close_range_(end + 1, ~0U, CLOSE_RANGE_UNSHARE))
		return STATUS_NOT_EXECUTABLE;

	setpgid(0, 0);
	dup2(tools->null_fd, STDIN_FILENO);
	dup2(tools->place_fds[0], STDOUT_FILENO);
	dup2(tools->place_fds[1], STDERR_FILENO);
	for (uint64_t left = tools->ignored_signals; left; left &= left - 1)
		change_signal(__builtin_ctzll(left) + 1, &(struct kernel_action){{0}}, NULL);
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setrlimit(RLIMIT_NOFILE, &tools->files);

	/* Not execvp, which hands what is no program to a shell. */
	const char *name = tool->argv[0];
	if (strchr(name, '/')) {
		execve(name, tool->argv, environ);
		return errno == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_EXECUTABLE;
	}
	int status = STATUS_NOT_FOUND;
	const char *path = getenv("PATH");
	if (!path)
		path = "/usr/local/bin:/bin:/usr/bin";
	for (const char *end_of_folder; *name; path = end_of_folder + 1) {
		char file[4096];
		end_of_folder = strchrnul(path, ':');
		size_t length = (size_t)(end_of_folder - path), name_length = strlen(name);
		if (length + 1 + name_length < sizeof file) {
			memcpy(file, path, length);
			if (length)
				file[length++] = '/';
			memcpy(file + length, name, name_length + 1);
			execve(file, tool->argv, environ);
			if (errno != ENOENT && errno != ENOTDIR)
				status = STATUS_NOT_EXECUTABLE;
		}
		if (!*end_of_folder)
			break;
	}
	return status;
}

static int clone_child(struct tool *tool, int *pidfd)
{
	/* One child at a time: we are stopped while it uses the stack. */
	static char stack[CHILD_STACK_BYTES] __attribute__((aligned(64)));
	struct tools *tools = tool->tools;
	int flags = CLONE_VM | CLONE_VFORK | SIGCHLD;
	if (tools->private_files) {
		tool->pid = clone(child, stack + sizeof stack, flags | CLONE_FILES | CLONE_PIDFD,
			tool, pidfd);
		if (tool->pid >= 0)
			return 0;
		if (errno != EINVAL && errno != EPERM && errno != ENOSYS)
			return -1;
		tools->private_files = false; /* not allowed here */
	}
	tool->pid = clone(child, stack + sizeof stack, flags, tool);
	if (tool->pid < 0)
		return -1;
	*pidfd = (int)syscall(SYS_pidfd_open, tool->pid, 0U);
	if (*pidfd >= 0)
		return 0;
	int code = errno;
	kill(tool->pid, SIGKILL);
	waitpid(tool->pid, NULL, 0);
	errno = code;
	return -1;
}

static void stream_ready(struct tool *tool, struct tool_stream *stream, uint32_t events);
static void process_ready(struct source *source, uint32_t events);
static void timer_expired(struct timer *timer);

static void out_ready(struct source *source, uint32_t events)
{
	struct tool *tool = container_of(source, struct tool, out.source);
	stream_ready(tool, &tool->out, events);
}

static void err_ready(struct source *source, uint32_t events)
{
	struct tool *tool = container_of(source, struct tool, err.source);
	stream_ready(tool, &tool->err, events);
}

/* A pipe whose write end is put into place number `i`. Its read end is left blocking: it is read
 * only when there is something, once for each time that is said. */
static int open_pipe(struct tools *tools, int i, int *read_fd)
{
	int fds[2];
	if (pipe2(fds, O_CLOEXEC))
		return -1;
	int result = dup3(fds[1], tools->place_fds[i], O_CLOEXEC);
	int code = errno;
	close(fds[1]);
	if (result < 0) {
		close(fds[0]);
		errno = code;
		return -1;
	}
	*read_fd = fds[0];
	return 0;
}

static int watch(struct tool *tool, struct source *source, int *fd,
	void (*ready)(struct source *source, uint32_t events))
{
	struct error err;
	source->ready = ready;
	if (loop_add(tool->tools->loop, source, *fd, EPOLLIN, &err)) {
		errno = err.code;
		return -1;
	}
	*fd = -1;
	return 0;
}

static void unwatch(struct tool *tool, struct source *source)
{
	int fd = source->fd;
	if (fd < 0)
		return;
	/* A child with a copy of our table may still hold it, and the loop would go on hearing of
	 * it; one with a table of its own never had it. */
	if (tool->tools->private_files)
		loop_forget(tool->tools->loop, source);
	else
		loop_remove(tool->tools->loop, source);
	close(fd);
}

static int spawn(struct tool *tool)
{
	struct tools *tools = tool->tools;
	if (!tools->signals_known) {
		/* One call for each signal: not before the first request, which need not wait. */
		tools->ignored_signals = ignored_signals();
		tools->signals_known = true;
	}
	auto_close int out_fd = -1;
	auto_close int err_fd = -1;
	auto_close int pidfd = -1;
	int result = -1;
	if (!open_pipe(tools, 0, &out_fd) && !open_pipe(tools, 1, &err_fd))
		result = clone_child(tool, &pidfd);
	int code = errno;
	for (int i = 0; i < 2; i++)
		dup3(tools->null_fd, tools->place_fds[i], O_CLOEXEC);
	if (!result && (watch(tool, &tool->process, &pidfd, process_ready) ||
			       watch(tool, &tool->out.source, &out_fd, out_ready) ||
			       watch(tool, &tool->err.source, &err_fd, err_ready))) {
		code = errno;
		kill(-tool->pid, SIGKILL);
		waitpid(tool->pid, NULL, 0);
		unwatch(tool, &tool->process);
		unwatch(tool, &tool->out.source);
		result = -1;
	}
	errno = code;
	return result;
}

void tool_start(
	struct tools *tools, struct tool *tool, char **argv, void (*ended)(struct tool *tool))
{
	*tool = (struct tool){.ended = ended, .tools = tools, .argv = argv};
	tool->process.fd = tool->out.source.fd = tool->err.source.fd = -1;
	chain_init(&tool->out.text, tools->store);
	chain_init(&tool->err.text, tools->store);
	escape_init(&tool->out.escape, tools->output_max);
	escape_init(&tool->err.escape, tools->output_max);
	if (tools->last_waiting)
		tools->last_waiting->next = tool;
	else
		tools->first_waiting = tool;
	tools->last_waiting = tool;
}

static struct tool *take_waiting(struct tools *tools)
{
	struct tool *tool = tools->first_waiting;
	tools->first_waiting = tool->next;
	if (!tools->first_waiting)
		tools->last_waiting = NULL;
	return tool;
}

static bool is_shortage(int code)
{
	return code == EMFILE || code == ENFILE || code == EAGAIN || code == ENOMEM ||
	       code == ENOSPC;
}

bool tools_pump(struct tools *tools, int count)
{
	for (; tools->first_waiting && count > 0; count--) {
		struct tool *tool = tools->first_waiting;
		if (spawn(tool)) {
			/* Descriptors or processes have run out: go on when a tool has ended. */
			if (is_shortage(errno) && tools->running)
				return false;
			take_waiting(tools);
			tool->status = STATUS_NOT_EXECUTABLE << 8; /* as of waitpid(2) */
			tool->ended(tool);
			continue;
		}
		take_waiting(tools);
		tool->previous = NULL;
		tool->next = tools->running;
		if (tool->next)
			tool->next->previous = tool;
		tools->running = tool;
		tool->timer.expired = timer_expired;
		loop_timer_set(tools->loop, &tool->timer, now_ns() + tools->timeout_ns);
	}
	return tools->first_waiting;
}

/* ---- running */

static void take_output(struct tool_stream *stream, const char *bytes, size_t length)
{
	static struct buf escaped = {.max = SIZE_MAX / 2};
	if (length)
		escape_bytes(&stream->escape, &escaped, bytes, length);
	else
		escape_end(&stream->escape, &escaped);
	chain_append(&stream->text, escaped.data, escaped.length);
	buf_clear(&escaped);
}

static void end_stream(struct tool *tool, struct tool_stream *stream)
{
	if (stream->source.fd < 0)
		return;
	unwatch(tool, &stream->source);
	take_output(stream, NULL, 0);
}

static char read_buffer[READ_BYTES];

static void finish(struct tool *tool)
{
	struct tools *tools = tool->tools;
	loop_timer_clear(tools->loop, &tool->timer);
	if (tool->previous)
		tool->previous->next = tool->next;
	else
		tools->running = tool->next;
	if (tool->next)
		tool->next->previous = tool->previous;
	tool->ended(tool);
}

static bool group_is_gone(const struct tool *tool)
{
	return kill(-tool->pid, 0) && errno == ESRCH;
}

/* The process has ended: finish if its output has too, and after a timeout its whole group. */
static void finish_if_over(struct tool *tool)
{
	if (tool->out.source.fd < 0 && tool->err.source.fd < 0)
		tool->drained = true;
	if (!tool->exited || !tool->drained)
		return;
	if (tool->timed_out && !tool->killed && !group_is_gone(tool)) {
		loop_timer_set(tool->tools->loop, &tool->timer, tool->kill_ns);
		return;
	}
	finish(tool);
}

static void stream_ready(struct tool *tool, struct tool_stream *stream, uint32_t events)
{
	ssize_t got = 0;
	if (events & EPOLLIN) {
		got = read(stream->source.fd, read_buffer, sizeof read_buffer);
		if (got < 0 && (errno == EINTR || errno == EAGAIN))
			return;
		if (got > 0)
			take_output(stream, read_buffer, (size_t)got);
	}
	/* No writer was left, and the pipe was emptied: a further read would only say so. */
	if (got <= 0 || ((events & EPOLLHUP) && (size_t)got < sizeof read_buffer)) {
		end_stream(tool, stream);
		finish_if_over(tool);
	}
}

static void process_ready(struct source *source, uint32_t events)
{
	struct tool *tool = container_of(source, struct tool, process);
	struct tools *tools = tool->tools;
	(void)events;
	pid_t got;
	do
		got = waitpid(tool->pid, &tool->status, WNOHANG);
	while (got < 0 && errno == EINTR);
	if (!got)
		return;
	unwatch(tool, source);
	tool->exited = true;
	if (tools->reap_orphans)
		tools_reap_orphans(tools);
	loop_timer_set(tools->loop, &tool->timer, now_ns() + DRAIN_MS * NS_PER_MS);
	finish_if_over(tool);
}

/* Take what is in the pipe now; whoever else holds it is not waited for. */
static void drain(struct tool *tool, struct tool_stream *stream)
{
	int available;
	if (stream->source.fd < 0)
		return;
	if (!ioctl(stream->source.fd, FIONREAD, &available) && available > 0) {
		ssize_t got = read(stream->source.fd, read_buffer, sizeof read_buffer);
		if (got > 0)
			take_output(stream, read_buffer, (size_t)got);
	}
	end_stream(tool, stream);
}

static void timer_expired(struct timer *timer)
{
	struct tool *tool = container_of(timer, struct tool, timer);
	struct tools *tools = tool->tools;
	if (tool->exited && !tool->drained) {
		drain(tool, &tool->out);
		drain(tool, &tool->err);
		finish_if_over(tool);
	} else if (!tool->timed_out) {
		tool->timed_out = true;
		kill(-tool->pid, SIGTERM);
		tool->kill_ns = now_ns() + GRACE_MS * NS_PER_MS;
		loop_timer_set(tools->loop, timer, tool->kill_ns);
	} else {
		tool->killed = true;
		kill(-tool->pid, SIGKILL);
		finish_if_over(tool);
	}
}

void tools_kill(struct tools *tools)
{
	for (struct tool *tool = tools->running; tool; tool = tool->next)
		kill(-tool->pid, SIGKILL);
}

void tools_reap_orphans(struct tools *tools)
{
	for (;;) {
		siginfo_t info = {0};
		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) || !info.si_pid)
			return;
		/* One of ours: its own event is on the way, and brings us here again. */
		for (struct tool *tool = tools->running; tool; tool = tool->next)
			if (tool->pid == info.si_pid && !tool->exited)
				return;
		waitpid(info.si_pid, NULL, WNOHANG);
	}
}

/* ---- the message */

/* The longest prefix of whole code points that stands for at most `max` bytes. Returns its length;
 * *ends_in_lf is set if it is not empty. `text` is what escape_bytes writes. */
static size_t cut_text(const char *text, size_t length, size_t max, bool *ends_in_lf)
{
	size_t at = 0, bytes = 0;
	while (at < length) {
		unsigned char c = (unsigned char)text[at];
		size_t taken = 1, stands_for = 1;
		if (c == '\\')
			taken = text[at + 1] == 'u' ? 6 : 2;
		else if (c >= 0x80)
			taken = stands_for = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
		if (bytes + stands_for > max)
			break;
		*ends_in_lf = c == '\\' && text[at + 1] == 'n';
		at += taken;
		bytes += stands_for;
	}
	return at;
}

static void add_line(struct chain *to, size_t begin, bool *ends_in_lf, const char *line)
{
	if (to->length > begin && !*ends_in_lf)
		chain_append(to, "\\n", 2);
	chain_append(to, line, strlen(line));
	*ends_in_lf = false;
}

void tool_message(struct tool *tool, struct chain *to)
{
	const struct escape *out = &tool->out.escape, *err = &tool->err.escape;
	size_t begin = to->length, room = tool->tools->output_max - out->length;
	bool ends_in_lf = out->ends_in_lf;
	bool truncated = out->cut || err->cut || err->length > room;
	chain_move(to, &tool->out.text);
	if (!out->cut && err->length <= room) {
		if (err->length)
			ends_in_lf = err->ends_in_lf;
		chain_move(to, &tool->err.text);
	} else if (!out->cut) {
		size_t length = tool->err.text.length;
		auto_free char *text = xmalloc(length);
		chain_read(&tool->err.text, 0, text, length);
		chain_append(to, text, cut_text(text, length, room, &ends_in_lf));
	}
	if (truncated)
		add_line(to, begin, &ends_in_lf, "[truncated]");

	int status = WIFSIGNALED(tool->status) ? 128 + WTERMSIG(tool->status)
					       : WEXITSTATUS(tool->status);
	char line[32];
	snprintf(line, sizeof line, "[exit %d]", status);
	if (tool->timed_out)
		add_line(to, begin, &ends_in_lf, "[timeout]");
	else if (status)
		add_line(to, begin, &ends_in_lf, line);
}

void tool_release(struct tool *tool)
{
	loop_timer_clear(tool->tools->loop, &tool->timer);
	unwatch(tool, &tool->process);
	unwatch(tool, &tool->out.source);
	unwatch(tool, &tool->err.source);
	chain_cut(&tool->out.text, 0);
	chain_cut(&tool->err.text, 0);
	free(tool->argv);
	tool->argv = NULL;
}
