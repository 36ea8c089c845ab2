#include "agent/c/inflate.h"

#include "common/buf.h"
#include "common/error.h"
#include "tests/unit/agent-c/fixture.h"

#include <zlib.h>

static struct span span_of(const char *text)
{
	return (struct span){text, strlen(text)};
}

static int note(void *client, const char *bytes, size_t length, struct error *err)
{
	(void)err;
	assert_true(length > 0);
	return buf_add(client, bytes, length);
}

static int stop(void *client, const char *bytes, size_t length, struct error *err)
{
	(void)client, (void)bytes, (void)length;
	return error_set(err, 0, "stop");
}

/* `gzip` or zlib's own format, which HTTP calls deflate. */
static void pack(struct buf *packed, const struct buf *text, bool gzip)
{
	z_stream stream = {0};
	assert_int_equal(
		deflateInit2(&stream, 6, Z_DEFLATED, gzip ? 31 : 15, 8, Z_DEFAULT_STRATEGY), Z_OK);
	(void)buf_reserve(packed, deflateBound(&stream, text->length));
	stream.next_in = (Bytef *)text->data;
	stream.avail_in = (uInt)text->length;
	stream.next_out = (Bytef *)packed->data;
	stream.avail_out = (uInt)packed->capacity;
	assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
	packed->length = stream.total_out;
	deflateEnd(&stream);
}

static void check(const struct buf *text, const char *coding, bool gzip, size_t piece)
{
	struct error err;
	struct buf packed auto_buf, seen auto_buf;
	buf_init(&packed, 1 << 20);
	buf_init(&seen, 1 << 20);
	pack(&packed, text, gzip);
	(void)buf_add_text(&packed, "what follows the end counts as nothing");
	struct inflater *inflater = inflater_new(span_of(coding), &err);
	assert_non_null(inflater);
	for (size_t at = 0; at < packed.length; at += piece) {
		size_t length = packed.length - at < piece ? packed.length - at : piece;
		assert_int_equal(
			inflater_feed(inflater, packed.data + at, length, note, &seen, &err), 0);
	}
	assert_int_equal(seen.length, text->length);
	assert_memory_equal(seen.data, text->data, text->length);
	assert_int_equal(inflater_end(inflater, &err), 0);
	inflater_free(inflater);
}

static void test_split_anywhere(void **state)
{
	(void)state;
	struct buf text auto_buf;
	buf_init(&text, 1 << 20);
	buf_add_text(&text, "data: {\"a\":1}\n\ndata: [DONE]\n\n");
	for (size_t piece = 1; piece < 80; piece++) {
		check(&text, "gzip", true, piece);
		check(&text, "X-GZIP", true, piece);
		check(&text, "deflate", false, piece);
	}
	/* More than is handed on at once, from very few bytes. */
	while (text.length < 300000)
		buf_add_text(&text, "again and again ");
	for (size_t piece = 1; piece < 2000; piece += 333)
		check(&text, "gzip", true, piece);
}

static void test_bad(void **state)
{
	(void)state;
	struct error err;
	static const char *const unknown[] = {"br", "zstd", "gzip, gzip", "gzi", "compress"};
	for (size_t i = 0; i < ROWS(unknown); i++) {
		assert_null(inflater_new(span_of(unknown[i]), &err));
		assert_non_null(strstr(err.text, "Content-Encoding that is not known: '"));
	}
	assert_true(inflate_is_none(span_of("identity")));
	assert_true(inflate_is_none(span_of("")));
	assert_false(inflate_is_none(span_of("gzip")));

	struct inflater *inflater = inflater_new(span_of("gzip"), &err);
	assert_int_equal(inflater_feed(inflater, "not packed", 10, note, NULL, &err), -1);
	assert_string_equal(err.text, "answer is not compressed as it says");
	inflater_free(inflater);
	inflater_free(NULL);
}

static void test_stopped(void **state)
{
	(void)state;
	struct error err;
	struct buf text auto_buf, packed auto_buf;
	buf_init(&text, 1 << 20);
	buf_init(&packed, 1 << 20);
	buf_add_text(&text, "text");
	pack(&packed, &text, true);
	struct inflater *inflater = inflater_new(span_of("gzip"), &err);
	assert_int_equal(inflater_feed(inflater, packed.data, packed.length, stop, NULL, &err), -1);
	assert_string_equal(err.text, "stop");
	inflater_free(inflater);
}

/* Wherever it is cut: in the head of gzip, in the text, in the sum behind it. */
static void test_cut_short(void **state)
{
	(void)state;
	struct error err;
	for (int gzip = 0; gzip < 2; gzip++) {
		struct buf text auto_buf, packed auto_buf;
		buf_init(&text, 1 << 20);
		buf_init(&packed, 1 << 20);
		buf_add_text(&text, "data: [DONE]\n\n");
		pack(&packed, &text, gzip);
		for (size_t length = 0; length <= packed.length; length++) {
			bool whole = !length || length == packed.length;
			struct buf seen auto_buf;
			buf_init(&seen, 1 << 20);
			struct inflater *inflater = inflater_new(span_of("gzip"), &err);
			assert_int_equal(
				inflater_feed(inflater, packed.data, length, note, &seen, &err), 0);
			err.text[0] = '\0';
			assert_int_equal(inflater_end(inflater, &err), whole ? 0 : -1);
			assert_string_equal(err.text,
				whole ? ""
				      : "the answer ended before what is compressed in it did");
			inflater_free(inflater);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_split_anywhere),
		cmocka_unit_test(test_cut_short),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_stopped),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
