/* Numbers from the command line and the environment: whole text, range checked, never truncated. */
#ifndef COMMON_NUMBER_H
#define COMMON_NUMBER_H

#include <stdint.h>

struct error;

/* Decimal integer of min … max. `name` is what messages call it ("AGENT_SESSIONS", "--port"). */
int number_parse(const char *text, const char *name, int64_t min, int64_t max, int64_t *out,
	struct error *err);

#endif
