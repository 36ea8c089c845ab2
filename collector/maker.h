/* Names of what a process makes, "PID-START": they tell later whether their maker still lives. */
#ifndef COLLECTOR_MAKER_H
#define COLLECTOR_MAKER_H

#include <stdbool.h>

enum { MAKER_NAME_MAX = 48 };

/* The name of this process: its pid, and its start in ticks since boot. */
void maker_name(char name[MAKER_NAME_MAX]);
/* Was "PID-START" made by a process that is no more? Any other text is not ours to judge: false. */
bool maker_is_gone(const char *name);
/* Was it made by one that still is? Any other text: false. */
bool maker_lives(const char *name);

#endif
