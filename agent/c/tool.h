/*
 * Runs tools as child processes, by section 4 of agent/CONTRACT.md.
 *
 * Tools are started first-in first-out, a few at a time between looks at the event loop
 * (tools_pump), so that in a burst the output and end of running tools are not kept waiting behind
 * the start of others. Single-threaded; the process must have no signal handlers.
 */
#ifndef AGENT_C_TOOL_H
#define AGENT_C_TOOL_H

#include "agent/c/chain.h"
#include "agent/c/escape.h"
#include "common/loop.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

struct error;
struct tool;

struct tools {
	struct loop *loop;
	struct store *store;
	size_t output_max; /* bytes of UTF-8 of one tool message's text */
	int64_t timeout_ns;
	struct tool *first_waiting, *last_waiting;
	struct tool *running; /* list */
	bool reap_orphans;    /* this process is PID 1 or a subreaper */
	bool private_files;   /* close_range(2) can give a child a file table of its own */
	int null_fd;          /* /dev/null, and two places kept for a child's stdout and stderr: */
	int place_fds[2];     /* low numbers, so that the child's table is small */
	uint64_t ignored_signals; /* bit n - 1: signal n; reset in tools */
	bool signals_known;
	struct rlimit files; /* RLIMIT_NOFILE for tools */
};

/*
 * To be called before many descriptors are opened, as its own should have low numbers. `files` is
 * the limit that tools get. The loop and the store are borrowed.
 */
int tools_init(struct tools *tools, struct loop *loop, struct store *store, size_t output_max,
	int64_t timeout_ns, const struct rlimit *files, struct error *err);
void tools_release(struct tools *tools);

/* Text of one of a tool's streams, as JSON string text. */
struct tool_stream {
	struct source source; /* fd -1: at its end */
	struct chain text;
	struct escape escape;
};

struct tool {
	void (*ended)(struct tool *tool); /* the tool may be released in it */
	struct tools *tools;
	char **argv;
	struct tool *next, *previous;
	struct source process;
	struct tool_stream out, err;
	struct timer timer;
	int64_t kill_ns; /* when the group gets SIGKILL, once it is stopping */
	pid_t pid;
	int status; /* as of waitpid(2) */
	bool exited, drained, timed_out, killed;
};

/* Queue a tool; takes argv over. `ended` comes from the event loop or tools_pump, never from here.
 */
void tool_start(
	struct tools *tools, struct tool *tool, char **argv, void (*ended)(struct tool *tool));
/* Append the tool message's content to `to` as JSON string text. The tool's own text is used up. */
void tool_message(struct tool *tool, struct chain *to);
/* Free what an ended tool holds. One that waits or runs is let go of; no tool of this runner may
 * then be started or awaited any more. */
void tool_release(struct tool *tool);

/* Start up to `count` waiting tools. Returns whether more could be started at once. */
bool tools_pump(struct tools *tools, int count);

/* SIGKILL to the groups of all running tools. */
void tools_kill(struct tools *tools);

/* As PID 1 or a subreaper: reap children that no tool is waiting for. To be called on SIGCHLD. */
void tools_reap_orphans(struct tools *tools);

/* Set close-on-exec on every open descriptor from 3 on. */
void tools_hide_descriptors(void);

#endif
