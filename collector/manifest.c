#include "collector/manifest.h"

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"

#include <ctype.h>
#include <string.h>

enum { TEXT_MAX = 4096, LIST_MAX = 256 };

int name_check(const char *name, const char *where, const char *field, struct error *err)
{
	bool good = islower((unsigned char)*name) || isdigit((unsigned char)*name);
	for (const char *c = name; *c; c++)
		good &= islower((unsigned char)*c) || isdigit((unsigned char)*c) || *c == '-';
	if (good && strlen(name) <= MANIFEST_NAME_MAX)
		return 0;
	return error_set(err, 0,
		"%s: %s: must be 1 to %d lower-case letters, digits and '-', is \"%.80s\"", where,
		field, MANIFEST_NAME_MAX, name);
}

/* Variables that the contract gives are the collector's to set. */
static int check_environment(
	const json_t *environment, const char *where, const char *path, struct error *err)
{
	const char *name;
	json_t *value;
	json_object_foreach((json_t *)environment, name, value)
	{
		bool good = !isdigit((unsigned char)*name) && *name;
		for (const char *c = name; *c; c++)
			good &= isalnum((unsigned char)*c) || *c == '_';
		if (!good)
			return error_set(err, 0, "%s: %s: \"%.80s\" is no variable's name", where,
				path, name);
		if (!strncmp(name, "OPENAI_", 7) || !strncmp(name, "AGENT_", 6))
			return error_set(err, 0,
				"%s: %s.%s: variables of the contract are set by "
				"the collector, use another name",
				where, path, name);
		if (!json_is_string(value) ||
			strlen(json_string_value(value)) != json_string_length(value))
			return error_set(err, 0, "%s: %s.%s: must be a text without NUL, is %s",
				where, path, name, json_describe(value));
	}
	return 0;
}

static int check_tracks(const json_t *tracks, const char *where, struct error *err)
{
	const char *name;
	json_t *track;
	json_object_foreach((json_t *)tracks, name, track)
	{
		char path[128];
		snprintf(path, sizeof path, "tracks.%.100s", name);
		if (strcmp(name, "equalised"))
			return error_set(err, 0, "%s: %s: unknown track, there is \"equalised\"",
				where, path);
		const json_t *environment = NULL;
		const struct json_field fields[] = {
			{"environment", JSON_FIELD_OBJECT, false, &environment, 0, 0, 0, 0,
				"variables of this track, added to the contender's"}};
		if (!json_is_object(track))
			return error_set(err, 0, "%s: %s: must be an object, is %s", where, path,
				json_describe(track));
		if (json_read_fields(track, where, path, fields, 1, err) ||
			check_environment(environment, where, "tracks.equalised.environment", err))
			return -1;
	}
	return 0;
}

/* Paths must say where they are: nothing is looked up in PATH. */
static int check_path(const char *path, const char *where, const char *field, struct error *err)
{
	if (*path == '/' || !strncmp(path, "{prefix}/", 9) || !strncmp(path, "{here}/", 7))
		return 0;
	return error_set(err, 0,
		"%s: %s: must be a path that begins with '/', '{prefix}/' or '{here}/', is "
		"\"%.200s\"",
		where, field, path);
}

static const char **read_list(
	const json_t *array, const char *where, const char *path, struct error *err)
{
	if (!array)
		return xcalloc(1, sizeof(const char *));
	return json_read_texts(array, where, path, TEXT_MAX, err);
}

static int read_lists(struct manifest *manifest, const json_t *command, const json_t *version,
	const json_t *ship, const char *where, struct error *err)
{
	if (!(manifest->command = read_list(command, where, "command", err)) ||
		!(manifest->version = read_list(version, where, "version", err)) ||
		!(manifest->ship = read_list(ship, where, "ship", err)))
		return -1;
	if (check_path(manifest->command[0], where, "command[0]", err) ||
		(manifest->version[0] &&
			check_path(manifest->version[0], where, "version[0]", err)))
		return -1;
	for (size_t i = 0; manifest->ship[i]; i++) {
		char field[32];
		snprintf(field, sizeof field, "ship[%zu]", i);
		if (check_path(manifest->ship[i], where, field, err))
			return -1;
	}
	return 0;
}

struct manifest *manifest_read(json_t *object, const char *where, struct error *err)
{
	struct manifest *manifest = xcalloc(1, sizeof *manifest);
	const json_t *command = NULL, *version = NULL, *ship = NULL;
	int64_t contract = 0;
	const struct json_field fields[] = {
		{"name", JSON_FIELD_TEXT, false, &manifest->name, 1, 1000, 0, 0,
			"what plans and results call it"},
		{"title", JSON_FIELD_TEXT, true, &manifest->title, 1, 100, 0, 0,
			"what people read"},
		{"contract", JSON_FIELD_INT, false, &contract, MANIFEST_CONTRACT, MANIFEST_CONTRACT,
			0, 0, "version of agent/CONTRACT.md that it keeps"},
		{"command", JSON_FIELD_ARRAY, false, &command, 1, LIST_MAX, 0, 0,
			"program and arguments"},
		{"version", JSON_FIELD_ARRAY, true, &version, 1, LIST_MAX, 0, 0,
			"command that prints its version"},
		{"environment", JSON_FIELD_OBJECT, true, &manifest->environment, 0, 0, 0, 0,
			"variables of its own"},
		{"tracks", JSON_FIELD_OBJECT, true, &manifest->tracks, 0, 0, 0, 0,
			"\"equalised\": {\"environment\": …}"},
		{"ship", JSON_FIELD_ARRAY, true, &ship, 0, LIST_MAX, 0, 0,
			"files and folders that must be shipped beside the base image"},
		{"image", JSON_FIELD_TEXT, true, &manifest->image, 1, 255, 0, 0, "container image"},
		{"yardstick", JSON_FIELD_BOOL, true, &manifest->yardstick, 0, 0, 0, 0,
			"it is no contender, others are shown against it"},
	};
	manifest->json = json_incref(object);
	if (json_read_fields(object, where, "", fields, sizeof fields / sizeof *fields, err) ||
		name_check(manifest->name, where, "name", err) ||
		read_lists(manifest, command, version, ship, where, err) ||
		check_environment(manifest->environment, where, "environment", err) ||
		check_tracks(manifest->tracks, where, err)) {
		manifest_free(manifest);
		return NULL;
	}
	if (!manifest->title)
		manifest->title = manifest->name;
	return manifest;
}

struct manifest *manifest_read_file(const char *path, struct error *err)
{
	json_auto_t *object = json_read_file(path, err);
	return object ? manifest_read(object, path, err) : NULL;
}

void manifest_free(struct manifest *manifest)
{
	if (!manifest)
		return;
	free(manifest->command);
	free(manifest->version);
	free(manifest->ship);
	json_decref(manifest->json);
	free(manifest);
}

bool manifest_names_file(const struct manifest *manifest, size_t index)
{
	const char *text = manifest->command[index];
	return !index || !strncmp(text, "{prefix}/", 9) || !strncmp(text, "{here}/", 7);
}

const char *manifest_remedy(const char *text)
{
	if (!strncmp(text, "{prefix}/runtimes/", 18))
		return "fetch it with 'make runtimes'";
	if (!strncmp(text, "{prefix}/", 9))
		return "build it with 'make'";
	return "mend the manifest, or put the file there";
}

char *manifest_expand(const char *text, const char *prefix, const char *here)
{
	static const char *const names[] = {"{prefix}", "{here}"};
	const char *const values[] = {prefix, here};
	struct buf out;
	buf_init(&out, SIZE_MAX / 2);
	buf_add_text(&out, "");
	while (*text) {
		size_t used = 1;
		for (size_t i = 0; i < 2; i++) {
			if (strncmp(text, names[i], strlen(names[i])))
				continue;
			used = strlen(names[i]);
			buf_add_text(&out, values[i]);
		}
		if (used == 1)
			buf_add_char(&out, *text);
		text += used;
	}
	return out.data;
}

char **manifest_expand_all(const char *const texts[], const char *prefix, const char *here)
{
	size_t count = 0;
	while (texts[count])
		count++;
	char **expanded = xcalloc(count + 1, sizeof *expanded);
	for (size_t i = 0; i < count; i++)
		expanded[i] = manifest_expand(texts[i], prefix, here);
	return expanded;
}

void texts_free(char **texts)
{
	for (char **text = texts; text && *text; text++)
		free(*text);
	free(texts);
}

json_t *manifest_environment(const struct manifest *manifest, const char *track)
{
	json_t *all = json_object();
	if (manifest->environment)
		json_object_update(all, (json_t *)manifest->environment);
	json_t *more = json_object_get(json_object_get(manifest->tracks, track), "environment");
	if (more)
		json_object_update(all, more);
	return all;
}
