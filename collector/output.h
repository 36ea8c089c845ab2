/*
 * What a contender writes: JSON lines on stdout, of which only {"event":"done"} is looked at while
 * the run is being measured, and whatever on stderr, of which the end is kept.
 */
#ifndef COLLECTOR_OUTPUT_H
#define COLLECTOR_OUTPUT_H

#include "common/buf.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct run_facts;

enum { OUTPUT_LINE_MAX = 512 }; /* of the contract */

struct output {
	struct buf out, err;
	size_t scanned, err_total;
	int64_t out_bytes;
	bool flooded; /* more on stdout than lines_max allows */
};

/* Room for as many lines of stdout as the contract allows the run. */
void output_init(struct output *output, int64_t lines_max);
void output_release(struct output *output);

enum drained {
	DRAINED_MORE,  /* a piece was read */
	DRAINED_EMPTY, /* nothing there now */
	DRAINED_END,   /* end of file, or no more is wanted */
};

/* Read one piece of a non-blocking descriptor, so that no writer keeps the loop. */
enum drained output_read_stdout(struct output *output, int fd);
enum drained output_read_stderr(struct output *output, int fd);

/* Read to the end of a non-blocking descriptor and keep the first bytes, as many as `text` may
 * hold. Returns -1 when `deadline_ns` (CLOCK_MONOTONIC) comes first. */
int output_read_start(int fd, struct buf *text, int64_t deadline_ns);

/* Is there the line {"event":"done"} in what came since the last look? */
bool output_has_done(struct output *output);

/* After the run: fills stdout_…, stderr_tail, agent_turns and agent_errors. */
void output_take(const struct output *output, struct run_facts *facts);

/* Sort lines of stdout into facts; part of output_take. */
void output_lines_read(const char *text, size_t length, struct run_facts *facts);

#endif
