/* The processes that descend from one, as /proc shows them; no other process is ever touched. */
#ifndef COLLECTOR_LAUNCHER_TREE_H
#define COLLECTOR_LAUNCHER_TREE_H

#include "collector/launch_proto.h"

struct error;

/* Memory of `root` and its descendants. */
int tree_probe(int root, struct launch_probe *probe, struct error *err);

/*
 * SIGKILL to all descendants of the caller (as PID 1: to every process of its namespace) until
 * none is left, zombies reaped by `reap`. Fails after 10 s.
 */
int tree_kill(void (*reap)(void *context), void *context, struct error *err);

#endif
