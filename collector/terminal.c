#include "collector/terminal.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

bool terminal_has_colour(FILE *out)
{
	const char *never = getenv("NO_COLOR"), *kind = getenv("TERM");
	return isatty(fileno(out)) && !(never && *never) && !(kind && !strcmp(kind, "dumb"));
}

size_t terminal_width(FILE *out)
{
	struct winsize size;
	if (!isatty(fileno(out)) || ioctl(fileno(out), TIOCGWINSZ, &size) || !size.ws_col)
		return SIZE_MAX;
	return size.ws_col;
}
