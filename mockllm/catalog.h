/* The scenarios that the mock knows, by name. */
#ifndef MOCKLLM_CATALOG_H
#define MOCKLLM_CATALOG_H

#include "common/scenario.h"
#include "mockllm/script.h"

#include <stddef.h>

struct error;

/*
 * A scenario with its script of free play (seed 0). Held by the catalog and by whoever plays it, so
 * that it can be replaced while that lasts; counted by the main thread only.
 */
struct loaded {
	struct scenario *scenario;
	struct script script;
	int holders;
};

struct catalog {
	const char *tool_path;   /* borrowed */
	const char *tool_socket; /* borrowed */
	struct loaded **items;   /* sorted by name */
	size_t count;
};

/* Load every NAME.json of a directory. */
int catalog_read(struct catalog *catalog, const char *directory, struct error *err);
void catalog_release(struct catalog *catalog);

/* Takes over the scenario; replaces one of the same name. */
void catalog_put(struct catalog *catalog, struct scenario *scenario);

struct loaded *catalog_find(const struct catalog *catalog, const char *name); /* or NULL */

struct loaded *loaded_hold(struct loaded *loaded);
void loaded_drop(struct loaded *loaded); /* accepts NULL */

#endif
