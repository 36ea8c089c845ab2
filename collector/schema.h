/* JSON Schemas of the files that people and programs write or read, by name; they stand in
 * configs/schema/. */
#ifndef COLLECTOR_SCHEMA_H
#define COLLECTOR_SCHEMA_H

#include <jansson.h>

/* "plan", "scenario", "manifest", "run", "summary"; NULL-ended. */
extern const char *const schema_names[];

/* New reference; NULL if there is none of that name. */
json_t *schema_of(const char *name);

#endif
