#include "agent/c/history.h"

#include "common/error.h"
#include "tests/unit/agent-c/fixture.h"

#include <jansson.h>

static struct store store;
static struct buf prologue;
static struct history history;

static int begin(void **state)
{
	(void)state;
	prologue_init(&prologue, "mo\"del", "line\n\xff", 6);
	history_init(&history, &prologue, &store, "{session}: you are {session}, {sess}\n{session}",
		"s12");
	return 0;
}

static int end(void **state)
{
	(void)state;
	history_release(&history);
	buf_release(&prologue);
	store_release(&store);
	return 0;
}

/* The body as it is sent. */
static char *whole(void)
{
	struct iovec vectors[512];
	size_t size = history_size(&history), at = 0;
	char *text = xcalloc(size + 1, 1);
	size_t count = history_vectors(&history, 0, vectors, ROWS(vectors));
	for (size_t i = 0; i < count; i++) {
		assert_true(vectors[i].iov_len <= size - at);
		memcpy(text + at, vectors[i].iov_base, vectors[i].iov_len);
		at += vectors[i].iov_len;
	}
	assert_int_equal(at, size);
	return text;
}

static void body_is_what_the_contract_says(void **state)
{
	(void)state;
	char *text = whole();
	json_t *body = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	json_t *want = json_pack("{s:s, s:b, s:{s:b}, s:o, s:[{s:s,s:s},{s:s,s:s}]}", "model",
		"mo\"del", "stream", 1, "stream_options", "include_usage", 1, "tools",
		json_loads(
			"[{\"type\":\"function\",\"function\":{\"name\":\"exec\",\"description\":"
			"\"Run a program without a "
			"shell.\",\"parameters\":{\"type\":\"object\","
			"\"properties\":{\"argv\":{\"type\":\"array\",\"items\":{\"type\":"
			"\"string\"},"
			"\"minItems\":1}},\"required\":[\"argv\"]}}},{\"type\":\"function\","
			"\"function\":{\"name\":\"shell\",\"description\":\"Run a command with "
			"/bin/sh.\",\"parameters\":{\"type\":\"object\",\"properties\":{"
			"\"command\":"
			"{\"type\":\"string\"}},\"required\":[\"command\"]}}}]",
			0, NULL),
		"messages", "role", "system", "content", "line\n\xef\xbf\xbd", "role", "user",
		"content", "s12: you are s12, {sess}\ns12");
	assert_non_null(body);
	assert_non_null(want);
	assert_true(json_equal(body, want));
	json_decref(body);
	json_decref(want);
	free(text);
}

static void vectors_from_any_offset(void **state)
{
	(void)state;
	for (int i = 0; i < 300; i++)
		history_add(&history, ",{\"role\":\"tool\"}");
	char *text = whole();
	size_t size = history_size(&history);
	struct iovec vectors[32];
	for (size_t offset = 0; offset <= size; offset++) {
		size_t count = history_vectors(&history, offset, vectors, ROWS(vectors));
		size_t at = offset;
		for (size_t i = 0; i < count; i++) {
			assert_memory_equal(vectors[i].iov_base, text + at, vectors[i].iov_len);
			at += vectors[i].iov_len;
		}
		assert_int_equal(at, size);
	}
	/* fewer vectors than parts: a prefix each time */
	for (size_t room = 1; room < 8; room++)
		for (size_t offset = 0; offset < size;) {
			size_t count = history_vectors(&history, offset, vectors, room);
			assert_in_range(count, 1, room);
			for (size_t i = 0; i < count; i++) {
				assert_memory_equal(
					vectors[i].iov_base, text + offset, vectors[i].iov_len);
				offset += vectors[i].iov_len;
			}
		}
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(body_is_what_the_contract_says, begin, end),
		cmocka_unit_test_setup_teardown(vectors_from_any_offset, begin, end),
	};
	return cmocka_run_group_tests_name("agent-c history", tests, NULL, NULL);
}
