#include "agent/c/retry.h"

#include "tests/unit/agent-c/fixture.h"

enum { NOW = 784111777 }; /* Sun, 06 Nov 1994 08:49:37 GMT */

struct row {
	const char *line;
	enum retry_header header;
	int64_t wait_ms;
};

static const struct row rows[] = {
	{"Retry-After: 7\r\n", RETRY_HEADER_AFTER, 7000},
	{"retry-after:7", RETRY_HEADER_AFTER, 7000},
	{"RETRY-AFTER: \t 0 \r\n", RETRY_HEADER_AFTER, 0},
	{"Retry-After: 1.5\r\n", RETRY_HEADER_AFTER, 1500},
	{"Retry-After: 60\r\n", RETRY_HEADER_AFTER, 60000},
	{"Retry-After: 61\r\n", RETRY_HEADER_AFTER, 60000},
	{"Retry-After: 99999999999999999999\r\n", RETRY_HEADER_AFTER, 60000},
	{"Retry-After: Sun, 06 Nov 1994 08:49:47 GMT\r\n", RETRY_HEADER_AFTER, 10000},
	{"Retry-After: Sunday, 06-Nov-94 08:49:47 GMT\r\n", RETRY_HEADER_AFTER, 10000},
	{"Retry-After: Sun Nov  6 08:49:47 1994\r\n", RETRY_HEADER_AFTER, 10000},
	{"Retry-After: Sun, 06 Nov 1994 08:49:27 GMT\r\n", RETRY_HEADER_AFTER, 0},
	{"Retry-After: Fri, 31 Dec 2100 23:59:59 GMT\r\n", RETRY_HEADER_AFTER, 60000},
	{"Retry-After-Ms: 250\r\n", RETRY_HEADER_AFTER_MS, 250},
	{"retry-after-ms: 250.6\r\n", RETRY_HEADER_AFTER_MS, 251},
	{"Retry-After-Ms: 60001\r\n", RETRY_HEADER_AFTER_MS, 60000},
	{"Retry-After: \r\n", RETRY_HEADER_NONE, 0},
	{"Retry-After: -1\r\n", RETRY_HEADER_NONE, 0},
	{"Retry-After: soon\r\n", RETRY_HEADER_NONE, 0},
	{"Retry-After: 1.2.3\r\n", RETRY_HEADER_NONE, 0},
	{"Retry-After: 0x10\r\n", RETRY_HEADER_NONE, 0},
	{"Retry-After: inf\r\n", RETRY_HEADER_NONE, 0},
	{"Retry-After: .\r\n", RETRY_HEADER_NONE, 0},
	{"Retry-After: 7 seconds\r\n", RETRY_HEADER_NONE, 0},
	{"Retry-After: Sun, 06 Nov 1994 08:49:47 GMT and more\r\n", RETRY_HEADER_NONE, 0},
	{"Retry-After-Ms: Sun, 06 Nov 1994 08:49:47 GMT\r\n", RETRY_HEADER_NONE, 0},
	{"X-Retry-After: 7\r\n", RETRY_HEADER_NONE, 0},
	{"Retry-After-Mss: 7\r\n", RETRY_HEADER_NONE, 0},
	{"Retry-After\r\n", RETRY_HEADER_NONE, 0},
	{"HTTP/1.1 429 Too Many Requests\r\n", RETRY_HEADER_NONE, 0},
	{"\r\n", RETRY_HEADER_NONE, 0},
	{"", RETRY_HEADER_NONE, 0},
};

static void headers(void **state)
{
	(void)state;
	for (size_t i = 0; i < ROWS(rows); i++) {
		int64_t wait_ms = -1;
		assert_int_equal(retry_header(rows[i].line, strlen(rows[i].line), NOW, &wait_ms),
			rows[i].header);
		assert_int_equal(
			wait_ms, rows[i].header == RETRY_HEADER_NONE ? -1 : rows[i].wait_ms);
	}
	static char longest[4096] = "Retry-After: ";
	int64_t wait_ms;
	memset(longest + 13, '1', sizeof longest - 13);
	assert_int_equal(retry_header(longest, sizeof longest, NOW, &wait_ms), RETRY_HEADER_NONE);
}

static void backoff_doubles_up_to_8_s(void **state)
{
	(void)state;
	static const int64_t longest_ms[] = {500, 1000, 2000, 4000, 8000, 8000, 8000};
	uint64_t rng = 1;
	for (int retry = 0; retry < (int)ROWS(longest_ms); retry++) {
		int64_t least_ms = INT64_MAX, most_ms = 0;
		for (int i = 0; i < 1000; i++) {
			int64_t wait_ms = retry_backoff_ms(retry, &rng);
			least_ms = wait_ms < least_ms ? wait_ms : least_ms;
			most_ms = wait_ms > most_ms ? wait_ms : most_ms;
		}
		assert_in_range(least_ms, longest_ms[retry] * 3 / 4, longest_ms[retry] * 77 / 100);
		assert_in_range(most_ms, longest_ms[retry] * 98 / 100, longest_ms[retry]);
	}
	assert_in_range(retry_backoff_ms(100, &rng), 6000, 8000);
}

static void statuses(void **state)
{
	(void)state;
	static const long retried[] = {408, 409, 429, 500, 502, 503, 504, 529, 599};
	static const long final[] = {0, 200, 301, 302, 400, 401, 403, 404, 410, 422, 499, 600};
	for (size_t i = 0; i < ROWS(retried); i++)
		assert_true(retry_status(retried[i]));
	for (size_t i = 0; i < ROWS(final); i++)
		assert_false(retry_status(final[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(headers),
		cmocka_unit_test(backoff_doubles_up_to_8_s),
		cmocka_unit_test(statuses),
	};
	return cmocka_run_group_tests_name("agent-c retry", tests, NULL, NULL);
}
