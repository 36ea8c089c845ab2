/* Descriptors that a program is started with. */
#ifndef COMMON_DESCRIPTORS_H
#define COMMON_DESCRIPTORS_H

struct error;

/*
 * See to it that 0, 1 and 2 are open, to /dev/null where they were closed: the first file that is
 * opened would be stdout or stderr otherwise, and be written to as such. First thing of a main.
 */
int descriptors_open_standard(struct error *err);

#endif
