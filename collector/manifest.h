/*
 * A manifest describes one contender: how it is started, what it is called, what it ships
 * (docs/contenders.md). In its texts "{prefix}" stands for the installed tree and "{here}" for the
 * manifest's own folder.
 */
#ifndef COLLECTOR_MANIFEST_H
#define COLLECTOR_MANIFEST_H

#include <jansson.h>
#include <stdbool.h>

struct error;

enum { MANIFEST_NAME_MAX = 63, MANIFEST_CONTRACT = 1 };

struct manifest {
	const char *name, *title; /* borrowed from json */
	const char *image;        /* its container image; NULL: the base image */
	const char **command;     /* NULL-ended, at least the program */
	const char **version;     /* NULL-ended, may be empty */
	const char **beliefs;     /* NULL-ended, may be empty */
	const char **ship;        /* NULL-ended, may be empty */
	bool yardstick;           /* no contender: others are shown against it */
	const json_t *environment;
	const json_t *tracks;
	json_t *json;
};

/* Of a file; the name need not be the file's. */
struct manifest *manifest_read_file(const char *path, struct error *err);
/* Of a JSON object that came from `where`, to which a reference is kept. */
struct manifest *manifest_read(json_t *object, const char *where, struct error *err);
void manifest_free(struct manifest *manifest); /* accepts NULL */
/* The JSON Schema of such files. New reference. */
json_t *manifest_schema(void);

/* Does command[index] name a file: the program, or an argument of the installed tree or of the
 * manifest's folder? */
bool manifest_names_file(const struct manifest *manifest, size_t index);
/* Is the file that `text` names one that the suite's own commands build or fetch? */
bool manifest_is_built_here(const char *text);
/* What helps where the file that `text` names is absent (without containers). */
const char *manifest_remedy(const char *text);

/* `text` with {prefix} and {here} replaced; malloc'ed. */
char *manifest_expand(const char *text, const char *prefix, const char *here);
/* The same for a NULL-ended list; free with texts_free. */
char **manifest_expand_all(const char *const texts[], const char *prefix, const char *here);
void texts_free(char **texts); /* accepts NULL */

/*
 * The contender's own variables in a track ("shipped" or one of `tracks`, which adds to and
 * replaces those of `environment`) as NAME → text. New reference.
 */
json_t *manifest_environment(const struct manifest *manifest, const char *track);

/* 0 if `name` is a name of a plan, contender or scenario: lower case, digits, '-'. */
int name_check(const char *name, const char *where, const char *field, struct error *err);
json_t *name_schema(void);

#endif
