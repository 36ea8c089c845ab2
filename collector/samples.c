#include "collector/samples.h"

#include "collector/run_facts.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
	ROWS_MAX = 1 << 24,
	LINE_MAX_BYTES = 4096,
	COLUMNS_MAX = 64,
};

/* Bound of every number read: differences of two cannot overflow. */
#define VALUE_MAX INT64_C(200000000000000000) /* six years in ns */

struct column {
	const char *name;
	size_t offset;
	bool stamp;  /* a point in time: made relative to the run's start */
	bool needed; /* never missing */
	bool agent;  /* the agent's, not in a ledger */
};

#define COLUMN(field, ...)                                                                         \
	{                                                                                          \
		.name = #field, .offset = offsetof(struct sample, field), __VA_ARGS__              \
	}

static const struct column columns[] = {
	COLUMN(session, .needed = true),
	COLUMN(turn, .needed = true),
	COLUMN(attempt, .needed = true),
	COLUMN(connection, .needed = false),
	COLUMN(headers_ns, .stamp = true),
	COLUMN(read_ns, .stamp = true),
	COLUMN(first_ns, .stamp = true),
	COLUMN(end_before_ns, .stamp = true),
	COLUMN(end_after_ns, .stamp = true),
	COLUMN(late_self_us, .needed = false),
	COLUMN(late_peer_us, .needed = false),
	COLUMN(tool_calls, .needed = false),
	COLUMN(tool_demand_ns, .needed = false),
	COLUMN(tool_wall_ns, .needed = false),
	COLUMN(bytes_in, .needed = false),
	COLUMN(bytes_out, .needed = false),
	COLUMN(agent_turn_ns, .agent = true),
};

enum { COLUMN_COUNT = sizeof columns / sizeof *columns };

static int64_t *cell(struct sample *row, const struct column *column)
{
	return (int64_t *)((char *)row + column->offset);
}

static const struct column *find_column(const char *name, size_t length)
{
	for (size_t i = 0; i < COLUMN_COUNT; i++) {
		if (strlen(columns[i].name) == length && !memcmp(columns[i].name, name, length))
			return &columns[i];
	}
	return NULL;
}

void samples_release(struct samples *samples)
{
	free(samples->rows);
	*samples = (struct samples){NULL, 0};
}

static struct sample *add_row(struct samples *samples, size_t *capacity)
{
	if (samples->count == *capacity) {
		*capacity = *capacity ? *capacity * 2 : 64;
		samples->rows = xrealloc(samples->rows, *capacity * sizeof *samples->rows);
	}
	struct sample *row = &samples->rows[samples->count++];
	for (size_t i = 0; i < COLUMN_COUNT; i++)
		*cell(row, &columns[i]) = FACT_MISSING;
	return row;
}

static int by_turn(const void *left, const void *right)
{
	const struct sample *a = left, *b = right;
	if (a->session != b->session)
		return a->session < b->session ? -1 : 1;
	if (a->turn != b->turn)
		return a->turn < b->turn ? -1 : 1;
	if (a->attempt != b->attempt)
		return a->attempt < b->attempt ? -1 : 1;
	return (a->headers_ns > b->headers_ns) - (a->headers_ns < b->headers_ns);
}

static void sort_rows(struct samples *samples)
{
	if (samples->count)
		qsort(samples->rows, samples->count, sizeof *samples->rows, by_turn);
}

/* "s7" -> 7; 0 for anything else */
static int64_t session_number(const json_t *name)
{
	const char *text = json_string_value(name);
	if (!text || text[0] != 's' || !text[1] || strlen(text) > 10)
		return 0;
	int64_t number = 0;
	for (const char *p = text + 1; *p; p++) {
		if (*p < '0' || *p > '9')
			return 0;
		number = number * 10 + (*p - '0');
	}
	return number;
}

static void join_agent_turns(struct samples *samples, const json_t *agent_turns)
{
	size_t i;
	const json_t *event;
	json_array_foreach(agent_turns, i, event)
	{
		const json_t *turn_ns = json_object_get(event, "turn_ns");
		struct sample key = {
			.session = session_number(json_object_get(event, "session")),
			.turn = json_integer_value(json_object_get(event, "turn")),
			.attempt = json_integer_value(json_object_get(event, "attempt")),
		};
		if (!json_is_integer(turn_ns) || json_integer_value(turn_ns) < 0 ||
			json_integer_value(turn_ns) > VALUE_MAX)
			continue;
		/* Rows are unique by session, turn and attempt unless the agent repeated itself. */
		size_t low = 0, high = samples->count;
		while (low < high) {
			size_t middle = low + (high - low) / 2;
			key.headers_ns = samples->rows[middle].headers_ns;
			if (by_turn(&samples->rows[middle], &key) < 0)
				low = middle + 1;
			else
				high = middle;
		}
		if (low == samples->count)
			continue;
		key.headers_ns = samples->rows[low].headers_ns;
		if (!by_turn(&samples->rows[low], &key) &&
			samples->rows[low].agent_turn_ns == FACT_MISSING)
			samples->rows[low].agent_turn_ns = json_integer_value(turn_ns);
	}
}

int samples_from_ledger(const json_t *ledger, const json_t *agent_turns, int64_t origin_ns,
	struct samples *out, struct error *err)
{
	const json_t *names = json_object_get(ledger, "columns");
	const json_t *rows = json_object_get(ledger, "rows");
	if (!json_is_array(names) || !json_is_array(rows) || json_array_size(names) > COLUMNS_MAX ||
		json_array_size(rows) > ROWS_MAX)
		return error_set(err, 0, "ledger: columns and rows must be arrays");
	const struct column *map[COLUMNS_MAX] = {NULL};
	size_t found = 0, i;
	const json_t *item;
	json_array_foreach(names, i, item)
	{
		const char *name = json_string_value(item);
		map[i] = name ? find_column(name, strlen(name)) : NULL;
		found += map[i] && !map[i]->agent;
	}
	if (found != COLUMN_COUNT - 1)
		return error_set(err, 0, "ledger: columns: %zu of the %d known ones, must be all",
			found, COLUMN_COUNT - 1);

	struct samples auto_samples samples = {NULL, 0};
	size_t capacity = 0;
	json_array_foreach(rows, i, item)
	{
		if (json_array_size(item) != json_array_size(names))
			return error_set(err, 0, "ledger: rows[%zu]: must be an array of %zu", i,
				json_array_size(names));
		struct sample *row = add_row(&samples, &capacity);
		for (size_t k = 0; k < json_array_size(names); k++) {
			const json_t *value = json_array_get(item, k);
			if (!map[k] || map[k]->agent || json_is_null(value))
				continue;
			int64_t number = json_integer_value(value);
			if (!json_is_integer(value) || number > VALUE_MAX || number < -VALUE_MAX)
				return error_set(err, 0,
					"ledger: rows[%zu]: %s: must be an integer, is %s", i,
					map[k]->name, json_describe(value));
			*cell(row, map[k]) = number - (map[k]->stamp ? origin_ns : 0);
		}
		/* A request that the mock could not give to a session is an error, not a turn. */
		if (row->session < 1 || row->turn < 1 || row->attempt < 1)
			samples.count--;
	}
	sort_rows(&samples);
	join_agent_turns(&samples, agent_turns);
	*out = samples;
	samples.rows = NULL;
	return 0;
}

void samples_write(const struct samples *samples, FILE *out)
{
	for (size_t k = 0; k < COLUMN_COUNT; k++)
		fprintf(out, "%s%s", k ? "," : "", columns[k].name);
	fputc('\n', out);
	for (size_t i = 0; i < samples->count; i++) {
		for (size_t k = 0; k < COLUMN_COUNT; k++) {
			int64_t value = *cell(&samples->rows[i], &columns[k]);
			if (k)
				fputc(',', out);
			if (value != FACT_MISSING)
				fprintf(out, "%" PRId64, value);
		}
		fputc('\n', out);
	}
}

/* One cell up to a comma or the line's end; an empty one is FACT_MISSING. */
static int read_integer(const char **at, int64_t *out)
{
	const char *p = *at;
	if (*p == ',' || !*p) {
		*out = FACT_MISSING;
		return 0;
	}
	bool minus = *p == '-';
	p += minus;
	if (*p < '0' || *p > '9')
		return -1;
	int64_t value = 0;
	for (; *p >= '0' && *p <= '9'; p++) {
		value = value * 10 + (*p - '0');
		if (value > VALUE_MAX)
			return -1;
	}
	if (*p && *p != ',')
		return -1;
	*out = minus ? -value : value;
	*at = p;
	return 0;
}

static int read_header(const char *line, const char *name, const struct column **map, size_t *width,
	struct error *err)
{
	size_t found = 0;
	*width = 0;
	for (const char *p = line;; p++) {
		size_t length = strcspn(p, ",");
		if (*width == COLUMNS_MAX)
			return error_set(
				err, 0, "%s:1: must have at most %d columns", name, COLUMNS_MAX);
		map[*width] = find_column(p, length);
		for (size_t i = 0; i < *width; i++) {
			if (map[*width] && map[i] == map[*width])
				return error_set(
					err, 0, "%s:1: column %s stands twice", name, map[i]->name);
		}
		found += map[*width] != NULL;
		++*width;
		p += length;
		if (!*p)
			break;
	}
	if (found == COLUMN_COUNT)
		return 0;
	for (size_t k = 0; k < COLUMN_COUNT; k++) {
		bool there = false;
		for (size_t i = 0; i < *width; i++)
			there = there || map[i] == &columns[k];
		if (!there)
			return error_set(
				err, 0, "%s:1: column %s is absent", name, columns[k].name);
	}
	return 0;
}

static int read_row(const char *line, const char *name, size_t number,
	const struct column *const *map, size_t width, struct sample *row, struct error *err)
{
	const char *at = line;
	for (size_t k = 0; k < width; k++) {
		if (!map[k]) {
			at += strcspn(at, ",");
		} else {
			int64_t *out = cell(row, map[k]);
			if (read_integer(&at, out))
				return error_set(err, 0, "%s:%zu: %s: must be an integer or empty",
					name, number, map[k]->name);
			if (map[k]->needed && *out < 1)
				return error_set(err, 0, "%s:%zu: %s: must be at least 1", name,
					number, map[k]->name);
		}
		if (*at != (k + 1 < width ? ',' : '\0'))
			return error_set(
				err, 0, "%s:%zu: must have %zu cells", name, number, width);
		at += k + 1 < width;
	}
	return 0;
}

int samples_read(int dir_fd, const char *name, struct samples *out, struct error *err)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat status;
	if (fd < 0)
		return error_set(err, errno, "cannot open '%s'", name);
	auto_fclose FILE *in = fdopen(fd, "r");
	if (!in)
		die_oom();
	if (fstat(fd, &status) || !S_ISREG(status.st_mode))
		return error_set(err, 0, "%s: must be a regular file", name);

	struct samples auto_samples samples = {NULL, 0};
	size_t capacity = 0, width = 0;
	const struct column *map[COLUMNS_MAX];
	char line[LINE_MAX_BYTES];
	size_t number = 0;
	while (fgets(line, sizeof line, in)) {
		number++;
		size_t length = strlen(line);
		if (length && line[length - 1] != '\n' && feof(in))
			return error_set(err, 0, "%s:%zu: must end in LF: the file was cut off",
				name, number);
		if (!length || line[length - 1] != '\n')
			return error_set(err, 0, "%s:%zu: must be a line of at most %d bytes", name,
				number, LINE_MAX_BYTES - 2);
		line[length - 1] = '\0';
		if (number == 1) {
			if (read_header(line, name, map, &width, err))
				return -1;
			continue;
		}
		if (samples.count == ROWS_MAX)
			return error_set(err, 0, "%s: must have at most %d rows", name, ROWS_MAX);
		if (read_row(line, name, number, map, width, add_row(&samples, &capacity), err))
			return -1;
	}
	if (ferror(in))
		return error_set(err, errno, "cannot read '%s'", name);
	if (!number)
		return error_set(err, 0, "%s: is empty, must begin with the column names", name);
	sort_rows(&samples);
	*out = samples;
	samples.rows = NULL;
	return 0;
}
