#include "collector/output.h"

#include "collector/run_facts.h"
#include "common/clock.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

enum {
	LINE_MAX_BYTES = OUTPUT_LINE_MAX,
	AGENT_ERRORS_MAX = 20,
	STDERR_READ_MAX = 64 << 20, /* beyond this nobody reads on, and the writer waits */
	STDERR_KEPT = 64 << 10,
	PIECE = 64 << 10,
};

void output_init(struct output *output, int64_t lines_max)
{
	*output = (struct output){0};
	buf_init(&output->out, (size_t)lines_max * LINE_MAX_BYTES);
	buf_init(&output->err, STDERR_KEPT + PIECE);
}

void output_release(struct output *output)
{
	buf_release(&output->out);
	buf_release(&output->err);
}

/* ---- reading */

static enum drained read_some(int fd, char *bytes, size_t size, ssize_t *got)
{
	*got = read(fd, bytes, size);
	if (*got < 0)
		return errno == EINTR ? DRAINED_MORE
				      : (errno == EAGAIN ? DRAINED_EMPTY : DRAINED_END);
	return *got ? DRAINED_MORE : DRAINED_END;
}

enum drained output_read_stdout(struct output *output, int fd)
{
	char bytes[PIECE];
	ssize_t got;
	enum drained drained = read_some(fd, bytes, sizeof bytes, &got);
	if (got <= 0)
		return drained;
	output->out_bytes += got;
	output->flooded = buf_add(&output->out, bytes, (size_t)got);
	return output->flooded ? DRAINED_END : DRAINED_MORE;
}

static void add_stderr(struct output *output, const char *bytes, size_t length)
{
	output->err_total += length;
	size_t keep = sizeof((struct run_facts *)0)->stderr_tail - 1;
	if (output->err.length + length > STDERR_KEPT && output->err.length > keep)
		buf_drop(&output->err, output->err.length - keep);
	buf_add(&output->err, bytes, length);
}

enum drained output_read_stderr(struct output *output, int fd)
{
	char bytes[PIECE];
	ssize_t got;
	enum drained drained = read_some(fd, bytes, sizeof bytes, &got);
	if (got > 0)
		add_stderr(output, bytes, (size_t)got);
	return output->err_total < STDERR_READ_MAX ? drained : DRAINED_END;
}

int output_read_start(int fd, struct buf *text, int64_t deadline_ns)
{
	for (;;) {
		char bytes[4096];
		int64_t left_ns = deadline_ns - now_ns();
		struct pollfd ready = {fd, POLLIN, 0};
		if (left_ns <= 0 ||
			(poll(&ready, 1, (int)(left_ns / NS_PER_MS) + 1) < 0 && errno != EINTR))
			return -1;
		ssize_t got;
		enum drained drained = read_some(fd, bytes, sizeof bytes, &got);
		if (drained == DRAINED_END)
			return got ? -1 : 0;
		size_t room = text->max - text->length;
		if (got > 0)
			(void)buf_add(text, bytes, (size_t)got < room ? (size_t)got : room);
	}
}

/* ---- lines */

static bool is_event(const json_t *event, const char *name)
{
	const char *value = json_string_value(json_object_get(event, "event"));
	return value && !strcmp(value, name);
}

static void read_line(const char *line, size_t length, struct run_facts *facts)
{
	json_t *event = json_loadb(line, length, JSON_REJECT_DUPLICATES, NULL);
	if (is_event(event, "turn"))
		json_array_append(facts->agent_turns, event);
	else if (is_event(event, "error") &&
		 json_array_size(facts->agent_errors) < AGENT_ERRORS_MAX)
		json_array_append(facts->agent_errors, event);
	else if (!is_event(event, "error") && !is_event(event, "done"))
		facts->stdout_bad_lines++;
	json_decref(event);
}

void output_lines_read(const char *text, size_t length, struct run_facts *facts)
{
	for (size_t at = 0; at < length;) {
		const char *end = memchr(text + at, '\n', length - at);
		size_t size = end ? (size_t)(end - text) - at : length - at;
		if (!end || size >= LINE_MAX_BYTES)
			facts->stdout_bad_lines++;
		else
			read_line(text + at, size, facts);
		at += size + 1;
	}
}

bool output_has_done(struct output *output)
{
	const struct buf *text = &output->out;
	bool found = false;
	while (text->length) {
		const char *line = text->data + output->scanned;
		const char *end = memchr(line, '\n', text->length - output->scanned);
		if (!end)
			break;
		size_t length = (size_t)(end - line);
		output->scanned += length + 1;
		/* Turn lines are left for later: the run is being measured. */
		if (length >= 64 || !memmem(line, length, "\"done\"", 6))
			continue;
		json_t *event = json_loadb(line, length, JSON_REJECT_DUPLICATES, NULL);
		found |= is_event(event, "done");
		json_decref(event);
	}
	return found;
}

static void take_stderr_tail(const struct output *output, struct run_facts *facts)
{
	char *tail = facts->stderr_tail;
	size_t size = sizeof facts->stderr_tail - 1;
	size_t length = output->err.length < size ? output->err.length : size;
	if (length)
		memcpy(tail, output->err.data + output->err.length - length, length);
	tail[length] = '\0';
	for (size_t i = 0; i < length; i++)
		if (iscntrl((unsigned char)tail[i]) && tail[i] != '\n')
			tail[i] = '?';
}

void output_take(const struct output *output, struct run_facts *facts)
{
	facts->stdout_bytes = output->out_bytes;
	facts->stdout_flooded = output->flooded;
	output_lines_read(output->out.data, output->out.length, facts);
	take_stderr_tail(output, facts);
}
