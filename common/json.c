#include "common/json.h"

#include "common/cleanup.h"
#include "common/error.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static json_t *parse(const char *text, size_t length, const char *where, struct error *err)
{
	json_error_t at;
	/* of UTF-8, and of both kinds of UTF-16 */
	static const char *const marks[] = {"\xef\xbb\xbf", "\xff\xfe", "\xfe\xff"};
	for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
		size_t size = strlen(marks[i]);
		if (length >= size && !memcmp(text, marks[i], size)) {
			error_set(err, 0, "%s: must be UTF-8 without a byte order mark", where);
			return NULL;
		}
	}
	json_t *value = json_loadb(text, length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &at);
	if (!value) {
		error_set(err, 0, "%s: line %d, column %d: not valid JSON: %s", where, at.line,
			at.column, at.text);
		return NULL;
	}
	if (!json_is_object(value)) {
		error_set(err, 0, "%s: must be a JSON object, is %s", where, json_describe(value));
		json_decref(value);
		return NULL;
	}
	return value;
}

json_t *json_read_text(const char *text, size_t length, const char *where, struct error *err)
{
	return parse(text, length, where, err);
}

json_t *json_read_file(const char *path, struct error *err)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat status;
	if (fd < 0 || fstat(fd, &status)) {
		error_set(err, errno, "cannot open '%s'", path);
		return NULL;
	}
	if (!S_ISREG(status.st_mode)) {
		error_set(err, 0, "%s: must be a regular file", path);
		return NULL;
	}
	if (status.st_size > JSON_FILE_MAX) {
		error_set(err, 0, "%s: must be at most %d bytes, is %lld", path, JSON_FILE_MAX,
			(long long)status.st_size);
		return NULL;
	}
	size_t size = (size_t)status.st_size, length = 0;
	auto_free char *text = xmalloc(size + 1);
	while (length < size) {
		ssize_t got = read(fd, text + length, size - length);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			error_set(err, errno, "cannot read '%s'", path);
			return NULL;
		}
		if (!got)
			break;
		length += (size_t)got;
	}
	return parse(text, length, path, err);
}

/* Length of the valid UTF-8 character at text, 0 if there is none. NUL-terminated. */
static size_t character_length(const unsigned char *text)
{
	if (text[0] < 0x80)
		return text[0] ? 1 : 0;
	size_t length = text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;
	if (text[0] < 0xc2 || text[0] > 0xf4)
		return 0;
	unsigned char low = text[0] == 0xe0 ? 0xa0 : text[0] == 0xf0 ? 0x90 : 0x80;
	unsigned char high = text[0] == 0xed ? 0x9f : text[0] == 0xf4 ? 0x8f : 0xbf;
	if (text[1] < low || text[1] > high)
		return 0;
	for (size_t i = 2; i < length; i++) {
		if ((text[i] & 0xc0) != 0x80)
			return 0;
	}
	return length;
}

json_t *json_text(const char *bytes, size_t max_bytes)
{
	const unsigned char *at = (const unsigned char *)(bytes ? bytes : "");
	auto_free char *out = xmalloc(strlen((const char *)at) + 1);
	size_t length = 0;
	while (*at) {
		size_t step = character_length(at);
		if (length + (step ? step : 1) > max_bytes)
			break;
		if (step)
			memcpy(out + length, at, step);
		else
			out[length] = '?';
		length += step ? step : 1;
		at += step ? step : 1;
	}
	json_t *value = json_stringn(out, length);
	if (!value)
		die_oom();
	return value;
}

void json_set(json_t *object, const char *name, json_t *value)
{
	if (json_object_set_new(object, name, value))
		die_oom();
}

const char *json_describe(const json_t *value)
{
	static _Thread_local char texts[2][80];
	static _Thread_local int turn;
	char *text = texts[turn = !turn];
	size_t size = sizeof texts[0];
	switch (value ? (int)json_typeof(value) : -1) {
	case JSON_OBJECT:
		return "an object";
	case JSON_ARRAY:
		snprintf(text, size, "an array of %zu", json_array_size(value));
		return text;
	case JSON_STRING: {
		const char *string = json_string_value(value);
		snprintf(text, size, "\"%.60s%s\"", string, strlen(string) > 60 ? "..." : "");
		return text;
	}
	case JSON_INTEGER:
		snprintf(text, size, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
		return text;
	case JSON_REAL:
		snprintf(text, size, "%g", json_real_value(value));
		return text;
	case JSON_TRUE:
		return "true";
	case JSON_FALSE:
		return "false";
	case JSON_NULL:
		return "null";
	default:
		return "absent";
	}
}

/* "WHERE: path.name: must be EXPECTED, is FOUND" */
static int refuse(const char *where, const char *path, const char *name, const char *expected,
	const json_t *found, struct error *err)
{
	return error_set(err, 0, "%s: %s%s%s: must be %s, is %s", where, path,
		*path && *name != '[' ? "." : "", name, expected, json_describe(found));
}

static int read_field(const json_t *value, const char *where, const char *path,
	const struct json_field *field, struct error *err)
{
	char expected[160];
	switch (field->kind) {
	case JSON_FIELD_TEXT: {
		size_t length = json_string_length(value);
		if (json_is_string(value) && strlen(json_string_value(value)) == length &&
			length >= (size_t)field->min && length <= (size_t)field->max) {
			*(const char **)field->out = json_string_value(value);
			return 0;
		}
		snprintf(expected, sizeof expected, "a text of %lld to %lld bytes without NUL",
			(long long)field->min, (long long)field->max);
		break;
	}
	case JSON_FIELD_INT:
		if (json_is_integer(value) && json_integer_value(value) >= field->min &&
			json_integer_value(value) <= field->max) {
			*(int64_t *)field->out = json_integer_value(value);
			return 0;
		}
		snprintf(expected, sizeof expected, "an integer of %lld to %lld",
			(long long)field->min, (long long)field->max);
		break;
	case JSON_FIELD_REAL: {
		double number = json_number_value(value);
		if (json_is_number(value) && isfinite(number) && number >= field->real_min &&
			number <= field->real_max) {
			*(double *)field->out = number;
			return 0;
		}
		snprintf(expected, sizeof expected, "a number of %g to %g", field->real_min,
			field->real_max);
		break;
	}
	case JSON_FIELD_BOOL:
		if (json_is_boolean(value)) {
			*(bool *)field->out = json_is_true(value);
			return 0;
		}
		snprintf(expected, sizeof expected, "true or false");
		break;
	case JSON_FIELD_OBJECT:
		if (json_is_object(value)) {
			*(const json_t **)field->out = value;
			return 0;
		}
		snprintf(expected, sizeof expected, "an object");
		break;
	case JSON_FIELD_ARRAY:
		if (json_is_array(value) && json_array_size(value) >= (size_t)field->min &&
			json_array_size(value) <= (size_t)field->max) {
			*(const json_t **)field->out = value;
			return 0;
		}
		snprintf(expected, sizeof expected, "an array of %lld to %lld items",
			(long long)field->min, (long long)field->max);
		break;
	}
	return refuse(where, path, field->name, expected, value, err);
}

int json_read_fields(const json_t *object, const char *where, const char *path,
	const struct json_field *fields, size_t count, struct error *err)
{
	const char *key;
	json_t *value;
	json_object_foreach((json_t *)object, key, value)
	{
		bool known = !strcmp(key, "$schema");
		for (size_t i = 0; i < count && !known; i++)
			known = !strcmp(key, fields[i].name);
		if (!known)
			return error_set(err, 0, "%s: %s%s%s: unknown field", where, path,
				*path ? "." : "", key);
	}
	for (size_t i = 0; i < count; i++) {
		value = json_object_get(object, fields[i].name);
		if (fields[i].optional && (!value || json_is_null(value)))
			continue;
		if (read_field(value, where, path, &fields[i], err))
			return -1;
	}
	return 0;
}

int json_read_struct(const json_t *object, const char *where, const char *path,
	const struct json_field *fields, size_t count, void *base, struct error *err)
{
	auto_free struct json_field *placed = xcalloc(count, sizeof *placed);
	for (size_t i = 0; i < count; i++) {
		placed[i] = fields[i];
		placed[i].out = (char *)base + (size_t)fields[i].out;
	}
	return json_read_fields(object, where, path, placed, count, err);
}

json_t *json_known_members(const json_t *object, const struct json_field *fields, size_t count)
{
	json_t *known = json_object();
	for (size_t i = 0; i < count; i++) {
		json_t *value = json_object_get(object, fields[i].name);
		if (value)
			json_set(known, fields[i].name, json_incref(value));
	}
	return known;
}

int json_check_choice(const char *text, const char *const *choices, const char *where,
	const char *path, struct error *err)
{
	char all[200] = "";
	for (size_t i = 0; choices[i]; i++) {
		if (!strcmp(text, choices[i]))
			return 0;
		size_t length = strlen(all);
		snprintf(all + length, sizeof all - length, "%s\"%s\"",
			!i               ? ""
			: choices[i + 1] ? ", "
					 : " or ",
			choices[i]);
	}
	return error_set(err, 0, "%s: %s: must be %s, is \"%.60s\"", where, path, all, text);
}

bool json_text_matches(const char *text, const char *pattern)
{
	regex_t compiled;
	if (regcomp(&compiled, pattern, REG_EXTENDED | REG_NOSUB))
		abort(); /* a pattern of ours that is none */
	bool matches = !regexec(&compiled, text, 0, NULL, 0);
	regfree(&compiled);
	return matches;
}

const char **json_read_texts(const json_t *array, const char *where, const char *path,
	size_t max_length, struct error *err)
{
	size_t count = json_array_size(array);
	auto_free const char **texts = xcalloc(count + 1, sizeof *texts);
	for (size_t i = 0; i < count; i++) {
		char name[32];
		snprintf(name, sizeof name, "[%zu]", i);
		struct json_field field = {name, JSON_FIELD_TEXT, false, &texts[i], 1,
			(int64_t)max_length, 0, 0, NULL};
		if (read_field(json_array_get(array, i), where, path, &field, err))
			return NULL;
	}
	return steal_ptr(texts);
}
