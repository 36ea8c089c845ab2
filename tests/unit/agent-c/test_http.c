#include "agent/c/http.h"

#include "common/error.h"
#include "tests/unit/agent-c/fixture.h"

#include <stdio.h>

/* What an answer came to: its headers as "name=value;", its body. */
struct seen {
	struct http http;
	struct buf headers, body;
};

static int note_header(struct http *http, struct span name, struct span value, struct error *err)
{
	struct seen *seen = (struct seen *)http;
	(void)err;
	return buf_addf(&seen->headers, "%.*s=%.*s;", (int)name.length, name.at, (int)value.length,
		value.at);
}

static int note_data(struct http *http, const char *bytes, size_t length, struct error *err)
{
	struct seen *seen = (struct seen *)http;
	assert_true(length > 0);
	if (bytes[0] == '!')
		return error_set(err, 0, "stop");
	return buf_add(&seen->body, bytes, length);
}

static void begin(struct seen *seen)
{
	*seen = (struct seen){.http = {.header = note_header, .data = note_data}};
	buf_init(&seen->headers, 1 << 20);
	buf_init(&seen->body, 1 << 20);
	http_begin(&seen->http);
}

static void release(struct seen *seen)
{
	http_release(&seen->http);
	buf_release(&seen->headers);
	buf_release(&seen->body);
}

/* Feed in pieces; each is a copy of its own, so that nothing may be read beyond it. Returns how
 * many bytes were taken, or -1. */
static int64_t feed(
	struct seen *seen, const char *text, size_t length, size_t piece, struct error *err)
{
	int64_t total = 0;
	for (size_t at = 0; at < length && seen->http.state != HTTP_OVER; at += piece) {
		size_t part = length - at < piece ? length - at : piece;
		char *copy = xmalloc(part);
		memcpy(copy, text + at, part);
		int64_t took = http_feed(&seen->http, copy, part, err);
		free(copy);
		if (took < 0)
			return -1;
		total += took;
	}
	return total;
}

enum ends { OPEN, CLOSED };

struct row {
	const char *text;
	enum ends ends; /* the connection does, after the text */
	int status;
	const char *headers, *body, *surplus;
	bool keeps_alive;
};

#define OK "HTTP/1.1 200 OK\r\n"
#define CHUNKED "Transfer-Encoding: chunked\r\n\r\n"
#define LENGTH(n) "Content-Length: " #n "\r\n\r\n"

static const struct row rows[] = {
	/* where the body ends */
	{OK LENGTH(2) "hi", OPEN, 200, "", "hi", "", true},
	{OK LENGTH(0), OPEN, 200, "", "", "", true},
	{OK LENGTH(2) "hiho", OPEN, 200, "", "hi", "ho", true},
	{OK "Content-Length: 2\r\nContent-Length: 2\r\n\r\nhi", OPEN, 200, "", "hi", "", true},
	{OK CHUNKED "2\r\nhi\r\n3\r\n ho\r\n0\r\n\r\n", OPEN, 200, "", "hi ho", "", true},
	{OK CHUNKED "0\r\n\r\nrest", OPEN, 200, "", "", "rest", true},
	{OK "transfer-encoding: CHUNKED\r\nContent-Length: 9\r\n\r\n2\r\nhi\r\n0\r\n\r\n", OPEN,
		200, "", "hi", "", true},
	{OK "\r\nhi", CLOSED, 200, "", "hi", "", false},
	{OK "\r\n", CLOSED, 200, "", "", "", false},
	{"HTTP/1.1 204 No Content\r\n\r\nrest", OPEN, 204, "", "", "rest", true},
	{"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", OPEN, 304, "", "", "", true},
	/* chunks */
	{OK CHUNKED "0002;name=value;other=\"x\"\r\nhi\r\n0;last\r\nX-Trailer: yes\r\nY:\r\n\r\n",
		OPEN, 200, "", "hi", "", true},
	{OK CHUNKED "2 \r\nhi\r\nA\t;x\r\n0123456789\r\n00000000000000000000\r\n\r\n", OPEN, 200,
		"", "hi0123456789", "", true},
	{OK CHUNKED "2\nhi\n0\n\n", OPEN, 200, "", "hi", "", true},
	{OK CHUNKED "4\r\n\r\n\r\n\r\n0\r\n\r\n", OPEN, 200, "", "\r\n\r\n", "", true},
	/* the head */
	{"HTTP/1.1 200 OK\nContent-Length: 2\n\nhi", OPEN, 200, "", "hi", "", true},
	{"\r\n\n" OK LENGTH(2) "hi", OPEN, 200, "", "hi", "", true},
	{"HTTP/1.1 429\r\n" LENGTH(0), OPEN, 429, "", "", "", true},
	{"HTTP/1.1 503 \r\n" LENGTH(0), OPEN, 503, "", "", "", true},
	{OK "A: 1\r\nb-C:2\r\nA:  x y \t\r\nEmpty:\r\nColon: a:b\r\n" LENGTH(0), OPEN, 200,
		"A=1;b-C=2;A=x y;Empty=;Colon=a:b;", "", "", true},
	{OK "A: 1\r\n folded\r\n\tagain\r\n" LENGTH(0), OPEN, 200, "A=1;", "", "", true},
	/* the connection afterwards */
	{OK "Connection: close\r\n" LENGTH(0), OPEN, 200, "Connection=close;", "", "", false},
	{OK "connection: x, CLOSE ,y\r\n" LENGTH(0), OPEN, 200, "connection=x, CLOSE ,y;", "", "",
		false},
	{OK "Connection: closed\r\n" LENGTH(0), OPEN, 200, "Connection=closed;", "", "", true},
	{"HTTP/1.0 200 OK\r\n" LENGTH(0), OPEN, 200, "", "", "", false},
	{"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n" LENGTH(0), OPEN, 200,
		"Connection=Keep-Alive;", "", "", true},
	{"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nhi", CLOSED, 200,
		"Connection=keep-alive;", "hi", "", false},
	/* interim answers */
	{"HTTP/1.1 100 Continue\r\n\r\n" OK LENGTH(2) "hi", OPEN, 200, "", "hi", "", true},
	{"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" OK LENGTH(0),
		OPEN, 200, "Link=x;", "", "", true},
	{"HTTP/1.1 103 Early Hints\r\nConnection: close\r\nContent-Length: 7\r\n\r\n" OK LENGTH(
		 1) "x",
		OPEN, 200, "Connection=close;", "x", "", true},
};

static void check_row(const struct row *row, size_t piece)
{
	struct seen seen;
	struct error err = {0};
	size_t length = strlen(row->text);
	begin(&seen);
	int64_t took = feed(&seen, row->text, length, piece, &err);
	assert_string_equal(err.text, "");
	if (row->ends == CLOSED) {
		assert_int_not_equal(seen.http.state, HTTP_OVER);
		assert_int_equal(http_end(&seen.http, &err), 0);
	}
	assert_int_equal(seen.http.state, HTTP_OVER);
	assert_int_equal(seen.http.status, row->status);
	assert_string_equal(seen.headers.data ? seen.headers.data : "", row->headers);
	assert_string_equal(seen.body.data ? seen.body.data : "", row->body);
	assert_string_equal(row->text + took, row->surplus);
	assert_int_equal(seen.http.keeps_alive, row->keeps_alive);
	release(&seen);
}

static void test_answers_split_anywhere(void **state)
{
	(void)state;
	for (size_t i = 0; i < ROWS(rows); i++)
		for (size_t piece = 1; piece <= strlen(rows[i].text); piece++)
			check_row(&rows[i], piece);
}

static const struct {
	const char *text, *message;
} bad_rows[] = {
	{"220 mail.example ESMTP\r\n", "answer is not HTTP/1: '220 mail.example ESMTP'"},
	{"HTTP/2 200\r\n", "answer is not HTTP/1: 'HTTP/2 200'"},
	{"HTTP/1.1 20\r\n", "answer is not HTTP/1: 'HTTP/1.1 20'"},
	{"HTTP/1.1 2000\r\n", "answer is not HTTP/1: 'HTTP/1.1 2000'"},
	{"HTTP/1.1 099 x\r\n", "answer is not HTTP/1: 'HTTP/1.1 099 x'"},
	{"HTTP/1.x 200 x\r\n", "answer is not HTTP/1: 'HTTP/1.x 200 x'"},
	{"HTTP/1.1 101 Switching Protocols\r\n\r\n",
		"answer switches protocols, which nobody asked for"},
	{OK "no colon\r\n", "answer has a header without a colon: 'no colon'"},
	{OK LENGTH(), "answer has a bad Content-Length: ''"},
	{OK LENGTH(-1), "answer has a bad Content-Length: '-1'"},
	{OK LENGTH(1 2), "answer has a bad Content-Length: '1 2'"},
	{OK LENGTH(18446744073709551616),
		"answer has a bad Content-Length: '18446744073709551616'"},
	{OK "Content-Length: 2\r\nContent-Length: 3\r\n", "answer has a bad Content-Length: '3'"},
	{OK "Transfer-Encoding: gzip, chunked\r\n",
		"answer has a Transfer-Encoding that is not known: 'gzip, chunked'"},
	{OK "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
		"answer has a Transfer-Encoding that is not known: 'chunked'"},
	{OK CHUNKED "\r\n", "answer has a bad chunk size: ''"},
	{OK CHUNKED "x\r\n", "answer has a bad chunk size: 'x'"},
	{OK CHUNKED "-1\r\n", "answer has a bad chunk size: '-1'"},
	{OK CHUNKED "0x2\r\n", "answer has a bad chunk size: '0x2'"},
	{OK CHUNKED "1000000000000000\r\n", "answer has a bad chunk size: '1000000000000000'"},
	{OK CHUNKED "2\r\nhi!\r\n", "answer has a chunk that is longer than it says"},
	{OK CHUNKED "2\r\n!!\r\n", "stop"},
};

static void test_bad_answers(void **state)
{
	(void)state;
	for (size_t i = 0; i < ROWS(bad_rows); i++)
		for (size_t piece = 1; piece <= strlen(bad_rows[i].text); piece++) {
			struct seen seen;
			struct error err = {0};
			const char *text = bad_rows[i].text;
			begin(&seen);
			assert_int_equal(feed(&seen, text, strlen(text), piece, &err), -1);
			assert_string_equal(err.text, bad_rows[i].message);
			release(&seen);
		}
}

static void test_answers_cut_short(void **state)
{
	(void)state;
	static const char *const texts[] = {"H", OK, OK "A: 1", OK LENGTH(2), OK LENGTH(2) "h",
		OK CHUNKED, OK CHUNKED "2", OK CHUNKED "2\r\nhi", OK CHUNKED "0\r\n",
		OK CHUNKED "0\r\nX: y\r\n", "HTTP/1.1 100 Continue\r\n\r\n"};
	struct seen seen;
	struct error err;
	for (size_t i = 0; i < ROWS(texts); i++) {
		begin(&seen);
		assert_int_equal(feed(&seen, texts[i], strlen(texts[i]), SIZE_MAX / 2, &err),
			strlen(texts[i]));
		assert_true(seen.http.heard);
		assert_int_equal(http_end(&seen.http, &err), -1);
		assert_string_equal(err.text, "the server closed it before the answer's end");
		release(&seen);
	}
	begin(&seen);
	assert_false(seen.http.heard);
	assert_int_equal(http_end(&seen.http, &err), -1);
	assert_string_equal(err.text, "the server closed it without an answer");
	release(&seen);
}

/* Lines in one piece and in many. */
static void test_heads_have_a_bound(void **state)
{
	(void)state;
	struct error err;
	for (size_t piece = 1000; piece <= HTTP_HEAD_MAX * 2; piece += HTTP_HEAD_MAX) {
		for (int one_line = 0; one_line < 2; one_line++) {
			struct seen seen;
			struct buf text;
			buf_init(&text, 1 << 20);
			buf_add_text(&text, OK "A: ");
			while (text.length < HTTP_HEAD_MAX - 10)
				buf_add_text(&text, one_line ? "........" : "1\r\nA: 4");
			buf_add_text(&text, "\r\n");
			begin(&seen);
			assert_true(feed(&seen, text.data, text.length, piece, &err) > 0);
			buf_clear(&text);
			buf_add_text(&text, "Long: enough\r\n");
			assert_int_equal(feed(&seen, text.data, text.length, piece, &err), -1);
			assert_non_null(strstr(err.text, "more than 262144 bytes"));
			release(&seen);
			buf_release(&text);
		}
	}
}

static void test_words(void **state)
{
	(void)state;
	static const struct {
		const char *value;
		bool has;
	} words[] = {{"close", true}, {"CLOSE", true}, {" x , close", true}, {"close,", true},
		{"", false}, {",", false}, {"closes", false}, {"x close", false}};
	for (size_t i = 0; i < ROWS(words); i++) {
		struct span value = {words[i].value, strlen(words[i].value)};
		assert_int_equal(http_has_word(value, "close"), words[i].has);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers_split_anywhere),
		cmocka_unit_test(test_bad_answers),
		cmocka_unit_test(test_answers_cut_short),
		cmocka_unit_test(test_heads_have_a_bound),
		cmocka_unit_test(test_words),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
