/*
 * A strict JSON scanner that allocates nothing, for bodies whose shape and content are known: it
 * compares instead of building. Every function returns false when the text is not what was asked
 * for or not JSON; the scanner's place is then undefined, and the caller turns to a full parser.
 */
#ifndef MOCKLLM_SCAN_H
#define MOCKLLM_SCAN_H

#include <stdbool.h>
#include <stddef.h>

struct scan {
	const char *at, *end;
};

/* Skip blanks; true and past it if `c` comes next. */
bool scan_char(struct scan *scan, char c);

/* A string whose value is exactly these bytes (UTF-8). */
bool scan_text(struct scan *scan, const char *text, size_t length);

/* A string without escapes, as it stands in the text; for member names. */
bool scan_name(struct scan *scan, const char **name, size_t *length);

bool scan_bool(struct scan *scan, bool *out);

/* Any value, nested at most 64 deep, with plain ASCII member names and numbers of usual length. */
bool scan_skip(struct scan *scan);

/* Nothing but blanks is left. */
bool scan_ended(struct scan *scan);

#endif
