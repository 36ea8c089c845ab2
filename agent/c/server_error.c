#include "agent/c/server_error.h"

#include "common/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <string.h>

/* The first SERVER_ERROR_MAX bytes, not ending inside a UTF-8 sequence. */
static void set_text(const char *text, size_t length, struct error *err)
{
	if (length > SERVER_ERROR_MAX)
		for (length = SERVER_ERROR_MAX; length && (text[length] & 0xc0) == 0x80; length--)
			;
	if (length)
		memcpy(err->text, text, length);
	err->text[length] = '\0';
	err->code = 0;
}

/* The same with white space and control characters made one space each run. */
static void set_page(const char *text, size_t length, struct error *err)
{
	char line[SERVER_ERROR_MAX + 2];
	size_t used = 0;
	bool space = false;
	for (size_t i = 0; i < length && used <= SERVER_ERROR_MAX; i++) {
		if ((unsigned char)text[i] <= ' ') {
			space = used > 0;
			continue;
		}
		if (space)
			line[used++] = ' ';
		space = false;
		line[used++] = text[i];
	}
	set_text(line, used, err);
}

static void set_message(const json_t *error, const char *text, size_t length, struct error *err)
{
	const json_t *message = json_is_object(error) ? json_object_get(error, "message") : error;
	if (json_is_string(message))
		set_text(json_string_value(message), strlen(json_string_value(message)), err);
	else
		set_page(text, length, err);
}

int server_error_value(const char *json, size_t length, struct error *err)
{
	json_t *error = json_loadb(json, length, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
	set_message(error, json, length, err);
	json_decref(error);
	return -1;
}

int server_error_body(const char *body, size_t length, struct error *err)
{
	json_t *root = json_loadb(body, length, JSON_ALLOW_NUL, NULL);
	const json_t *error = json_object_get(root, "error");
	set_message(error ? error : root, body, length, err);
	json_decref(root);
	return -1;
}
