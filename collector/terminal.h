/* What a stream that people may be watching can show. */
#ifndef COLLECTOR_TERMINAL_H
#define COLLECTOR_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Colours: on a terminal that is not "dumb", unless the variable NO_COLOR is set to anything. */
bool terminal_has_colour(FILE *out);
/* Columns of the terminal; SIZE_MAX where it is none, or does not tell. */
size_t terminal_width(FILE *out);

#endif
