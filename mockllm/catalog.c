#include "mockllm/catalog.h"

#include "common/cleanup.h"
#include "common/error.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct loaded *loaded_hold(struct loaded *loaded)
{
	loaded->holders++;
	return loaded;
}

void loaded_drop(struct loaded *loaded)
{
	if (!loaded || --loaded->holders)
		return;
	script_release(&loaded->script);
	scenario_free(loaded->scenario);
	free(loaded);
}

/* Where the name is, or would have to be put. */
static size_t place_of(const struct catalog *catalog, const char *name)
{
	size_t i = 0;
	while (i < catalog->count && strcmp(catalog->items[i]->scenario->name, name) < 0)
		i++;
	return i;
}

struct loaded *catalog_find(const struct catalog *catalog, const char *name)
{
	size_t i = place_of(catalog, name);
	if (i == catalog->count || strcmp(catalog->items[i]->scenario->name, name))
		return NULL;
	return catalog->items[i];
}

void catalog_put(struct catalog *catalog, struct scenario *scenario)
{
	struct loaded *loaded = xcalloc(1, sizeof *loaded);
	loaded->scenario = scenario;
	script_init(&loaded->script, scenario, 0, catalog->tool_path, catalog->tool_socket);
	size_t i = place_of(catalog, scenario->name);
	if (catalog_find(catalog, scenario->name)) {
		loaded_drop(catalog->items[i]);
	} else {
		catalog->items =
			xrealloc(catalog->items, (catalog->count + 1) * sizeof *catalog->items);
		memmove(catalog->items + i + 1, catalog->items + i,
			(catalog->count - i) * sizeof *catalog->items);
		catalog->count++;
	}
	catalog->items[i] = loaded_hold(loaded);
}

int catalog_read(struct catalog *catalog, const char *directory, struct error *err)
{
	DIR *dir = opendir(directory);
	if (!dir)
		return error_set(err, errno, "cannot open the scenarios directory '%s'", directory);
	int result = 0;
	struct dirent *entry;
	while (!result && (entry = readdir(dir))) {
		const char *suffix = strrchr(entry->d_name, '.');
		if (!suffix || strcmp(suffix, ".json") || entry->d_name[0] == '.')
			continue;
		auto_free char *path = xasprintf("%s/%s", directory, entry->d_name);
		struct scenario *scenario = scenario_read_file(path, err);
		if (scenario)
			catalog_put(catalog, scenario);
		else
			result = -1;
	}
	closedir(dir);
	return result;
}

void catalog_release(struct catalog *catalog)
{
	for (size_t i = 0; i < catalog->count; i++)
		loaded_drop(catalog->items[i]);
	free(catalog->items);
	catalog->items = NULL;
	catalog->count = 0;
}
