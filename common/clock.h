/*
 * The one clock: CLOCK_MONOTONIC in nanoseconds, stamped in the callback that saw the event. The
 * time of day is a label only.
 */
#ifndef COMMON_CLOCK_H
#define COMMON_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)

static inline int64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * NS_PER_S + t.tv_nsec;
}

/* The time of day in UTC as strftime(3) has it. */
#define CLOCK_STAMP "%Y-%m-%dT%H:%M:%SZ" /* of environment.json and records */
enum { CLOCK_LABEL_MAX = 32 };
static inline void clock_label(const char *format, char label[CLOCK_LABEL_MAX])
{
	time_t now = time(NULL);
	struct tm utc;
	gmtime_r(&now, &utc);
	strftime(label, CLOCK_LABEL_MAX, format, &utc);
}

#endif
