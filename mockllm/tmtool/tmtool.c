/*
 * The suite's tool: tmtool SOCKET KEY SLEEP_MS OUTPUT_BYTES (docs/protocols.md). It is spawned
 * thousands of times inside the measured quota, so it does nothing else: no stdio, no allocation,
 * and a sleep to an absolute time from its first instruction, so that its own start-up is not
 * added.
 */
#include "common/clock.h"
#include "common/toolgen.h"
#include "mockllm/tool_stamp.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { OUTPUT_MAX = 1 << 20, SLEEP_MAX_MS = 3600000 };

static char output[OUTPUT_MAX];

static bool parse_decimal(const char *text, int64_t max, int64_t *out)
{
	int64_t value = 0;
	if (!*text)
		return false;
	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return false;
		value = 10 * value + (*text - '0');
		if (value > max)
			return false;
	}
	*out = value;
	return true;
}

static bool parse_key(const char *text, uint64_t *out)
{
	static const char digits[] = "0123456789abcdef";
	uint64_t value = 0;
	if (strlen(text) != 16)
		return false;
	for (; *text; text++) {
		const char *digit = strchr(digits, *text);
		if (!digit)
			return false;
		value = value << 4 | (uint64_t)(digit - digits);
	}
	*out = value;
	return true;
}

static int refuse(const char *line)
{
	ssize_t ignored = write(2, line, strlen(line));
	(void)ignored;
	return 2;
}

static int64_t cpu_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * NS_PER_S + t.tv_nsec;
}

/* A stamp that cannot be sent is the mock's to miss: it counts calls without one. */
static void send_stamp(const char *name, const struct tool_stamp *stamp)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t length = strlen(name);
	if (length >= sizeof address.sun_path)
		return;
	memcpy(address.sun_path + 1, name, length);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	/* The queue of a datagram socket is short: wait for room, but not on a mock that hangs. */
	struct timeval limit = {.tv_sec = 1};
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
	sendto(fd, stamp, sizeof *stamp, MSG_NOSIGNAL, (struct sockaddr *)&address,
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length));
}

int main(int argc, char **argv)
{
	struct tool_stamp stamp = {.magic = TOOL_STAMP_MAGIC, .start_ns = now_ns()};
	/* Before main the clock ran for the parent's fork and the exec: no demand of the tool. */
	int64_t begun_cpu_ns = cpu_ns();
	int64_t sleep_ms, bytes;
	if (argc != 5 || !parse_key(argv[2], &stamp.key) ||
		!parse_decimal(argv[3], SLEEP_MAX_MS, &sleep_ms) ||
		!parse_decimal(argv[4], OUTPUT_MAX, &bytes))
		return refuse(
			"usage: tmtool SOCKET KEY SLEEP_MS OUTPUT_BYTES (KEY: 16 hex digits)\n");

	prctl(PR_SET_TIMERSLACK, 1UL);
	toolgen_fill(stamp.key, output, (size_t)bytes);
	int64_t until_ns = stamp.start_ns + sleep_ms * NS_PER_MS;
	struct timespec until = {.tv_sec = until_ns / NS_PER_S, .tv_nsec = until_ns % NS_PER_S};
	while (sleep_ms && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
	for (size_t done = 0; done < (size_t)bytes;) {
		ssize_t written = write(1, output + done, (size_t)bytes - done);
		if (written < 0 && errno != EINTR)
			return 1;
		if (written > 0)
			done += (size_t)written;
	}
	stamp.pid = (uint32_t)getpid();
	stamp.end_ns = now_ns();
	stamp.cpu_ns = cpu_ns() - begun_cpu_ns;
	send_stamp(argv[1], &stamp);
	return 0;
}
