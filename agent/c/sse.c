#include "agent/c/sse.h"

#include "common/word.h"
#include "common/error.h"

#include <errno.h>
#include <string.h>

enum { MARK_BYTES = 3 };
static const char MARK[] = "\xef\xbb\xbf";

void sse_init(struct sse *sse,
	int (*event)(struct sse *sse, const char *data, size_t length, struct error *err))
{
	*sse = (struct sse){.event = event};
	buf_init(&sse->kept, (size_t)SSE_EVENT_MAX + SSE_LINE_MAX);
	buf_init(&sse->stray, SSE_STRAY_MAX);
}

void sse_release(struct sse *sse)
{
	buf_release(&sse->kept);
	buf_release(&sse->stray);
}

/* A field's name is what stands before the first colon; a comment's is empty. */
static bool is_field(const char *line, size_t length, const char *name)
{
	const char *colon = memchr(line, ':', length);
	size_t name_length = colon ? (size_t)(colon - line) : length;
	return name_length == strlen(name) && !memcmp(line, name, name_length);
}

static void keep_stray(struct sse *sse, const char *line, size_t length)
{
	static const char *const fields[] = {"", "event", "id", "retry"};
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
		if (is_field(line, length, fields[i]))
			return;
	size_t room = sse->stray.max - sse->stray.length;
	if (length >= room)
		length = room ? room - 1 : 0;
	if (!buf_add(&sse->stray, line, length))
		(void)buf_add_char(&sse->stray, '\n');
}

/* The value of a data line. False if it is another line. */
static bool data_value(const char **line, size_t *length)
{
	if (!is_field(*line, *length, "data"))
		return false;
	size_t skip = *length == 4 ? 4 : 5;
	if (*length > skip && (*line)[skip] == ' ')
		skip++;
	*line += skip;
	*length -= skip;
	return true;
}

/* Make `value` the event's next data line. It stands in the piece, or in the kept line. */
static int add_data(struct sse *sse, const char *value, size_t length, struct error *err)
{
	size_t at = sse->data_length + sse->has_data;
	if (at + length > SSE_EVENT_MAX)
		return error_set(err, EMSGSIZE, "event of the stream is longer than %d bytes",
			SSE_EVENT_MAX);
	/* Never moves the memory under a kept line: its value fits where its name stood. */
	if (at + length > sse->kept.length)
		(void)buf_reserve(&sse->kept, at + length - sse->kept.length);
	if (length)
		memmove(sse->kept.data + at, value, length);
	if (sse->has_data)
		sse->kept.data[sse->data_length] = '\n';
	sse->has_data = true;
	sse->data_length = at + length;
	sse->kept.length = sse->data_length;
	return 0;
}

static int end_event(struct sse *sse, struct error *err)
{
	if (!sse->has_data)
		return 0;
	size_t length = sse->data_length;
	int result = length ? sse->event(sse, sse->kept.data, length, err) : 0;
	sse->has_data = false;
	sse->data_length = 0;
	/* Thousands of streams must not each sit on a buffer for the rare piece. */
	buf_release(&sse->kept);
	return result;
}

/* A whole line, without its end. */
static int end_line(struct sse *sse, const char *line, size_t length, struct error *err)
{
	if (!length)
		return end_event(sse, err);
	if (data_value(&line, &length))
		return add_data(sse, line, length, err);
	keep_stray(sse, line, length);
	sse->kept.length = sse->data_length;
	return 0;
}

static const char *find_line_end(const char *at, const char *end)
{
	for (; HAVE_WORDS && end - at >= WORD_BYTES; at += WORD_BYTES) {
		uint64_t word = word_load(at);
		uint64_t found = WORD_EQUAL(word, '\n') | WORD_EQUAL(word, '\r');
		if (found)
			return at + WORD_FIRST(found);
	}
	for (; at < end; at++)
		if (*at == '\n' || *at == '\r')
			return at;
	return NULL;
}

/* Skip the line end at `at`. A CR that ends the piece may be followed by an LF in the next. */
static const char *skip_line_end(struct sse *sse, const char *at, const char *end)
{
	bool cr = *at++ == '\r';
	if (cr && at == end)
		sse->skip_lf = true;
	else if (cr && *at == '\n')
		at++;
	return at;
}

static int keep_rest(struct sse *sse, const char *at, const char *end, struct error *err)
{
	size_t length = (size_t)(end - at);
	if (sse->kept.length - sse->data_length + length > SSE_LINE_MAX)
		return error_set(
			err, EMSGSIZE, "line of the stream is longer than %d bytes", SSE_LINE_MAX);
	if (length)
		(void)buf_add(&sse->kept, at, length); /* the caps of event and line leave room */
	return 0;
}

/*
 * The common case: a line of data and a blank line, both whole in this piece, and nothing kept.
 * Moves *at behind the blank line if so.
 */
static bool whole_event(struct sse *sse, const char **at, const char *line_end, const char *end,
	const char **data, size_t *length)
{
	if (sse->kept.length || sse->has_data)
		return false;
	*data = *at;
	*length = (size_t)(line_end - *at);
	if (!data_value(data, length))
		return false;
	const char *next = line_end + 1;
	if (*line_end == '\r' && next < end && *next == '\n')
		next++;
	if (next == end || (*next != '\n' && *next != '\r'))
		return false;
	*at = skip_line_end(sse, next, end);
	return true;
}

static int feed_lines(struct sse *sse, const char *at, const char *end, struct error *err)
{
	while (at < end) {
		const char *line_end = find_line_end(at, end), *data;
		size_t length;
		if (!line_end || line_end - at > SSE_LINE_MAX)
			return keep_rest(sse, at, end, err);
		if (whole_event(sse, &at, line_end, end, &data, &length)) {
			if (length && sse->event(sse, data, length, err))
				return -1;
			continue;
		}
		const char *line = at;
		length = (size_t)(line_end - at);
		if (sse->kept.length > sse->data_length) {
			if (keep_rest(sse, at, line_end, err))
				return -1;
			line = sse->kept.data + sse->data_length;
			length = sse->kept.length - sse->data_length;
		}
		at = skip_line_end(sse, line_end, end);
		if (end_line(sse, line, length, err))
			return -1;
	}
	return 0;
}

int sse_feed(struct sse *sse, const char *bytes, size_t length, struct error *err)
{
	const char *at = bytes, *end = bytes + length;
	for (; at < end && sse->mark_length < MARK_BYTES; at++, sse->mark_length++) {
		if (*at == MARK[sse->mark_length])
			continue;
		/* Not a mark: what looked like its start is text. */
		size_t seen = sse->mark_length;
		sse->mark_length = MARK_BYTES;
		if (keep_rest(sse, MARK, MARK + seen, err))
			return -1;
		break;
	}
	if (at < end && sse->skip_lf) {
		sse->skip_lf = false;
		if (*at == '\n')
			at++;
	}
	return feed_lines(sse, at, end, err);
}

int sse_end(struct sse *sse, struct error *err)
{
	if (sse->mark_length < MARK_BYTES) {
		size_t seen = sse->mark_length;
		sse->mark_length = MARK_BYTES;
		if (keep_rest(sse, MARK, MARK + seen, err))
			return -1;
	}
	if (sse->kept.length > sse->data_length &&
		end_line(sse, sse->kept.data + sse->data_length,
			sse->kept.length - sse->data_length, err))
		return -1;
	return end_event(sse, err);
}
