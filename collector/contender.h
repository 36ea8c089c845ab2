/* Starting what a manifest describes, through its launcher. */
#ifndef COLLECTOR_CONTENDER_H
#define COLLECTOR_CONTENDER_H

#include "collector/launch_proto.h"

#include <jansson.h>

struct cgroup;
struct error;
struct launcher;
struct loop;
struct manifest;

/* The variables that every contender has, and its own of the track: NAME → text. New reference. */
json_t *contender_environment(
	const struct launcher *launcher, const struct manifest *manifest, const char *track);
void contender_set(json_t *environment, const char *name, const char *value);

/*
 * Spawn a command of a manifest. It waits for GO. What is read from it does not block. The caller
 * closes the descriptors with contender_close, which skips those that are -1.
 */
int contender_spawn(struct launcher *launcher, const char **command, const json_t *environment,
	int fds[LAUNCH_FDS], struct error *err);
void contender_close(int fds[LAUNCH_FDS]);

/*
 * Run the version command, outside of any measurement: the first line of its output, printable,
 * malloc'ed. NULL with the reason if it fails or lasts longer than 20 s.
 */
char *contender_version(struct loop *loop, struct launcher *launcher,
	const struct manifest *manifest, struct error *err);
/*
 * Likewise the beliefs command, in the environment of a track and in a leaf, which has the limits
 * of runs: the JSON object that it prints, new reference.
 */
json_t *contender_beliefs(struct loop *loop, struct launcher *launcher,
	const struct manifest *manifest, const char *track, const struct cgroup *leaf,
	struct error *err);

#endif
