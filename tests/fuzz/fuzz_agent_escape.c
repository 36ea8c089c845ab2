/*
 * Tools' bytes as JSON string text: cut into pieces or whole the same, valid JSON, and what it
 * decodes to is as long as counted and within the cap. The first two bytes are the pieces' length
 * and the cap.
 */
#include "agent/c/escape.h"
#include "common/buf.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void escape_in_pieces(struct escape *escape, struct buf *out, const uint8_t *bytes,
	size_t size, size_t piece, size_t max)
{
	buf_init(out, SIZE_MAX / 2);
	buf_add_char(out, '"');
	escape_init(escape, max);
	for (size_t at = 0; at < size; at += piece)
		escape_bytes(escape, out, bytes + at, size - at < piece ? size - at : piece);
	escape_end(escape, out);
	buf_add_char(out, '"');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2)
		return 0;
	size_t piece = data[0] ? data[0] : 1, max = data[1] ? data[1] : SIZE_MAX;
	struct escape whole, pieces;
	struct buf whole_text, pieces_text;
	escape_in_pieces(&whole, &whole_text, data + 2, size - 2, size, max);
	escape_in_pieces(&pieces, &pieces_text, data + 2, size - 2, piece, max);
	if (whole_text.length != pieces_text.length ||
		memcmp(whole_text.data, pieces_text.data, whole_text.length) != 0 ||
		whole.length != pieces.length || whole.cut != pieces.cut ||
		whole.ends_in_lf != pieces.ends_in_lf)
		abort();

	json_t *text = json_loadb(
		whole_text.data, whole_text.length, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
	size_t length = json_string_length(text);
	const char *bytes = json_string_value(text);
	if (!text || length != whole.length || length > max ||
		whole.ends_in_lf != (length && bytes[length - 1] == '\n'))
		abort();
	/* What was valid UTF-8 and fits stands there as it was. */
	json_t *same = json_stringn((const char *)data + 2, size - 2);
	if (same && size - 2 <= max && !json_equal(same, text))
		abort();
	json_decref(same);
	json_decref(text);
	buf_release(&whole_text);
	buf_release(&pieces_text);
	return 0;
}
