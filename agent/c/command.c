#include "agent/c/command.h"

#include "agent/c/answer.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static json_t *unescape(const struct buf *text)
{
	struct buf quoted auto_buf;
	buf_init(&quoted, SIZE_MAX / 2);
	buf_add_char(&quoted, '"');
	buf_add(&quoted, text->data, text->length);
	buf_add_char(&quoted, '"');
	return json_loadb(quoted.data, quoted.length, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
}

/* 0xd8 … 0xdf if an escape of a surrogate is at `at`, else 0. */
static int surrogate_at(const char *at, const char *end)
{
	if (end - at < 6 || at[0] != '\\' || at[1] != 'u' || (at[2] | 0x20) != 'd')
		return 0;
	int digit = at[3] <= '9' ? at[3] - '0' : (at[3] | 0x20) - 'a' + 10;
	return digit >= 8 && digit <= 15 ? 0xd0 | digit : 0;
}

/* jansson refuses a lone half of a surrogate pair; every other JSON parser gives U+FFFD for it. */
static void mend_surrogates(char *text, size_t length)
{
	char *end = text + length;
	for (char *at = text; (at = memchr(at, '\\', (size_t)(end - at)));) {
		int half = surrogate_at(at, end);
		if (half && half < 0xdc && surrogate_at(at + 6, end) >= 0xdc) {
			at += 12;
		} else if (half) {
			memcpy(at + 2, (const char[]){'f', 'f', 'f', 'd'}, 4);
			at += 6;
		} else {
			at += end - at < 2 ? 1 : 2;
		}
	}
}

static json_t *parse_arguments(const struct buf *arguments)
{
	json_auto_t *text = unescape(arguments);
	size_t length = json_string_length(text);
	auto_free char *copy = xmalloc(length + 1);
	memcpy(copy, json_string_value(text), length);
	mend_surrogates(copy, length);
	/* As real numbers: an integer too large for jansson is no fault of a call. */
	return json_loadb(copy, length, JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, NULL);
}

static bool is_text(const json_t *value)
{
	return json_is_string(value) &&
	       strlen(json_string_value(value)) == json_string_length(value);
}

static char **join(const char *const *texts, size_t count)
{
	size_t size = (count + 1) * sizeof(char *);
	for (size_t i = 0; i < count; i++)
		size += strlen(texts[i]) + 1;
	char **argv = xmalloc(size);
	char *to = (char *)(argv + count + 1);
	for (size_t i = 0; i < count; i++) {
		argv[i] = to;
		to = stpcpy(to, texts[i]) + 1;
	}
	argv[count] = NULL;
	return argv;
}

static char **exec_command(const json_t *arguments)
{
	const json_t *argv = json_object_get(arguments, "argv");
	size_t count = json_array_size(argv);
	auto_free const char **texts = xcalloc(count, sizeof *texts);
	for (size_t i = 0; i < count; i++) {
		const json_t *text = json_array_get(argv, i);
		if (!is_text(text))
			return NULL;
		texts[i] = json_string_value(text);
	}
	return count ? join(texts, count) : NULL;
}

static char **shell_command(const json_t *arguments)
{
	const json_t *command = json_object_get(arguments, "command");
	if (!is_text(command))
		return NULL;
	return join((const char *const[]){"/bin/sh", "-c", json_string_value(command)}, 3);
}

static bool is_named(const struct call *call, const char *name)
{
	json_auto_t *text = unescape(&call->name);
	return is_text(text) && !strcmp(json_string_value(text), name);
}

char **command_of(const struct call *call, struct buf *message)
{
	json_auto_t *arguments = parse_arguments(&call->arguments);
	char **argv = NULL;
	if (is_named(call, "exec")) {
		argv = exec_command(arguments);
	} else if (is_named(call, "shell")) {
		argv = shell_command(arguments);
	} else {
		buf_add_text(message, "[error] unknown tool: ");
		buf_add(message, call->name.data, call->name.length);
		return NULL;
	}
	if (!argv)
		buf_add_text(message, "[error] invalid arguments");
	return argv;
}
