/*
 * The lines on stdout: section 6 of agent/CONTRACT.md. They are collected and written together, at
 * most once for each turn of the event loop, each whole.
 */
#ifndef AGENT_C_REPORT_H
#define AGENT_C_REPORT_H

#include "common/buf.h"

#include <stdbool.h>
#include <stdint.h>

struct error;

enum { REPORT_LINE_MAX = 512 }; /* bytes, the LF included */

struct report {
	struct buf lines;
	bool turns; /* AGENT_REPORT=1 */
};

void report_init(struct report *report, bool turns);
void report_release(struct report *report);

void report_turn(
	struct report *report, const char *session, int turn, int attempt, int64_t turn_ns);
/* `message` is bytes of any kind, shortened to what the line can hold. */
void report_error(struct report *report, const char *session, int turn, const char *message);
void report_done(struct report *report);

/* Write what was collected to stdout. */
int report_flush(struct report *report, struct error *err);

#endif
