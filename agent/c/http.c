#include "agent/c/http.h"

#include "common/error.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

enum { CHUNK_DIGITS_MAX = 15 };

void http_begin(struct http *http)
{
	http->state = HTTP_STATUS_LINE;
	http->status = 0;
	http->heard = http->keeps_alive = false;
	http->old = http->close = http->keep = http->chunked = http->sized = false;
	http->left = 0;
	http->lines_length = 0;
	buf_init(&http->line, HTTP_HEAD_MAX);
}

void http_release(struct http *http)
{
	buf_release(&http->line);
}

/* ---- header values */

static bool is_space(char c)
{
	return c == ' ' || c == '\t';
}

static struct span trim(const char *at, const char *end)
{
	while (at < end && is_space(*at))
		at++;
	while (end > at && is_space(end[-1]))
		end--;
	return (struct span){at, (size_t)(end - at)};
}

bool http_is_name(struct span name, const char *lower_case)
{
	return name.length == strlen(lower_case) && !strncasecmp(name.at, lower_case, name.length);
}

bool http_has_word(struct span value, const char *word)
{
	const char *at = value.at, *end = value.at + value.length;
	for (const char *comma; at <= end; at = comma + 1) {
		comma = memchr(at, ',', (size_t)(end - at));
		if (!comma)
			comma = end;
		if (http_is_name(trim(at, comma), word))
			return true;
	}
	return false;
}

static int take_length(struct http *http, struct span value, struct error *err)
{
	uint64_t length = 0;
	bool good = value.length && value.length <= 18;
	for (size_t i = 0; good && i < value.length; i++) {
		good = value.at[i] >= '0' && value.at[i] <= '9';
		length = 10 * length + (uint64_t)(value.at[i] - '0');
	}
	if (!good || (http->sized && http->left != length))
		return error_set(err, 0, "answer has a bad Content-Length: '%.*s'",
			value.length < 60 ? (int)value.length : 60, value.at);
	http->sized = true;
	http->left = length;
	return 0;
}

static int take_coding(struct http *http, struct span value, struct error *err)
{
	if (http_is_name(value, "chunked") && !http->chunked)
		http->chunked = true;
	else if (!http_is_name(value, "identity"))
		return error_set(err, 0, "answer has a Transfer-Encoding that is not known: '%.*s'",
			value.length < 60 ? (int)value.length : 60, value.at);
	return 0;
}

static int take_header(struct http *http, struct span name, struct span value, struct error *err)
{
	if (http_is_name(name, "content-length"))
		return take_length(http, value, err);
	if (http_is_name(name, "transfer-encoding"))
		return take_coding(http, value, err);
	if (http_is_name(name, "connection")) {
		http->close |= http_has_word(value, "close");
		http->keep |= http_has_word(value, "keep-alive");
	}
	return http->header(http, name, value, err);
}

/* ---- lines */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* "HTTP/1.1 200", and whatever follows */
static int take_status_line(struct http *http, const char *line, size_t length, struct error *err)
{
	static const char HTTP_1[] = "HTTP/1.";
	enum { MINOR = sizeof HTTP_1 - 1, STATUS = MINOR + 2, LEAST = STATUS + 3 };
	bool good = length >= LEAST && !memcmp(line, HTTP_1, MINOR) && is_digit(line[MINOR]) &&
		    line[MINOR + 1] == ' ' && line[STATUS] >= '1' && line[STATUS] <= '9' &&
		    is_digit(line[STATUS + 1]) && is_digit(line[STATUS + 2]) &&
		    (length == LEAST || line[LEAST] == ' ');
	if (!good)
		return error_set(err, 0, "answer is not HTTP/1: '%.*s'",
			length < 60 ? (int)length : 60, line);
	http->old = line[MINOR] == '0';
	http->status = 100 * (line[STATUS] - '0') + 10 * (line[STATUS + 1] - '0') +
		       (line[STATUS + 2] - '0');
	http->state = HTTP_HEADERS;
	return 0;
}

static void end_answer(struct http *http)
{
	http->state = HTTP_OVER;
	http->keeps_alive = !http->close && (!http->old || http->keep);
}

static int end_head(struct http *http, struct error *err)
{
	if (http->status == 101)
		return error_set(err, 0, "answer switches protocols, which nobody asked for");
	http->lines_length = 0;
	if (http->status < 200) {
		bool heard = http->heard;
		http_release(http);
		http_begin(http);
		http->heard = heard;
	} else if (http->status == 204 || http->status == 304) {
		end_answer(http);
	} else if (http->chunked) {
		http->state = HTTP_CHUNK_LINE;
	} else if (!http->sized) {
		http->close = true;
		http->state = HTTP_BODY_REST;
	} else if (http->left) {
		http->state = HTTP_BODY;
	} else {
		end_answer(http);
	}
	return 0;
}

static int take_header_line(struct http *http, const char *line, size_t length, struct error *err)
{
	if (!length)
		return end_head(http, err);
	if (is_space(*line)) /* goes on with the last one, as none does that matters here */
		return 0;
	const char *colon = memchr(line, ':', length);
	if (!colon)
		return error_set(err, 0, "answer has a header without a colon: '%.*s'",
			length < 60 ? (int)length : 60, line);
	return take_header(http, trim(line, colon), trim(colon + 1, line + length), err);
}

static int hex_digit(char c)
{
	if (is_digit(c))
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int take_chunk_line(struct http *http, const char *line, size_t length, struct error *err)
{
	const char *at = line, *end = line + length;
	while (at < end && *at == '0')
		at++;
	const char *first = at;
	uint64_t size = 0;
	for (; at < end && hex_digit(*at) >= 0 && at - first <= CHUNK_DIGITS_MAX; at++)
		size = size << 4 | (uint64_t)hex_digit(*at);
	bool extended = at < end && (*at == ';' || is_space(*at));
	if (at == line || at - first > CHUNK_DIGITS_MAX || (at < end && !extended))
		return error_set(err, 0, "answer has a bad chunk size: '%.*s'",
			length < 60 ? (int)length : 60, line);
	http->left = size;
	http->state = size ? HTTP_CHUNK : HTTP_TRAILERS;
	http->lines_length = 0;
	return 0;
}

static int take_line(struct http *http, const char *line, size_t length, struct error *err)
{
	if (length && line[length - 1] == '\r')
		length--;
	switch (http->state) {
	case HTTP_STATUS_LINE: /* an empty line before it is what some servers send too much */
		return length ? take_status_line(http, line, length, err) : 0;
	case HTTP_HEADERS:
		return take_header_line(http, line, length, err);
	case HTTP_CHUNK_LINE:
		return take_chunk_line(http, line, length, err);
	case HTTP_CHUNK_END:
		if (length)
			return error_set(err, 0, "answer has a chunk that is longer than it says");
		http->state = HTTP_CHUNK_LINE;
		http->lines_length = 0;
		return 0;
	default: /* trailers */
		if (!length)
			end_answer(http);
		return 0;
	}
}

/* Take one line, or what there is of it. Returns how many bytes, or -1. */
static int64_t feed_line(struct http *http, const char *bytes, size_t length, struct error *err)
{
	const char *end = memchr(bytes, '\n', length), *line = bytes;
	size_t part = end ? (size_t)(end - bytes) + 1 : length;
	size_t line_length = part - 1;
	http->lines_length += part;
	if (http->lines_length > HTTP_HEAD_MAX)
		return error_set(err, EMSGSIZE, "answer has a head or a line of more than %d bytes",
			HTTP_HEAD_MAX);
	if (!end || http->line.length) {
		(void)buf_add(&http->line, bytes, part); /* within its cap, as checked */
		if (!end)
			return (int64_t)part;
		line = http->line.data;
		line_length = http->line.length - 1;
	}
	struct buf kept = http->line; /* the line may begin another answer, and so a new buffer */
	buf_init(&http->line, HTTP_HEAD_MAX);
	int result = take_line(http, line, line_length, err);
	buf_release(&kept);
	return result ? -1 : (int64_t)part;
}

/* Take bytes of the body. Returns how many, or -1. */
static int64_t feed_body(struct http *http, const char *bytes, size_t length, struct error *err)
{
	bool rest = http->state == HTTP_BODY_REST;
	size_t part = rest || length < http->left ? length : (size_t)http->left;
	if (http->data(http, bytes, part, err))
		return -1;
	if (rest || (http->left -= part))
		return (int64_t)part;
	if (http->state == HTTP_CHUNK)
		http->state = HTTP_CHUNK_END;
	else
		end_answer(http);
	return (int64_t)part;
}

int64_t http_feed(struct http *http, const char *bytes, size_t length, struct error *err)
{
	size_t at = 0;
	http->heard |= length > 0;
	while (at < length && http->state != HTTP_OVER) {
		bool body = http->state == HTTP_BODY || http->state == HTTP_BODY_REST ||
			    http->state == HTTP_CHUNK;
		int64_t took = body ? feed_body(http, bytes + at, length - at, err)
				    : feed_line(http, bytes + at, length - at, err);
		if (took < 0)
			return -1;
		at += (size_t)took;
	}
	return (int64_t)at;
}

int http_end(struct http *http, struct error *err)
{
	if (http->state == HTTP_BODY_REST)
		end_answer(http);
	if (http->state == HTTP_OVER)
		return 0;
	if (!http->heard)
		return error_set(err, 0, "the server closed it without an answer");
	return error_set(err, 0, "the server closed it before the answer's end");
}
