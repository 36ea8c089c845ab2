/*
 * stamp FD PROGRAM ARG…: writes the time (CLOCK_MONOTONIC, nanoseconds, 8 bytes) to descriptor FD,
 * closes it and becomes PROGRAM: the moment from which a start is measured.
 */
#include "common/clock.h"

#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	int fd = (int)strtol(argv[1], NULL, 10);
	int64_t now = now_ns();
	if (write(fd, &now, sizeof now) != sizeof now || close(fd))
		return 1;
	execv(argv[2], argv + 2);
	return 127;
}
