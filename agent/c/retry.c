#include "agent/c/retry.h"

#include "common/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { FIRST_WAIT_MS = 500, LONGEST_WAIT_MS = 8000, LONGEST_ASKED_MS = 60000 };

bool retry_status(long status)
{
	return status == 408 || status == 409 || status == 429 || (status >= 500 && status <= 599);
}

int64_t retry_backoff_ms(int retry, uint64_t *rng)
{
	int64_t wait_ms = retry < 4 ? (int64_t)FIRST_WAIT_MS << retry : LONGEST_WAIT_MS;
	return llround((double)wait_ms * (0.75 + rng_unit(rng) / 4));
}

static int64_t within_bounds(double wait_ms)
{
	return wait_ms < 0 ? 0 : wait_ms > LONGEST_ASKED_MS ? LONGEST_ASKED_MS : llround(wait_ms);
}

/* Digits with an optional fraction. */
static bool parse_decimal(const char *text, double *number)
{
	if (!*text || strspn(text, "0123456789.") != strlen(text) || *text == '.')
		return false;
	char *end;
	*number = strtod(text, &end);
	return !*end;
}

/* The three forms of RFC 9110, section 5.6.7, all in UTC. */
static bool parse_date(const char *text, time_t *date)
{
	static const char *const formats[] = {
		"%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"};
	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
		struct tm fields = {0};
		const char *end = strptime(text, formats[i], &fields);
		if (end && !*end) {
			*date = timegm(&fields);
			return true;
		}
	}
	return false;
}

enum retry_header retry_header(const char *line, size_t length, time_t now, int64_t *wait_ms)
{
	static const char name[] = "retry-after", name_ms[] = "retry-after-ms";
	char value[64];
	const char *colon = memchr(line, ':', length);
	if (!colon)
		return RETRY_HEADER_NONE;
	size_t name_length = (size_t)(colon - line);
	bool ms = name_length == sizeof name_ms - 1 && !strncasecmp(line, name_ms, name_length);
	if (!ms && (name_length != sizeof name - 1 || strncasecmp(line, name, name_length)))
		return RETRY_HEADER_NONE;

	const char *at = colon + 1, *end = line + length;
	while (at < end && (*at == ' ' || *at == '\t'))
		at++;
	while (end > at && strchr(" \t\r\n", end[-1]))
		end--;
	if ((size_t)(end - at) >= sizeof value)
		return RETRY_HEADER_NONE;
	memcpy(value, at, (size_t)(end - at));
	value[end - at] = '\0';

	double number;
	time_t date;
	if (parse_decimal(value, &number))
		*wait_ms = within_bounds(ms ? number : number * 1000);
	else if (!ms && parse_date(value, &date))
		*wait_ms = within_bounds(difftime(date, now) * 1000);
	else
		return RETRY_HEADER_NONE;
	return ms ? RETRY_HEADER_AFTER_MS : RETRY_HEADER_AFTER;
}
