/*
 * HTTP answers: cut into pieces or whole, the same answer. The first byte says how long the pieces
 * are, its lowest bit whether the connection ends after them.
 */
#include "agent/c/http.h"
#include "common/error.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct reading {
	struct http http;
	struct buf headers, body;
	int64_t took; /* -1: it is no answer */
	int ended;
};

static int take_header(struct http *http, struct span name, struct span value, struct error *err)
{
	struct reading *reading = (struct reading *)http;
	(void)err;
	buf_add(&reading->headers, name.at, name.length);
	buf_add_char(&reading->headers, '\0');
	buf_add(&reading->headers, value.at, value.length);
	buf_add_char(&reading->headers, '\0');
	return 0;
}

static int take_data(struct http *http, const char *bytes, size_t length, struct error *err)
{
	struct reading *reading = (struct reading *)http;
	(void)err;
	if (!length)
		abort();
	buf_add(&reading->body, bytes, length);
	return 0;
}

static void read_answer(
	struct reading *reading, const char *text, size_t size, size_t piece, bool ends)
{
	struct error err;
	*reading = (struct reading){.http = {.header = take_header, .data = take_data}};
	buf_init(&reading->headers, SIZE_MAX / 2);
	buf_init(&reading->body, SIZE_MAX / 2);
	http_begin(&reading->http);
	for (size_t at = 0; at < size && reading->http.state != HTTP_OVER; at += piece) {
		size_t length = size - at < piece ? size - at : piece;
		char *copy = xmalloc(length); /* so that a read beyond it is seen */
		memcpy(copy, text + at, length);
		int64_t took = http_feed(&reading->http, copy, length, &err);
		free(copy);
		if (took > (int64_t)length ||
			(took >= 0 && took < (int64_t)length && reading->http.state != HTTP_OVER))
			abort();
		if (took < 0) {
			reading->took = -1;
			return;
		}
		reading->took += took;
	}
	if (ends)
		reading->ended = http_end(&reading->http, &err);
}

static void release(struct reading *reading)
{
	http_release(&reading->http);
	buf_release(&reading->headers);
	buf_release(&reading->body);
}

static bool is_same(const struct buf *a, const struct buf *b)
{
	return a->length == b->length && (!a->length || !memcmp(a->data, b->data, a->length));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	const char *text = (const char *)data + 1;
	size_t length = size - 1, piece = data[0] / 2 + 1;
	bool ends = data[0] & 1;
	struct reading whole, pieces;
	read_answer(&whole, text, length, length ? length : 1, ends);
	read_answer(&pieces, text, length, piece, ends);
	if (whole.took != pieces.took || whole.ended != pieces.ended ||
		!is_same(&whole.headers, &pieces.headers) || !is_same(&whole.body, &pieces.body))
		abort();
	if (whole.took >= 0 &&
		(whole.http.state != pieces.http.state || whole.http.status != pieces.http.status ||
			whole.http.keeps_alive != pieces.http.keeps_alive))
		abort();
	release(&whole);
	release(&pieces);
	return 0;
}
