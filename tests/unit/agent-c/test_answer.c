/* Whole streams, from bytes to the history: sse, chunk, answer and escape together. */
#include "agent/c/answer.h"

#include "agent/c/history.h"
#include "agent/c/sse.h"
#include "common/error.h"
#include "tests/unit/agent-c/fixture.h"

#include <stdio.h>

#define TEXT(text) "{\"choices\":[{\"delta\":{\"content\":\"" text "\"}}]}"
#define CALLS(calls) "{\"choices\":[{\"delta\":{\"tool_calls\":[" calls "]}}]}"
#define FINISH "{\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}"
#define FFFD "\xef\xbf\xbd"

/* What the history gets. */
#define MESSAGE(content, calls) ",{\"role\":\"assistant\",\"content\":" content calls "}"
#define WITH(calls) ",\"tool_calls\":[" calls "]"
#define CALL(id, name, arguments)                                                                  \
	"{\"id\":\"" id "\",\"type\":\"function\",\"function\":{\"name\":\"" name                  \
	"\",\"arguments\":\"" arguments "\"}}"

enum { EVENTS_MAX = 8 };

struct row {
	const char *events[EVENTS_MAX];
	const char *message; /* what the history gets; NULL: the answer fails */
	const char *error;
	bool unfinished, done;
};

static const struct row rows[] = {
	/* text */
	{{TEXT("a"), TEXT("b"), FINISH, "[DONE]"}, MESSAGE("\"ab\"", ""), NULL, false, true},
	{{TEXT(""), FINISH}, MESSAGE("\"\"", ""), NULL, false, false},
	{{FINISH}, MESSAGE("null", ""), NULL, false, false},
	{{"[DONE]"}, MESSAGE("null", ""), NULL, true, true},
	{{TEXT("a")}, MESSAGE("\"a\"", ""), NULL, true, false},
	{{TEXT("\\ud83d"), TEXT("\\ude00"), FINISH}, MESSAGE("\"\\ud83d\\ude00\"", ""), NULL, false,
		false},
	{{TEXT("\\ud83d"), FINISH}, MESSAGE("\"" FFFD "\"", ""), NULL, false, false},
	{{TEXT("\xe2\x82"), TEXT("\xac"), FINISH}, MESSAGE("\"\u20ac\"", ""), NULL, false, false},
	{{TEXT("\\u0000"), FINISH}, MESSAGE("\"\\u0000\"", ""), NULL, false, false},
	/* after [DONE] nothing counts */
	{{FINISH, "[DONE]", TEXT("late"), "{\"error\":1}", "junk"}, MESSAGE("null", ""), NULL,
		false, true},
	{{FINISH, "[DONE] "}, MESSAGE("null", ""), NULL, false, true},
	/* events that say nothing */
	{{" ", "null", "{}", "{\"choices\":[],\"usage\":{}}", "[1]", FINISH}, MESSAGE("null", ""),
		NULL, false, false},
	/* calls */
	{{CALLS("{\"index\":0,\"id\":\"c\",\"type\":\"function\",\"function\":{\"name\":\"exec\","
		"\"arguments\":\"{}\"}}"),
		 FINISH},
		MESSAGE("null", WITH(CALL("c", "exec", "{}"))), NULL, false, false},
	{{TEXT("t"), CALLS("{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"exec\"}}"),
		 CALLS("{\"index\":0,\"function\":{\"arguments\":\"{\\\"a\\\"\"}}"),
		 CALLS("{\"index\":0,\"function\":{\"arguments\":\":1}\"}}"), FINISH},
		MESSAGE("\"t\"", WITH(CALL("c", "exec", "{\\\"a\\\":1}"))), NULL, false, false},
	/* no index: by id, else the current call */
	{{CALLS("{\"id\":\"a\",\"function\":{\"name\":\"x\",\"arguments\":\"1\"}}"),
		 CALLS("{\"id\":\"b\",\"function\":{\"name\":\"y\",\"arguments\":\"2\"}}"),
		 CALLS("{\"id\":\"a\",\"function\":{\"arguments\":\"3\"}}"),
		 CALLS("{\"function\":{\"arguments\":\"4\"}}"), FINISH},
		MESSAGE("null", WITH(CALL("a", "x", "134") "," CALL("b", "y", "2"))), NULL, false,
		false},
	{{CALLS("{\"function\":{\"name\":\"x\"}}"), CALLS("{\"function\":{\"arguments\":\"1\"}}"),
		 FINISH},
		MESSAGE("null", WITH(CALL("call_3_0", "x", "1"))), NULL, false, false},
	/* the same index with a new id */
	{{CALLS("{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"x\",\"arguments\":\"1\"}}"),
		 CALLS("{\"index\":0,\"id\":\"b\",\"function\":{\"name\":\"y\",\"arguments\":\"2\"}"
		       "}"),
		 CALLS("{\"index\":0,\"function\":{\"arguments\":\"3\"}}"), FINISH},
		MESSAGE("null", WITH(CALL("a", "x", "1") "," CALL("b", "y", "23"))), NULL, false,
		false},
	/* interleaved, the id only in the first fragment */
	{{CALLS("{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"x\"}},{\"index\":1,\"id\":"
		"\"b\","
		"\"function\":{\"name\":\"y\"}}"),
		 CALLS("{\"index\":1,\"function\":{\"arguments\":\"2\"}},{\"index\":0,"
		       "\"function\":{\"arguments\":\"1\"}}"),
		 CALLS("{\"index\":0,\"function\":{\"arguments\":\"3\"}}"), FINISH},
		MESSAGE("null", WITH(CALL("a", "x", "13") "," CALL("b", "y", "2"))), NULL, false,
		false},
	/* order is that of the index */
	{{CALLS("{\"index\":1,\"id\":\"b\",\"function\":{\"name\":\"y\"}}"),
		 CALLS("{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"x\"}}"), FINISH},
		MESSAGE("null", WITH(CALL("a", "x", "{}") "," CALL("b", "y", "{}"))), NULL, false,
		false},
	/* name after the arguments; id and name repeated; id "" goes on */
	{{CALLS("{\"index\":0,\"function\":{\"arguments\":\"1\"}}"),
		 CALLS("{\"index\":0,\"id\":\"a\",\"type\":\"function\",\"function\":{\"name\":"
		       "\"x\"}}"),
		 CALLS("{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"x\",\"arguments\":\"2\"}"
		       "}"),
		 CALLS("{\"index\":0,\"id\":\"\",\"function\":{\"name\":\"\",\"arguments\":\"3\"}"
		       "}"),
		 CALLS("{\"id\":\"\",\"function\":{\"arguments\":\"4\"}}"), FINISH},
		MESSAGE("null", WITH(CALL("a", "x", "1234"))), NULL, false, false},
	/* arguments: an object, null, none */
	{{CALLS("{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"x\",\"arguments\":{\"argv\":"
		"[\"l\\n\"]}}}"),
		 FINISH},
		MESSAGE("null", WITH(CALL("a", "x", "{\\\"argv\\\":[\\\"l\\\\n\\\"]}"))), NULL,
		false, false},
	{{CALLS("{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"x\",\"arguments\":null}}"),
		 CALLS("{\"index\":0,\"function\":{\"arguments\":\"\"}}"), FINISH},
		MESSAGE("null", WITH(CALL("a", "x", "{}"))), NULL, false, false},
	/* an escape and a pair split over fragments of arguments */
	{{CALLS("{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"x\",\"arguments\":\"\\\"\\\\\"}"
		"}"),
		 CALLS("{\"index\":0,\"function\":{\"arguments\":\"n\\ud83d\"}}"),
		 CALLS("{\"index\":0,\"function\":{\"arguments\":\"\\ude00\\\"\"}}"), FINISH},
		MESSAGE("null", WITH(CALL("a", "x", "\\\"\\\\n\\ud83d\\ude00\\\""))), NULL, false,
		false},
	/* finish and arguments in one chunk */
	{{"{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":"
	  "{\"name\":\"x\",\"arguments\":\"1\"}}]},\"finish_reason\":\"stop\"}]}"},
		MESSAGE("null", WITH(CALL("a", "x", "1"))), NULL, false, false},
	/* failures */
	{{TEXT("a"), "{\"error\":{\"message\":\"too hot\"}}"}, NULL, "too hot", true, false},
	{{"{\"error\":\"too cold\"}"}, NULL, "too cold", true, false},
	{{"{\"error\":{\"code\":7}}"}, NULL, "{\"code\":7}", true, false},
	{{TEXT("a"), "{\"choices\":[{"}, NULL, "event of the stream is not JSON: '{\"choices\":[{'",
		true, false},
};

struct reading {
	struct sse sse;
	struct answer answer;
};

static int take(struct sse *sse, const char *data, size_t length, struct error *err)
{
	struct reading *reading = (struct reading *)sse;
	return answer_take(&reading->answer, data, length, err);
}

static char *chain_text(const struct chain *chain, size_t from)
{
	char *text = xmalloc(chain->length - from + 1);
	chain_read(chain, from, text, chain->length - from);
	text[chain->length - from] = '\0';
	return text;
}

/* Play the stream in three pieces, and judge what the history got. */
static void play(const struct row *row, const char *stream, size_t a, size_t b)
{
	struct store store = {0};
	struct buf prologue;
	struct history history;
	struct reading reading;
	struct error err;
	size_t length = strlen(stream);
	prologue_init(&prologue, "m", "p", 1);
	history_init(&history, &prologue, &store, "task", "s1");
	size_t before = history.chain.length;
	answer_init(&reading.answer, &history);
	sse_init(&reading.sse, take);
	bool failed = sse_feed(&reading.sse, stream, a, &err) ||
		      sse_feed(&reading.sse, stream + a, b - a, &err) ||
		      sse_feed(&reading.sse, stream + b, length - b, &err) ||
		      sse_end(&reading.sse, &err);
	assert_int_equal(failed, !row->message);
	assert_int_equal(reading.answer.finished, !row->unfinished);
	assert_int_equal(reading.answer.done, row->done);
	if (failed) {
		assert_string_equal(err.text, row->error);
		answer_drop(&reading.answer);
		assert_int_equal(history.chain.length, before);
	} else {
		answer_end(&reading.answer, 3);
		char *message = chain_text(&history.chain, before);
		assert_string_equal(message, row->message);
		free(message);
	}
	answer_release(&reading.answer);
	sse_release(&reading.sse);
	history_release(&history);
	buf_release(&prologue);
	store_release(&store);
}

static void build_stream(const struct row *row, char *stream, size_t size, const char *end)
{
	size_t length = 0;
	for (int i = 0; i < EVENTS_MAX && row->events[i]; i++)
		length += (size_t)snprintf(
			stream + length, size - length, "data: %s%s%s", row->events[i], end, end);
	assert_true(length < size);
}

static void streams_in_two_pieces(void **state)
{
	(void)state;
	static const char *const ends[] = {"\n", "\r\n", "\r"};
	char stream[2048];
	for (size_t i = 0; i < ROWS(rows); i++)
		for (size_t k = 0; k < ROWS(ends); k++) {
			build_stream(&rows[i], stream, sizeof stream, ends[k]);
			for (size_t at = 0; at <= strlen(stream); at++)
				play(&rows[i], stream, at, at);
		}
}

static void streams_in_three_pieces(void **state)
{
	(void)state;
	char stream[2048];
	for (size_t i = 0; i < ROWS(rows); i++) {
		build_stream(&rows[i], stream, sizeof stream, "\n");
		size_t length = strlen(stream);
		for (size_t a = 0; a <= length; a += 7)
			for (size_t b = a; b <= length; b += 11)
				play(&rows[i], stream, a, b);
	}
}

static void an_attempt_that_failed_leaves_nothing(void **state)
{
	(void)state;
	struct store store = {0};
	struct buf prologue;
	struct history history;
	struct answer answer;
	struct error err;
	prologue_init(&prologue, "m", "p", 1);
	history_init(&history, &prologue, &store, "task", "s1");
	size_t before = history.chain.length;
	answer_init(&answer, &history);
	static const char first[] = TEXT("lost"), second[] = TEXT("kept");
	static const char call[] = CALLS("{\"id\":\"lost\"}");
	assert_int_equal(answer_take(&answer, first, strlen(first), &err), 0);
	assert_int_equal(answer_take(&answer, call, strlen(call), &err), 0);
	answer_drop(&answer);
	assert_int_equal(history.chain.length, before);
	assert_int_equal(answer_take(&answer, second, strlen(second), &err), 0);
	answer_end(&answer, 1);
	char *message = chain_text(&history.chain, before);
	assert_string_equal(message, MESSAGE("\"kept\"", ""));
	free(message);
	answer_release(&answer);
	history_release(&history);
	buf_release(&prologue);
	store_release(&store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(streams_in_two_pieces),
		cmocka_unit_test(streams_in_three_pieces),
		cmocka_unit_test(an_attempt_that_failed_leaves_nothing),
	};
	return cmocka_run_group_tests_name("agent-c answer", tests, NULL, NULL);
}
