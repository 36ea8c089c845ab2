#include "collector/cgroup_file.h"

#include "collector/run_facts.h"
#include "common/cleanup.h"
#include "common/error.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int cg_read(int dir_fd, const char *name, char *text, size_t size, struct error *err)
{
	auto_close int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return error_set(err, errno, "cannot open '%s'", name);
	size_t length = 0;
	for (;;) {
		ssize_t got = read(fd, text + length, size - 1 - length);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return error_set(err, errno, "cannot read '%s'", name);
		length += (size_t)got;
		if (!got)
			break;
		if (length == size - 1)
			return error_set(err, EFBIG, "cannot read '%s'", name);
	}
	while (length && isspace((unsigned char)text[length - 1]))
		length--;
	text[length] = '\0';
	return 0;
}

/* cgroup files take one value by one write. */
int cg_write(int dir_fd, const char *name, const char *text, struct error *err)
{
	auto_close int fd = openat(dir_fd, name, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return error_set(err, errno, "cannot open '%s'", name);
	ssize_t put;
	do
		put = write(fd, text, strlen(text));
	while (put < 0 && errno == EINTR);
	if (put < 0)
		return error_set(err, errno, "cannot write '%s' to '%s'", text, name);
	return 0;
}

int cg_write_number(int dir_fd, const char *name, int64_t value, struct error *err)
{
	char text[32];
	snprintf(text, sizeof text, "%" PRId64, value);
	return cg_write(dir_fd, name, text, err);
}

int cg_parse_number(const char *text, const char **end, int64_t *value)
{
	char *after;
	errno = 0;
	unsigned long long number = strtoull(text, &after, 10);
	if (!isdigit((unsigned char)*text) || errno)
		return -1;
	*value = number > INT64_MAX ? INT64_MAX : (int64_t)number;
	if (end)
		*end = after;
	return 0;
}

int cg_read_number(int dir_fd, const char *name, int64_t *value, struct error *err)
{
	char text[64];
	if (cg_read(dir_fd, name, text, sizeof text, err))
		return -1;
	const char *end;
	if (cg_parse_number(text, &end, value) || *end)
		return error_set(err, 0, "'%s' is no number: '%s'", name, text);
	return 0;
}

/* The number after "key " at the start of a line; FACT_MISSING if it is not there. */
int64_t cg_keyed(const char *text, const char *key)
{
	size_t length = strlen(key);
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		int64_t value;
		if (!strncmp(line, key, length) && line[length] == ' ' &&
			!cg_parse_number(line + length + 1, NULL, &value))
			return value;
	}
	return FACT_MISSING;
}

int cg_read_keyed(int dir_fd, const char *name, const char *key, int64_t *value, struct error *err)
{
	char text[CG_TEXT_MAX];
	if (cg_read(dir_fd, name, text, sizeof text, err))
		return -1;
	int64_t found = cg_keyed(text, key);
	if (found == FACT_MISSING)
		return error_set(err, 0, "'%s' has no '%s'", name, key);
	*value = found;
	return 0;
}

bool cg_exists(int dir_fd, const char *name)
{
	return !faccessat(dir_fd, name, F_OK, 0);
}

bool cg_has_word(const char *text, const char *word)
{
	size_t length = strlen(word);
	for (const char *at = text; (at = strstr(at, word)); at += length)
		if ((at == text || isspace((unsigned char)at[-1])) &&
			(!at[length] || isspace((unsigned char)at[length])))
			return true;
	return false;
}
