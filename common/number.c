#include "common/number.h"

#include "common/error.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int number_parse(const char *text, const char *name, int64_t min, int64_t max, int64_t *out,
	struct error *err)
{
	char *end;
	errno = 0;
	long long value = strtoll(text, &end, 10);
	if (!*text || *end || isspace((unsigned char)*text) || errno || value < min || value > max)
		return error_set(err, 0, "%s: must be an integer of %lld to %lld, is '%.60s'", name,
			(long long)min, (long long)max, text);
	*out = value;
	return 0;
}

int number_parse_bytes(const char *text, const char *name, int64_t min, int64_t max, int64_t *out,
	struct error *err)
{
	static const char *const units[] = {"", "k", "m", "g", "t"};
	char *end;
	errno = 0;
	double value = strtod(text, &end);
	if (isdigit((unsigned char)*text) && !errno) {
		for (size_t i = 0; i < sizeof units / sizeof *units; i++, value *= 1024) {
			size_t length = strlen(units[i]);
			const char *rest = end + length;
			if (strncasecmp(end, units[i], length) ||
				(*rest && strcasecmp(rest, "b") &&
					(!length || strcasecmp(rest, "ib"))))
				continue;
			if (!isfinite(value) || value < (double)min || value > (double)max)
				break;
			*out = llround(value);
			return 0;
		}
	}
	return error_set(err, 0,
		"%s: must be a size of %lld to %lld bytes (512K, 1.5G), is '%.60s'", name,
		(long long)min, (long long)max, text);
}
