/*
 * Where runs are played: the mock, a launcher and a container group for each contender. In local
 * mode the collector starts mock and launchers itself and makes the groups; in container mode it
 * waits for those that others have started.
 */
#ifndef COLLECTOR_SITE_H
#define COLLECTOR_SITE_H

#include <jansson.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "collector/cgroup_limits.h"
#include "collector/plan.h"

struct error;
struct launch_server;
struct launcher;
struct loop;
struct mock_client;

struct site_options {
	const char *listen;        /* container mode: socket to listen at; NULL: local mode */
	const char *mock_control;  /* container mode: the mock's control socket */
	const char *image_sizes;   /* container mode: file of scripts/image-sizes.sh, or NULL */
	const char *cgroup_root;   /* normally /sys/fs/cgroup */
	const char *cgroup_parent; /* local mode: path of the group to work below; NULL: choose */
	const bool *stop;          /* set by a callback of the loop: give up waiting */
	FILE *progress;            /* what is being waited for, once it takes long; NULL: quiet */
};

/* What a contender is played with. */
struct place {
	struct launcher *launcher;
	struct cgroup container;
	cpu_set_t cpus;             /* that the contender may use */
	struct cgroup_limits asked; /* by the plan */
};

struct site {
	struct loop *loop;
	const struct plan *plan;
	const struct site_options *options;
	bool local;
	struct cgroup_fs fs;
	struct launch_server *server;
	struct mock_client *mock;
	json_t *mock_health;
	int64_t mock_port;
	cpu_set_t instrument, contender; /* CPUs; contender: local mode only */
	struct place *places;            /* by contender; launcher NULL: not attached */
	struct local *local_side;
};

/*
 * Open it: mock answering, every contender's launcher attached. Fails with one line and its
 * remedy; nothing is left then. The process is pinned to the instrument's CPUs in local mode.
 */
int site_open(struct site *site, struct loop *loop, const struct plan *plan,
	const struct site_options *options, struct error *err);
/* End everything that was started, remove everything that was made. */
void site_close(struct site *site);

/* Attach a contender again whose launcher was lost; waits for it. No-op if it is there. */
int site_attach(struct site *site, size_t contender, struct error *err);

/* Put the deeper cause in front of an error, if one of our own processes has ended. */
void site_explain(const struct site *site, struct error *err);
/* Is the mock known to have ended for good? */
bool site_mock_ended(const struct site *site);

#endif
