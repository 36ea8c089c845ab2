/*
 * JSON Schemas (draft 7) of our files, made of the tables that read them (json.h), so that editors
 * can complete and check what is written.
 */
#ifndef COMMON_JSON_SCHEMA_H
#define COMMON_JSON_SCHEMA_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct json_field;

/* An object of these fields. `open`: it may have other members. New reference. */
json_t *json_schema_of(const struct json_field *fields, size_t count, bool open);

/*
 * Say more of a member: the keywords of `more` are put to those that it has, but for "type", which
 * may be null beside what the table says. Takes the reference.
 */
void json_schema_refine(json_t *schema, const char *member, json_t *more);
/* The texts that it may be; NULL-ended. */
void json_schema_choices(json_t *schema, const char *member, const char *const *choices);
/* An array's items. Takes the reference. */
void json_schema_items(json_t *schema, const char *member, json_t *items);

/* Text of a pattern, an array's item: {"type": "string", …}. */
json_t *json_schema_text(size_t min, size_t max, const char *pattern);

/* With what stands at the top of a document. Takes the reference. */
json_t *json_schema_document(json_t *schema, const char *title, const char *description);

#endif
