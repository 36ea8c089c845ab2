/* `collector check FILE`: is it a plan, manifest or scenario that can be used? */
#ifndef COLLECTOR_CHECK_H
#define COLLECTOR_CHECK_H

struct error;

/* What the file is, in a few words, malloc'ed; NULL with one line saying where it is wrong. */
char *check_file(const char *path, struct error *err);

#endif
