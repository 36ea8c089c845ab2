/*
 * Is this machine fit to measure on, and is everything there that a plan needs? (docs/doctor.md)
 *
 * Each check looks at one thing and is told as {"id", "status", "found", "remedy"}; remedy is null
 * where nothing is to be done.
 *   ok    nothing to be done
 *   warn  a plan can be played, and a figure is moved or clouded by it, or not to be had
 *   fail  the plan cannot be played, or all of it would be wrong
 * Warnings stand in environment.json and go from there into summary and reports. A plan with a
 * failure is not begun.
 */
#ifndef COLLECTOR_DOCTOR_H
#define COLLECTOR_DOCTOR_H

#include <jansson.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

struct buf;
struct plan;

struct doctor {
	/* ---- where to look: set by the caller, all borrowed */
	const char *root;          /* before /proc and /sys, normally "" */
	const char *cgroup_root;   /* normally /sys/fs/cgroup */
	const char *cgroup_parent; /* as of site.h; NULL: choose */
	const char *prefix;        /* the installed tree; local mode only */
	const char *results;       /* folder that results are made in, or will be */
	const char *engine;        /* Docker's socket; NULL: do not look for images */
	const struct plan *plan;   /* NULL: a plan of 100 sessions, split, and no contenders */
	bool containers;           /* contenders are in containers that others start */
	bool in_advance;           /* what the suite's own commands build may be absent yet */

	/* ---- what was seen there */
	json_t *machine; /* machine_describe */
	cpu_set_t cpus;  /* that this process may use */
	cpu_set_t instrument, contender;
	struct error split_problem; /* text "": the CPUs are shared out as the plan says */
	int64_t descriptors;        /* hard limit; -1: none */
	int64_t disk_free_bytes;    /* -1: not known */
	double steal_percent;       /* of all CPUs; below 0: not known */
	double busy_percent;        /* of the contender's CPUs; below 0: not known */
};

/* Look, and watch the CPUs for so long. doctor_release afterwards. */
void doctor_look(struct doctor *doctor, int64_t watch_ns);
void doctor_release(struct doctor *doctor);

/* All checks that apply, in a fixed order: new reference to an array. */
json_t *doctor_examine(const struct doctor *doctor);

/* How many of the findings have a status ("ok", "warn", "fail")? */
size_t doctor_count(const json_t *findings, const char *status);
/* The first failure as an error, "FOUND: REMEDY": -1, or 0 if there is none. */
int doctor_first_failure(const json_t *findings, struct error *err);
/* For people: a line each, remedies below, counts at the end. */
void doctor_text(const json_t *findings, bool colour, struct buf *out);

/* ---- for the checks themselves */

struct doctor_check {
	const char *id;
	/* New reference (doctor_finding), or NULL where it does not apply. */
	json_t *(*examine)(const struct doctor *doctor);
};

enum doctor_status { DOCTOR_OK, DOCTOR_WARN, DOCTOR_FAIL };

/* Takes both texts; remedy may be NULL. */
json_t *doctor_finding(enum doctor_status status, char *found, char *remedy);
/* The most concurrent sessions that there will be. */
int64_t doctor_sessions(const struct doctor *doctor);

#endif
