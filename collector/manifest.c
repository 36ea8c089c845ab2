#include "collector/manifest.h"

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"
#include "common/json_schema.h"

#include <string.h>

enum { TEXT_MAX = 4096, LIST_MAX = 256 };

/* Patterns mean the same here and in the schema. */
#define NAME_PATTERN "^[a-z0-9][a-z0-9-]{0,62}$"
#define VARIABLE_PATTERN "^[A-Za-z_][A-Za-z0-9_]*$"
#define CONTRACT_PATTERN "^(OPENAI_|AGENT_)"
/* Nothing is looked up in PATH. */
#define PATH_PATTERN "^(/|\\{prefix\\}/|\\{here\\}/)"
/* HOST:PORT/NAME:TAG@DIGEST, all but NAME optional */
#define IMAGE_PATTERN                                                                              \
	"^([a-zA-Z0-9.-]+(:[0-9]+)?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?" \
	"(@sha256:[0-9a-f]{64})?$"

int name_check(const char *name, const char *where, const char *field, struct error *err)
{
	if (json_text_matches(name, NAME_PATTERN))
		return 0;
	return error_set(err, 0,
		"%s: %s: must be 1 to %d lower-case letters, digits and '-', is \"%.80s\"", where,
		field, MANIFEST_NAME_MAX, name);
}

json_t *name_schema(void)
{
	return json_schema_text(1, MANIFEST_NAME_MAX, NAME_PATTERN);
}

/* Variables that the contract gives are the collector's to set. */
static int check_environment(
	const json_t *environment, const char *where, const char *path, struct error *err)
{
	const char *name;
	json_t *value;
	json_object_foreach((json_t *)environment, name, value)
	{
		if (!json_text_matches(name, VARIABLE_PATTERN))
			return error_set(err, 0, "%s: %s: \"%.80s\" is no variable's name", where,
				path, name);
		if (json_text_matches(name, CONTRACT_PATTERN))
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

static const struct json_field track_fields[] = {{"environment", JSON_FIELD_OBJECT, false, 0, 0, 0,
	0, 0, "variables of this track, added to the contender's"}};

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
		if (!json_is_object(track))
			return error_set(err, 0, "%s: %s: must be an object, is %s", where, path,
				json_describe(track));
		if (json_read_struct(track, where, path, track_fields, 1, &environment, err) ||
			check_environment(environment, where, "tracks.equalised.environment", err))
			return -1;
	}
	return 0;
}

/* Paths must say where they are: nothing is looked up in PATH. */
static int check_path(const char *path, const char *where, const char *field, struct error *err)
{
	if (json_text_matches(path, PATH_PATTERN))
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

struct lists {
	const json_t *command, *version, *beliefs, *ship;
};

static int read_lists(
	struct manifest *manifest, const struct lists *lists, const char *where, struct error *err)
{
	if (!(manifest->command = read_list(lists->command, where, "command", err)) ||
		!(manifest->version = read_list(lists->version, where, "version", err)) ||
		!(manifest->beliefs = read_list(lists->beliefs, where, "beliefs", err)) ||
		!(manifest->ship = read_list(lists->ship, where, "ship", err)))
		return -1;
	if (check_path(manifest->command[0], where, "command[0]", err) ||
		(manifest->version[0] &&
			check_path(manifest->version[0], where, "version[0]", err)) ||
		(manifest->beliefs[0] &&
			check_path(manifest->beliefs[0], where, "beliefs[0]", err)))
		return -1;
	for (size_t i = 0; manifest->ship[i]; i++) {
		char field[32];
		snprintf(field, sizeof field, "ship[%zu]", i);
		if (check_path(manifest->ship[i], where, field, err))
			return -1;
	}
	return 0;
}

struct parts {
	struct manifest manifest;
	struct lists lists;
	int64_t contract;
};

static const struct json_field manifest_fields[] = {
	{"name", JSON_FIELD_TEXT, false, JSON_AT(struct parts, manifest.name), 1, 1000, 0, 0,
		"what plans and results call it"},
	{"title", JSON_FIELD_TEXT, true, JSON_AT(struct parts, manifest.title), 1, 100, 0, 0,
		"what people read"},
	{"contract", JSON_FIELD_INT, false, JSON_AT(struct parts, contract), MANIFEST_CONTRACT,
		MANIFEST_CONTRACT, 0, 0, "version of agent/CONTRACT.md that it keeps"},
	{"command", JSON_FIELD_ARRAY, false, JSON_AT(struct parts, lists.command), 1, LIST_MAX, 0,
		0, "program and arguments"},
	{"version", JSON_FIELD_ARRAY, true, JSON_AT(struct parts, lists.version), 1, LIST_MAX, 0, 0,
		"command that prints its version"},
	{"beliefs", JSON_FIELD_ARRAY, true, JSON_AT(struct parts, lists.beliefs), 1, LIST_MAX, 0, 0,
		"command that prints what it believes of its CPUs and memory, a JSON object"},
	{"environment", JSON_FIELD_OBJECT, true, JSON_AT(struct parts, manifest.environment), 0, 0,
		0, 0, "variables of its own"},
	{"tracks", JSON_FIELD_OBJECT, true, JSON_AT(struct parts, manifest.tracks), 0, 0, 0, 0,
		"\"equalised\": {\"environment\": …}"},
	{"ship", JSON_FIELD_ARRAY, true, JSON_AT(struct parts, lists.ship), 0, LIST_MAX, 0, 0,
		"files and folders that must be shipped beside the base image"},
	{"image", JSON_FIELD_TEXT, true, JSON_AT(struct parts, manifest.image), 1, 255, 0, 0,
		"container image; default: the suite's base image"},
	{"yardstick", JSON_FIELD_BOOL, true, JSON_AT(struct parts, manifest.yardstick), 0, 0, 0, 0,
		"it is no contender, others are shown against it"},
};
enum { MANIFEST_FIELDS = sizeof manifest_fields / sizeof *manifest_fields };

static int check_image(const char *image, const char *where, struct error *err)
{
	if (!image || json_text_matches(image, IMAGE_PATTERN))
		return 0;
	return error_set(err, 0,
		"%s: image: must be an image's name, like \"name\" or \"host:5000/name:tag\", is "
		"\"%.100s\"",
		where, image);
}

struct manifest *manifest_read(json_t *object, const char *where, struct error *err)
{
	struct manifest *manifest = xcalloc(1, sizeof *manifest);
	struct parts parts = {.contract = 0};
	bool good =
		!json_read_struct(object, where, "", manifest_fields, MANIFEST_FIELDS, &parts, err);
	*manifest = parts.manifest;
	manifest->json = json_incref(object);
	if (!good || name_check(manifest->name, where, "name", err) ||
		read_lists(manifest, &parts.lists, where, err) ||
		check_image(manifest->image, where, err) ||
		check_environment(manifest->environment, where, "environment", err) ||
		check_tracks(manifest->tracks, where, err)) {
		manifest_free(manifest);
		return NULL;
	}
	if (!manifest->title)
		manifest->title = manifest->name;
	return manifest;
}

/* ---- the schema */

static json_t *environment_schema(void)
{
	return json_pack("{s:{s:s, s:{s:s}}, s:{s:s}}", "propertyNames", "pattern",
		VARIABLE_PATTERN, "not", "pattern", CONTRACT_PATTERN, "additionalProperties",
		"type", "string");
}

/* The first begins with where it is, if `path`; all do, if `paths`. */
static json_t *texts_schema(bool path, bool paths)
{
	json_t *text = json_schema_text(1, TEXT_MAX, paths ? PATH_PATTERN : NULL);
	if (!path)
		return json_pack("{s:o}", "items", text);
	return json_pack("{s:[o], s:o}", "items", json_schema_text(1, TEXT_MAX, PATH_PATTERN),
		"additionalItems", text);
}

json_t *manifest_schema(void)
{
	json_t *schema = json_schema_of(manifest_fields, MANIFEST_FIELDS, false);
	json_t *track = json_schema_of(track_fields, 1, false);
	json_schema_refine(track, "environment", environment_schema());
	json_schema_refine(schema, "name", name_schema());
	json_schema_refine(schema, "command", texts_schema(true, false));
	json_schema_refine(schema, "version", texts_schema(true, false));
	json_schema_refine(schema, "beliefs", texts_schema(true, false));
	json_schema_refine(schema, "ship", texts_schema(false, true));
	json_schema_refine(schema, "image", json_schema_text(1, 255, IMAGE_PATTERN));
	json_schema_refine(schema, "environment", environment_schema());
	json_schema_refine(schema, "tracks",
		json_pack("{s:{s:o}, s:b}", "properties", "equalised", track,
			"additionalProperties", 0));
	return json_schema_document(schema, "Turnmeter manifest",
		"One contender: docs/contenders.md. In texts {prefix} is the installed tree, "
		"{here} "
		"the manifest's folder");
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
	free(manifest->beliefs);
	free(manifest->ship);
	json_decref(manifest->json);
	free(manifest);
}

bool manifest_names_file(const struct manifest *manifest, size_t index)
{
	const char *text = manifest->command[index];
	return !index || !strncmp(text, "{prefix}/", 9) || !strncmp(text, "{here}/", 7);
}

bool manifest_is_built_here(const char *text)
{
	return !strncmp(text, "{prefix}/", 9);
}

const char *manifest_remedy(const char *text)
{
	if (!strncmp(text, "{prefix}/runtimes/", 18))
		return "fetch it with 'make runtimes'";
	if (!strcmp(text, "{prefix}/bin/agent-rust"))
		return "build it with 'make rust' (as root)";
	if (manifest_is_built_here(text))
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
