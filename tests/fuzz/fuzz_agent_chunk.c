/* Chunks: what is JSON to us is JSON to jansson, but for what chunk.h says; and content is the same
 * text. */
#include "agent/c/chunk.h"
#include "agent/c/escape.h"
#include "common/buf.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What jansson refuses and we take: surrogates, bytes that are no UTF-8, numbers out of range. */
static bool is_beyond_jansson(const json_error_t *error)
{
	switch (json_error_code(error)) {
	case json_error_invalid_utf8:
	case json_error_numeric_overflow:
	case json_error_null_byte_in_key:
	case json_error_stack_overflow:
		return true;
	default:
		return strstr(error->text, "Unicode") || strstr(error->text, "UTF-8");
	}
}

static void check_fragments(struct span calls, const json_t *want)
{
	struct fragment fragment;
	size_t count = 0, objects = 0;
	const json_t *item;
	size_t i;
	while (chunk_next_fragment(&calls, &fragment))
		count++;
	json_array_foreach((json_t *)want, i, item) objects += json_is_object(item);
	if (count != objects)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct chunk chunk;
	json_error_t error;
	if (memchr(data, 0, size)) /* which jansson skips wherever it stands */
		return 0;
	bool good = !chunk_read((const char *)data, size, &chunk);
	json_t *root =
		json_loadb((const char *)data, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
	if (!root) {
		if (good && !is_beyond_jansson(&error))
			abort();
		return 0;
	}
	if (!good)
		abort();
	const json_t *delta =
		json_object_get(json_array_get(json_object_get(root, "choices"), 0), "delta");
	const json_t *content = json_object_get(delta, "content");
	if (!!chunk.content.at != json_is_string(content))
		abort();
	if (chunk.content.at) {
		struct buf text;
		struct escape escape;
		buf_init(&text, SIZE_MAX / 2);
		buf_add_char(&text, '"');
		escape_init(&escape, SIZE_MAX);
		escape_json(&escape, &text, chunk.content.at, chunk.content.length);
		escape_end(&escape, &text);
		buf_add_char(&text, '"');
		json_t *again =
			json_loadb(text.data, text.length, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
		if (!json_equal(again, content))
			abort();
		json_decref(again);
		buf_release(&text);
	}
	check_fragments(chunk.tool_calls, json_object_get(delta, "tool_calls"));
	json_decref(root);
	return 0;
}
