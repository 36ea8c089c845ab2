/*
 * The agent of agent/CONTRACT.md in C. This file is the process: its signals, its descriptors, its
 * end.
 */
#include "agent/c/agent.h"
#include "agent/c/config.h"
#include "agent/c/dial.h"
#include "common/descriptors.h"
#include "common/error.h"
#include "common/loop.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { EXIT_TERMINATED = 128 + SIGTERM };

struct process {
	struct agent agent;
	struct source signals, input;
	bool terminated, input_ended;
};

static void signal_came(struct source *source, uint32_t events)
{
	struct process *process = container_of(source, struct process, signals);
	struct signalfd_siginfo info;
	(void)events;
	while (read(source->fd, &info, sizeof info) == sizeof info) {
		if (info.ssi_signo == SIGTERM)
			process->terminated = true;
		else
			tools_reap_orphans(&process->agent.tools);
	}
}

static void input_came(struct source *source, uint32_t events)
{
	struct process *process = container_of(source, struct process, input);
	char bytes[4096];
	(void)events;
	ssize_t got = read(STDIN_FILENO, bytes, sizeof bytes);
	process->input_ended = !got || (got < 0 && errno != EINTR && errno != EAGAIN);
}

/* Each session takes a socket, each running tool three descriptors. */
static struct rlimit raise_files_limit(void)
{
	struct rlimit before, after;
	getrlimit(RLIMIT_NOFILE, &before);
	after = before;
	after.rlim_cur = after.rlim_max;
	setrlimit(RLIMIT_NOFILE, &after);
	return before;
}

/* No handlers anywhere: signals are read from a descriptor, or blocked (SIGPIPE: writes say so). */
static int watch_signals(struct process *process, struct loop *loop, struct error *err)
{
	sigset_t watched, blocked;
	sigemptyset(&watched);
	sigaddset(&watched, SIGTERM);
	if (process->agent.tools.reap_orphans)
		sigaddset(&watched, SIGCHLD);
	blocked = watched;
	sigaddset(&blocked, SIGPIPE);
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	int fd = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return error_set(err, errno, "cannot watch signals");
	process->signals.ready = signal_came;
	return loop_add(loop, &process->signals, fd, EPOLLIN, err);
}

/* The barrier: our memory is read between the last line and the end of file on stdin. */
static int wait_for_end_of_input(struct process *process, struct loop *loop, struct error *err)
{
	process->input.ready = input_came;
	if (loop_add(loop, &process->input, STDIN_FILENO, EPOLLIN, err)) {
		if (err->code != EPERM)
			return -1;
		/* A file or /dev/null, which epoll does not take: it never blocks. */
		process->input.fd = -1;
		while (!process->input_ended)
			input_came(&process->input, EPOLLIN);
	}
	while (!process->input_ended && !process->terminated)
		if (agent_step(&process->agent, err))
			return -1;
	return 0;
}

static int run(struct process *process, struct loop *loop, struct error *err)
{
	struct agent *agent = &process->agent;
	if (watch_signals(process, loop, err))
		return -1;
	while (agent->live && !process->terminated)
		if (agent_step(agent, err))
			return -1;
	if (!process->terminated) {
		report_done(&agent->report);
		if (report_flush(&agent->report, err) || wait_for_end_of_input(process, loop, err))
			return -1;
	}
	return 0;
}

static int fail(const struct error *err, int status)
{
	fprintf(stderr, "agent-c: %s\n", err->text);
	return status;
}

int main(int argc, char **argv)
{
	static struct process process;
	struct config config;
	struct error err;
	if (argc > 1 && !strcmp(argv[1], "--version")) {
		printf("agent-c %s, %s\n", TURNMETER_VERSION, dialer_version());
		return 0;
	}
	if (argc > 1) {
		fputs("usage: agent-c [--version]; settings are in the environment "
		      "(agent/CONTRACT.md)\n",
			stderr);
		return 2;
	}
	if (descriptors_open_standard(&err))
		return fail(&err, EXIT_FAILURE);
	tools_hide_descriptors();
	if (config_load(&config, &err)) {
		config_release(&config);
		return fail(&err, 2);
	}
	struct rlimit files = raise_files_limit();
	struct loop *loop = loop_new(&err);
	if (!loop || agent_init(&process.agent, loop, &config, &files, &err)) {
		loop_free(loop);
		config_release(&config);
		return fail(&err, EXIT_FAILURE);
	}
	int status = EXIT_SUCCESS;
	if (run(&process, loop, &err))
		status = fail(&err, EXIT_FAILURE);
	else if (process.terminated)
		status = EXIT_TERMINATED;
	else if (process.agent.failed)
		status = EXIT_FAILURE;
	tools_kill(&process.agent.tools);
	agent_release(&process.agent);
	loop_free(loop);
	config_release(&config);
	return status;
}
