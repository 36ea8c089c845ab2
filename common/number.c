#include "common/number.h"

#include "common/error.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

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
