#include "agent/c/report.h"

#include "agent/c/escape.h"
#include "common/error.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

void report_init(struct report *report, bool turns)
{
	buf_init(&report->lines, SIZE_MAX / 2);
	report->turns = turns;
}

void report_release(struct report *report)
{
	buf_release(&report->lines);
}

void report_turn(struct report *report, const char *session, int turn, int attempt, int64_t turn_ns)
{
	if (report->turns)
		buf_addf(&report->lines,
			"{\"event\":\"turn\",\"session\":\"%s\",\"turn\":%d,\"attempt\":%d,"
			"\"turn_ns\":%" PRId64 "}\n",
			session, turn, attempt, turn_ns);
}

/* Where to cut JSON string text so that at most `max` bytes are left, with no escape or UTF-8
 * sequence split. */
static size_t cut_escaped(const char *text, size_t length, size_t max)
{
	size_t at = 0;
	for (size_t next = 0; next <= max; at = next) {
		if (next >= length)
			return length;
		unsigned char c = (unsigned char)text[at];
		if (c == '\\')
			next += text[at + 1] == 'u' ? 6 : 2;
		else
			next += c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
		if (next > max)
			return at;
	}
	return at;
}

void report_error(struct report *report, const char *session, int turn, const char *message)
{
	static const char END[] = "\"}\n";
	struct buf escaped auto_buf;
	buf_init(&escaped, SIZE_MAX / 2);
	escape_text(&escaped, message, strlen(message));
	size_t begin = report->lines.length;
	buf_addf(&report->lines,
		"{\"event\":\"error\",\"session\":\"%s\",\"turn\":%d,\"message\":\"", session,
		turn);
	size_t used = report->lines.length - begin + strlen(END);
	buf_add(&report->lines, escaped.data,
		cut_escaped(escaped.data, escaped.length, REPORT_LINE_MAX - used));
	buf_add_text(&report->lines, END);
}

void report_done(struct report *report)
{
	buf_add_text(&report->lines, "{\"event\":\"done\"}\n");
}

int report_flush(struct report *report, struct error *err)
{
	size_t written = 0;
	while (written < report->lines.length) {
		ssize_t wrote = write(STDOUT_FILENO, report->lines.data + written,
			report->lines.length - written);
		if (wrote >= 0)
			written += (size_t)wrote;
		else if (errno == EAGAIN) /* someone made the pipe non-blocking, and it is full */
			poll(&(struct pollfd){STDOUT_FILENO, POLLOUT, 0}, 1, -1);
		else if (errno != EINTR)
			return error_set(err, errno, "cannot write to stdout");
	}
	buf_clear(&report->lines);
	return 0;
}
