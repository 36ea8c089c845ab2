#include "agent/c/sse.h"

#include "common/error.h"
#include "tests/unit/agent-c/fixture.h"

#include <errno.h>

/* The events seen, each followed by '|'. */
static struct buf seen;

static int note_event(struct sse *sse, const char *data, size_t length, struct error *err)
{
	(void)sse, (void)err;
	assert_true(length > 0);
	buf_add(&seen, data, length);
	buf_add_char(&seen, '|');
	return 0;
}

struct row {
	const char *stream;
	size_t length;
	const char *events;
	const char *stray;
};
#define ROW(stream, events)                                                                        \
	{                                                                                          \
		stream, sizeof(stream) - 1, events, ""                                             \
	}
#define STRAY(stream, events, stray)                                                               \
	{                                                                                          \
		stream, sizeof(stream) - 1, events, stray                                          \
	}

static const struct row rows[] = {
	ROW("", ""),
	/* line ends */
	ROW("data: a\n\ndata: b\n\n", "a|b|"),
	ROW("data: a\r\n\r\ndata: b\r\n\r\n", "a|b|"),
	ROW("data: a\r\rdata: b\r\r", "a|b|"),
	ROW("data: a\n\r\ndata: b\r\n\ndata: c\r\r\n", "a|b|c|"),
	ROW("data: a\n\n\n\n\r\r\r\n\r\ndata: b\n\n", "a|b|"),
	/* spaces */
	ROW("data:x\n\ndata: x\n\ndata:  x\n\ndata:x \n\n", "x|x| x|x |"),
	ROW("data:\tx\n\n", "\tx|"),
	/* byte order mark */
	ROW("\xef\xbb\xbf"
	    "data: a\n\n",
		"a|"),
	STRAY("\xef\xbb\xbf\xef\xbb\xbf"
	      "data: a\n\ndata: b\n\n",
		"b|",
		"\xef\xbb\xbf"
		"data: a\n"),
	STRAY("\xef\xbb"
	      "data: a\n\ndata: b\n\n",
		"b|",
		"\xef\xbb"
		"data: a\n"),
	STRAY("\xef", "", "\xef\n"),
	ROW("data: \xef\xbb\xbf\n\n", "\xef\xbb\xbf|"),
	/* comments and fields */
	ROW(": ping\n\n:\n\ndata: a\n\n", "a|"),
	ROW(":\ndata: a\n: ping\ndata: b\n:data: no\n\n", "a\nb|"),
	ROW("event: e\nid: 1\nretry: 10\ndata: a\n\nevent\nid\nretry\n\n", "a|"),
	ROW("event: ping\n\nid: 7\n\n", ""),
	/* several data lines */
	ROW("data: a\ndata: b\ndata: c\n\n", "a\nb\nc|"),
	ROW("data: {\r\ndata: \"a\":1\r\ndata: }\r\n\r\n", "{\n\"a\":1\n}|"),
	ROW("data: a\ndata:\ndata: b\n\n", "a\n\nb|"),
	ROW("data\ndata\n\n", "\n|"),
	ROW("data: a\nevent: e\ndata: b\n\n", "a\nb|"),
	/* events without data */
	ROW("data:\n\n", ""),
	ROW("data: \n\n", ""),
	ROW("data\n\n", ""),
	ROW("data:\n\ndata: a\n\n", "a|"),
	/* the end without a blank line, without a line end */
	ROW("data: a\n\ndata: b\n", "a|b|"),
	ROW("data: a\n\ndata: b", "a|b|"),
	ROW("data: a\n\ndata: b\r", "a|b|"),
	ROW("data: a\ndata: b", "a\nb|"),
	ROW("data:", ""),
	STRAY("dat", "", "dat\n"),
	/* NUL and text beyond ASCII */
	ROW("data: \u00e9\U0001f600\n\n", "\u00e9\U0001f600|"),
	/* lines of no event stream */
	STRAY("{\n  \"error\": 1\n}\n", "", "{\n  \"error\": 1\n}\n"),
	STRAY("data: a\n\n{\"error\":{}}", "a|", "{\"error\":{}}\n"),
	STRAY("<html>\r\n<p>\r\n", "", "<html>\n<p>\n"),
	STRAY("datas: x\ndata : y\nDATA: z\n\n", "", "datas: x\ndata : y\nDATA: z\n"),
	STRAY(" data: x\n\n", "", " data: x\n"),
};

static void assert_row(const struct row *row, struct sse *sse)
{
	struct error err;
	assert_int_equal(sse_end(sse, &err), 0);
	buf_add_char(&seen, '\0');
	assert_string_equal(seen.data, row->events);
	assert_string_equal(sse->stray.data ? sse->stray.data : "", row->stray);
	buf_release(&seen);
	sse_release(sse);
}

static void feed(struct sse *sse, const char *bytes, size_t length)
{
	struct error err;
	/* From memory of exactly this size, so that a read beyond it is seen by sanitizers. */
	char *copy = xmalloc(length);
	memcpy(copy, bytes, length);
	assert_int_equal(sse_feed(sse, copy, length, &err), 0);
	free(copy);
}

static void start(struct sse *sse)
{
	buf_init(&seen, SIZE_MAX / 2);
	sse_init(sse, note_event);
}

static void split_anywhere_in_three(void **state)
{
	(void)state;
	for (size_t i = 0; i < ROWS(rows); i++)
		for (size_t a = 0; a <= rows[i].length; a++)
			for (size_t b = a; b <= rows[i].length; b++) {
				struct sse sse;
				start(&sse);
				feed(&sse, rows[i].stream, a);
				feed(&sse, rows[i].stream + a, b - a);
				feed(&sse, rows[i].stream + b, rows[i].length - b);
				assert_row(&rows[i], &sse);
			}
}

static void a_byte_at_a_time(void **state)
{
	(void)state;
	for (size_t i = 0; i < ROWS(rows); i++) {
		struct sse sse;
		start(&sse);
		for (size_t k = 0; k < rows[i].length; k++)
			feed(&sse, rows[i].stream + k, 1);
		assert_row(&rows[i], &sse);
	}
}

static void events_come_at_once(void **state)
{
	(void)state;
	struct sse sse;
	start(&sse);
	feed(&sse, "data: a\r\n\r", 10);
	assert_string_equal(seen.data, "a|");
	feed(&sse, "\ndata: b\n\n", 10);
	assert_string_equal(seen.data, "a|b|");
	sse_release(&sse);
	buf_release(&seen);
}

static void nothing_is_kept_between_events(void **state)
{
	(void)state;
	struct sse sse;
	start(&sse);
	feed(&sse, "data: a\n\ndata: b\n\n", 18);
	assert_null(sse.kept.data);
	feed(&sse, "data: c\n", 8);
	assert_non_null(sse.kept.data);
	feed(&sse, "\n", 1);
	assert_null(sse.kept.data);
	assert_string_equal(seen.data, "a|b|c|");
	sse_release(&sse);
	buf_release(&seen);
}

static void nul_is_text(void **state)
{
	(void)state;
	struct sse sse;
	start(&sse);
	feed(&sse, "data: a\0b\n\n", 11);
	assert_int_equal(seen.length, 4);
	assert_memory_equal(seen.data, "a\0b|", 4);
	sse_release(&sse);
	buf_release(&seen);
}

static size_t longest_event;

static int note_length(struct sse *sse, const char *data, size_t length, struct error *err)
{
	(void)sse, (void)data, (void)err;
	longest_event = length;
	return 0;
}

/* Feed a data line of `length` bytes in pieces of `piece`; returns sse_feed's result. */
static int feed_long_line(size_t length, size_t piece, struct error *err)
{
	struct sse sse;
	char *line = xmalloc(length + 2);
	memset(line, 'x', length);
	memcpy(line, "data: ", 6);
	memcpy(line + length, "\n\n", 2);
	sse_init(&sse, note_length);
	longest_event = 0;
	int result = 0;
	for (size_t at = 0; at < length + 2 && !result; at += piece)
		result = sse_feed(
			&sse, line + at, length + 2 - at < piece ? length + 2 - at : piece, err);
	sse_release(&sse);
	free(line);
	return result;
}

static void long_lines_up_to_the_cap(void **state)
{
	(void)state;
	static const size_t lengths[] = {64 << 10, 1 << 20, 2 << 20, SSE_LINE_MAX};
	static const size_t pieces[] = {1000, 16 << 10, SIZE_MAX / 2};
	struct error err;
	for (size_t i = 0; i < ROWS(lengths); i++)
		for (size_t k = 0; k < ROWS(pieces); k++) {
			assert_int_equal(feed_long_line(lengths[i], pieces[k], &err), 0);
			assert_int_equal(longest_event, lengths[i] - 6);
		}
	for (size_t k = 0; k < ROWS(pieces); k++) {
		assert_int_equal(feed_long_line(SSE_LINE_MAX + 1, pieces[k], &err), -1);
		assert_int_equal(err.code, EMSGSIZE);
		assert_non_null(strstr(err.text, "line of the stream is longer than"));
		assert_int_equal(longest_event, 0);
	}
}

static void event_of_too_many_lines(void **state)
{
	(void)state;
	enum { LINE = 1 << 20 };
	struct sse sse;
	struct error err;
	char *line = xmalloc(LINE + 7);
	memset(line, 'x', LINE + 6);
	memcpy(line, "data: ", 6);
	line[LINE + 6] = '\n';
	sse_init(&sse, note_length);
	int lines = 0;
	while (!sse_feed(&sse, line, LINE + 7, &err))
		lines++;
	assert_int_equal(lines, SSE_EVENT_MAX / LINE - 1);
	assert_int_equal(err.code, EMSGSIZE);
	assert_non_null(strstr(err.text, "event of the stream is longer than"));
	sse_release(&sse);
	free(line);
}

static int refuse_event(struct sse *sse, const char *data, size_t length, struct error *err)
{
	(void)sse, (void)data, (void)length;
	return error_set(err, 0, "refused");
}

static void callback_stops_the_stream(void **state)
{
	(void)state;
	static const char *const streams[] = {"data: a\n\n", "data: a\ndata: b\n\n"};
	for (size_t i = 0; i < ROWS(streams); i++) {
		struct sse sse;
		struct error err;
		sse_init(&sse, refuse_event);
		assert_int_equal(sse_feed(&sse, streams[i], strlen(streams[i]), &err), -1);
		assert_string_equal(err.text, "refused");
		sse_release(&sse);
	}
	struct sse sse;
	struct error err;
	sse_init(&sse, refuse_event);
	assert_int_equal(sse_feed(&sse, "data: a", 7, &err), 0);
	assert_int_equal(sse_end(&sse, &err), -1);
	sse_release(&sse);
}

static void stray_lines_are_capped(void **state)
{
	(void)state;
	struct sse sse;
	struct error err;
	sse_init(&sse, note_length);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(sse_feed(&sse, "<p>Bad gateway</p>\n", 19, &err), 0);
	assert_true(sse.stray.length > SSE_STRAY_MAX - 20 && sse.stray.length <= SSE_STRAY_MAX);
	sse_release(&sse);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(split_anywhere_in_three),
		cmocka_unit_test(a_byte_at_a_time),
		cmocka_unit_test(events_come_at_once),
		cmocka_unit_test(nothing_is_kept_between_events),
		cmocka_unit_test(nul_is_text),
		cmocka_unit_test(long_lines_up_to_the_cap),
		cmocka_unit_test(event_of_too_many_lines),
		cmocka_unit_test(callback_stops_the_stream),
		cmocka_unit_test(stray_lines_are_capped),
	};
	return cmocka_run_group_tests_name("agent-c sse", tests, NULL, NULL);
}
