/* Text as the inside of a JSON string. */
#ifndef MOCKLLM_ESCAPE_H
#define MOCKLLM_ESCAPE_H

#include "common/buf.h"

/*
 * Add valid UTF-8, escaped. Characters beyond the basic plane go out as a pair of \u escapes, all
 * others that need no escape as they are: clients meet both.
 */
void escape_json(struct buf *out, const char *text, size_t length);

#endif
