/* The files of a cgroup: small texts, numbers, and lines "key number". */
#ifndef COLLECTOR_CGROUP_FILE_H
#define COLLECTOR_CGROUP_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;

enum { CG_TEXT_MAX = 16 << 10 };

/* The whole file without white space at its end; fails with EFBIG where it does not fit. */
int cg_read(int dir_fd, const char *name, char *text, size_t size, struct error *err);
int cg_read_number(int dir_fd, const char *name, int64_t *value, struct error *err);
/* The number of the line "key number" of a file. */
int cg_read_keyed(int dir_fd, const char *name, const char *key, int64_t *value, struct error *err);
int cg_write(int dir_fd, const char *name, const char *text, struct error *err);
int cg_write_number(int dir_fd, const char *name, int64_t value, struct error *err);
bool cg_exists(int dir_fd, const char *name);

/* The number of the line "key number" of a text; FACT_MISSING if there is none. */
int64_t cg_keyed(const char *text, const char *key);
/* A number that is not negative at the start of a text; what is beyond int64_t is its maximum.
 * *end, unless NULL, is what follows. */
int cg_parse_number(const char *text, const char **end, int64_t *value);
/* Is the word among those of a text? */
bool cg_has_word(const char *text, const char *word);

#endif
