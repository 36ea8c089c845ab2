/*
 * Reads HTTP/1 answers off a connection, in pieces of any size.
 *
 * Interim answers (1xx) and trailers are skipped, chunks are joined. The body ends by its last
 * chunk, by Content-Length, or with the connection. Lenient in what does not matter (LF alone ends
 * a line, folded headers are skipped), strict in what decides where the body ends.
 */
#ifndef AGENT_C_HTTP_H
#define AGENT_C_HTTP_H

#include "agent/c/chunk.h"
#include "common/buf.h"

#include <stdbool.h>
#include <stdint.h>

struct error;

/* Bytes of all lines of an answer's head; of a chunk's line with its extensions; of the trailers.
 */
enum { HTTP_HEAD_MAX = 256 << 10 };

enum http_state {
	HTTP_STATUS_LINE,
	HTTP_HEADERS,
	HTTP_BODY,       /* `left` bytes of it */
	HTTP_BODY_REST,  /* up to the end of the connection */
	HTTP_CHUNK_LINE, /* a chunk's size is next */
	HTTP_CHUNK,      /* `left` bytes of it */
	HTTP_CHUNK_END,  /* its line end is next */
	HTTP_TRAILERS,
	HTTP_OVER,
};

struct http {
	/* A header of the answer, without white space around its value; valid during the call. Here
	 * and of `data`, for bytes of the body: 0, or -1 with *err to stop. */
	int (*header)(struct http *http, struct span name, struct span value, struct error *err);
	int (*data)(struct http *http, const char *bytes, size_t length, struct error *err);
	enum http_state state;
	int status;       /* 0: no answer has begun */
	bool heard;       /* a byte has come */
	bool keeps_alive; /* the server leaves the connection open; true only when OVER */
	/* The reader's own */
	bool old, close, keep, chunked, sized;
	uint64_t left;
	size_t lines_length; /* of the lines that HTTP_HEAD_MAX bounds */
	struct buf line;     /* the start of a line that earlier pieces brought */
};

/* Begin an answer. The callbacks are the caller's to set. */
void http_begin(struct http *http);
void http_release(struct http *http);

/*
 * Take bytes of the connection. Returns how many belonged to the answer (fewer than `length` only
 * when it is OVER), or -1 with *err: it is no HTTP answer, or a callback said stop.
 */
int64_t http_feed(struct http *http, const char *bytes, size_t length, struct error *err);
/* The connection has ended. Returns 0 if the answer did so with it, else -1 with *err. */
int http_end(struct http *http, struct error *err);

/* Whether a header's value, a list of words with commas between them, has the word. */
bool http_has_word(struct span value, const char *word);
bool http_is_name(struct span name, const char *lower_case);

#endif
