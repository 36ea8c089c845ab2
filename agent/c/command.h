/* What a tool call asks to be run. */
#ifndef AGENT_C_COMMAND_H
#define AGENT_C_COMMAND_H

struct buf;
struct call;

/*
 * The argument vector of a call, NULL-ended, in one piece of memory to free(). NULL if the call
 * cannot be run: its answer is then appended to `message` as JSON string text.
 */
char **command_of(const struct call *call, struct buf *message);

#endif
