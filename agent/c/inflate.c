#include "agent/c/inflate.h"

#include "agent/c/http.h"
#include "common/error.h"

#include <stdlib.h>

#if __has_include(<zlib.h>) && !defined AGENT_C_NO_GZIP
#define ZLIB_CONST
#include <zlib.h>
#define HAVE_ZLIB 1
#else
#define HAVE_ZLIB 0
#endif

bool inflate_is_none(struct span coding)
{
	return !coding.length || http_is_name(coding, "identity");
}

static void refuse(struct span coding, struct error *err)
{
	error_set(err, 0, "answer has a Content-Encoding that is not known: '%.*s'",
		coding.length < 60 ? (int)coding.length : 60, coding.at);
}

#if HAVE_ZLIB

/* zlib's largest window, and that it shall tell gzip from its own format by itself. */
enum { WINDOW_BITS = 15 + 32, PIECE_BYTES = 16 << 10 };

struct inflater {
	z_stream stream;
	bool ended;
};

struct inflater *inflater_new(struct span coding, struct error *err)
{
	if (!http_is_name(coding, "gzip") && !http_is_name(coding, "x-gzip") &&
		!http_is_name(coding, "deflate")) {
		refuse(coding, err);
		return NULL;
	}
	struct inflater *inflater = xcalloc(1, sizeof *inflater);
	if (inflateInit2(&inflater->stream, WINDOW_BITS) != Z_OK)
		die_oom();
	return inflater;
}

void inflater_free(struct inflater *inflater)
{
	if (!inflater)
		return;
	inflateEnd(&inflater->stream);
	free(inflater);
}

int inflater_feed(struct inflater *inflater, const char *bytes, size_t length,
	int (*data)(void *client, const char *bytes, size_t length, struct error *err),
	void *client, struct error *err)
{
	static char piece[PIECE_BYTES];
	z_stream *stream = &inflater->stream;
	stream->next_in = (const Bytef *)bytes;
	stream->avail_in = (uInt)length;
	/* Nothing is expected after the end, and whatever comes is not part of the text. */
	while (!inflater->ended) {
		stream->next_out = (Bytef *)piece;
		stream->avail_out = sizeof piece;
		int code = inflate(stream, Z_SYNC_FLUSH);
		if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
			return error_set(err, 0, "answer is not compressed as it says");
		inflater->ended = code == Z_STREAM_END;
		size_t got = sizeof piece - stream->avail_out;
		int result = got ? data(client, piece, got, err) : 0;
		if (result)
			return result;
		if (stream->avail_out) /* it would have gone on if it could */
			break;
	}
	return 0;
}

int inflater_end(const struct inflater *inflater, struct error *err)
{
	if (inflater->ended || !inflater->stream.total_in)
		return 0;
	return error_set(err, 0, "the answer ended before what is compressed in it did");
}

#else

struct inflater *inflater_new(struct span coding, struct error *err)
{
	refuse(coding, err);
	return NULL;
}

void inflater_free(struct inflater *inflater)
{
	(void)inflater;
}

int inflater_feed(struct inflater *inflater, const char *bytes, size_t length,
	int (*data)(void *client, const char *bytes, size_t length, struct error *err),
	void *client, struct error *err)
{
	(void)inflater, (void)bytes, (void)length, (void)data, (void)client;
	return error_set(err, 0, "answer is compressed");
}

int inflater_end(const struct inflater *inflater, struct error *err)
{
	(void)inflater;
	return error_set(err, 0, "answer is compressed");
}

#endif
