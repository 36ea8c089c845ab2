/* summary.json as others may read it: what it must have, and what it may. */
#ifndef COLLECTOR_SUMMARY_CHECK_H
#define COLLECTOR_SUMMARY_CHECK_H

#include <jansson.h>

struct error;

/* 0 if it has all that readers go by; "WHERE: cells[3].figures.overhead_ms.p50.n: …" if not. */
int summary_check(const json_t *summary, const char *where, struct error *err);

/* The JSON Schema of it, of the same tables. New reference. */
json_t *summary_schema(void);

#endif
