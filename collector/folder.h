/*
 * A results folder being written: plan.json and environment.json once, runs.jsonl line by line.
 * Made by root below a folder of somebody else, all in it is given to that folder's owner.
 */
#ifndef COLLECTOR_FOLDER_H
#define COLLECTOR_FOLDER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct error;

struct folder {
	int fd, log_fd;
	char *path;
	bool give; /* to uid, gid */
	uid_t uid;
	gid_t gid;
	bool made; /* by us, and nothing of worth is in it yet */
};

#define FOLDER_EMPTY                                                                               \
	{                                                                                          \
		-1, -1, NULL, false, 0, 0, false                                                   \
	}

/*
 * Make a folder for the results of a plan: `out` itself if it is not there yet, else
 * out/NAME-UTC. `out` NULL: below "results", which is made too.
 */
int folder_make(struct folder *folder, const char *out, const char *name, struct error *err);
/* Open one to go on: refused while another collector writes it; a torn last line is cut off. */
int folder_open(struct folder *folder, const char *path, struct error *err);
/* A folder just made in which no run was recorded is removed again. */
void folder_close(struct folder *folder);

/* Write a JSON file, indented, atomically. */
int folder_write_json(
	struct folder *folder, const char *name, const json_t *value, struct error *err);
/* Append a line by one write, and see to it that it stays. The log is as before on failure. */
int folder_append_run(struct folder *folder, const json_t *record, struct error *err);
/* Give a file or folder below to the owner. Failures do not matter to the measurement. */
void folder_give(const struct folder *folder, const char *name);

#endif
