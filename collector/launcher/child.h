/* The spawned process: a child that waits for GO before it executes (see launch_proto.h). */
#ifndef COLLECTOR_LAUNCHER_CHILD_H
#define COLLECTOR_LAUNCHER_CHILD_H

#include "collector/launch_proto.h"

#include <signal.h>

struct error;

struct child {
	int pid;           /* 0: none */
	uint32_t id;       /* of the SPAWN */
	int64_t *spawn_ns; /* shared with the child; NULL before child_init */
};

/* Maps the shared stamp. Once. */
int child_init(struct child *child, struct error *err);

/*
 * Fork. argv and envp are NULL-ended. fds[LAUNCH_FDS] are the caller's to close, also after
 * sending them; -1 in all of them on failure. `mask` is the signal mask that the program gets.
 */
int child_spawn(struct child *child, char *const argv[], char *const envp[], int scratch_fd,
	const sigset_t *mask, int fds[LAUNCH_FDS], struct error *err);

#endif
