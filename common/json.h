/*
 * Reading JSON with messages that name the file and the field, over jansson.
 *
 * `where` is the path shown in messages: "configs/quick.json" or "configs/quick.json: plan.limits".
 * Our own files are read strictly: duplicate keys and unknown fields are errors. All values that
 * are borrowed live as long as the json_t they come from.
 */
#ifndef COMMON_JSON_H
#define COMMON_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;

enum { JSON_FILE_MAX = 16 << 20 };

/* Load a file of at most JSON_FILE_MAX bytes: an object. New reference, or NULL. */
json_t *json_read_file(const char *path, struct error *err);
/* The same for text that came from `where`. */
json_t *json_read_text(const char *text, size_t length, const char *where, struct error *err);

enum json_field_kind {
	JSON_FIELD_TEXT,   /* out: const char *; min, max: length in bytes */
	JSON_FIELD_INT,    /* out: int64_t; min, max */
	JSON_FIELD_REAL,   /* out: double (an integer is taken too); real_min, real_max */
	JSON_FIELD_BOOL,   /* out: bool */
	JSON_FIELD_OBJECT, /* out: json_t *, borrowed */
	JSON_FIELD_ARRAY,  /* out: json_t *, borrowed; min, max: number of items */
};

/* One field of an object. Tables of these validate, and document, every file of ours. */
struct json_field {
	const char *name;
	enum json_field_kind kind;
	bool optional; /* absent or null: *out keeps its value */
	void *out;
	int64_t min, max;
	double real_min, real_max;
	const char *help; /* what it means, with its unit */
};

/*
 * Read the fields of `object`; any other member is an error ("unknown field", "$schema" is
 * allowed). Messages: "WHERE: plan.repetitions: must be an integer of 1 to 1000, is 0". `path` is
 * the object's own path ("plan"), "" at the top.
 */
int json_read_fields(const json_t *object, const char *where, const char *path,
	const struct json_field *fields, size_t count, struct error *err);

/*
 * The same by a table that stands at file scope, so that schemas can be made of it too: its `out`
 * are JSON_AT(struct, member), places in *base.
 */
#define JSON_AT(type, member) ((void *)offsetof(type, member))
int json_read_struct(const json_t *object, const char *where, const char *path,
	const struct json_field *fields, size_t count, void *base, struct error *err);

/* The members that a table has, for objects that may have more than is read. New reference. */
json_t *json_known_members(const json_t *object, const struct json_field *fields, size_t count);

/* 0 if `text` is one of the NULL-ended `choices`; else "WHERE: PATH: must be "a" or "b", is …". */
int json_check_choice(const char *text, const char *const *choices, const char *where,
	const char *path, struct error *err);
/* Does the text match an extended regular expression? One that means the same in a JSON schema has
 * no classes, no back references and no escapes but of punctuation. */
bool json_text_matches(const char *text, const char *pattern);

/* An array of texts, each of 1 to max_length bytes, to a NULL-ended array of borrowed pointers;
 * free() it. */
const char **json_read_texts(const json_t *array, const char *where, const char *path,
	size_t max_length, struct error *err);

/*
 * A JSON string of outside bytes, never NULL: each byte that is not part of valid UTF-8 becomes
 * '?', and the text is cut to at most max_bytes at a character's edge. NULL is the empty string.
 */
json_t *json_text(const char *bytes, size_t max_bytes);

/* Set a member. Takes the reference; NULL, which is what jansson gives out of memory, aborts. */
void json_set(json_t *object, const char *name, json_t *value);

/* What a value is, for messages: "null", "an object", "-3", "\"text…\" (shortened)". Static,
 * thread-local storage, two at once. */
const char *json_describe(const json_t *value);

#endif
