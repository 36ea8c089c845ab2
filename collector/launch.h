/*
 * The collector's side of the run protocol (launch_proto.h).
 *
 * A server listens on a Unix socket and keeps one launcher for each contender's name. Requests are
 * synchronous and bounded in time: they belong between runs, or to the barrier. What a launcher
 * tells by itself (the end of its process, its own going away) arrives through the loop.
 */
#ifndef COLLECTOR_LAUNCH_H
#define COLLECTOR_LAUNCH_H

#include "collector/launch_proto.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct error;
struct loop;
struct launch_server;
struct launcher;

/*
 * Listen at `path`, open to every user if `for_all`. A stale socket is replaced; one that another
 * collector listens at, or something else of that name, is an error.
 */
struct launch_server *launch_server_new(
	struct loop *loop, const char *path, bool for_all, struct error *err);
/* Closes all connections, which ends what the launchers run, and removes the socket. */
void launch_server_free(struct launch_server *server);

/* The launcher that stands for a contender, or NULL while none is connected. It is the server's,
 * and valid until the loop runs after launcher_lost. */
struct launcher *launch_find(struct launch_server *server, const char *name);
/* Close one. Later ones of the same name are welcome. */
void launcher_drop(struct launcher *launcher);

const char *launcher_name(const struct launcher *launcher);
const char *launcher_prefix(const struct launcher *launcher);  /* {prefix} of manifests */
const char *launcher_here(const struct launcher *launcher);    /* {here} of manifests */
const char *launcher_scratch(const struct launcher *launcher); /* working folder */
pid_t launcher_pid(const struct launcher *launcher);           /* in our own namespace */

/*
 * `changed` is called from the loop when the launcher has told the end of its process, or was
 * lost; NULL for nobody. launcher_exited gives the end of the last spawned process, once known.
 */
void launcher_watch(struct launcher *launcher, void (*changed)(void *context), void *context);
bool launcher_exited(const struct launcher *launcher, struct launch_exited *exited);
bool launcher_lost(const struct launcher *launcher);

/* Requests; each fails with the launcher's own words, or because it was lost. The texts of argv
 * and envp are NULL-ended lists. The caller owns the descriptors. */
int launcher_spawn(struct launcher *launcher, const char *const argv[], const char *const envp[],
	pid_t *pid, int fds[LAUNCH_FDS], struct error *err);
int launcher_kill(struct launcher *launcher, struct error *err);
int launcher_probe(struct launcher *launcher, struct launch_probe *probe, struct error *err);
int launcher_clean(struct launcher *launcher, struct error *err);
int launcher_write_file(struct launcher *launcher, const char *name, const void *bytes,
	size_t length, struct error *err);
/* Descriptor of a file or folder in the contender's container, or -1. */
int launcher_open(struct launcher *launcher, const char *path, struct error *err);

/* The pid in our own namespace that a pidfd stands for. */
int pidfd_pid(int pidfd, pid_t *pid, struct error *err);

#endif
