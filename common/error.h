/*
 * One way to report failure.
 *
 * A function that can fail takes a `struct error *err` as its last parameter and returns 0 or -1
 * (a pointer or NULL). On failure *err says what, where and what would be right, in lower case,
 * with the subject quoted and no full stop; on success *err is untouched. The caller owns the
 * struct (usually on its stack); nothing is allocated. Only a main.c prints it.
 */
#ifndef COMMON_ERROR_H
#define COMMON_ERROR_H

struct error {
	int code;        /* an errno value, or 0 where the text says it all */
	char text[1024]; /* one line; control characters of outside data are shown as '?' */
};

/* Fill *err. A code that is not 0 adds ": strerror(code)". Returns -1 always. */
int error_set(struct error *err, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Put context in front of a text already set: "context: text". Returns -1 always. */
int error_prefix(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* So that compilers and analysers know it too. */
static inline int error_failed(int always)
{
	(void)always;
	return -1;
}
#define error_set(...) error_failed(error_set(__VA_ARGS__))
#define error_prefix(...) error_failed(error_prefix(__VA_ARGS__))

/* Out of memory: one line on stderr, abort. */
_Noreturn void die_oom(void);

/* malloc, realloc, strdup, asprintf that never return NULL. */
void *xmalloc(unsigned long size) __attribute__((malloc));
void *xcalloc(unsigned long count, unsigned long size) __attribute__((malloc));
void *xrealloc(void *old, unsigned long size);
char *xstrdup(const char *text) __attribute__((malloc));
char *xasprintf(const char *format, ...) __attribute__((format(printf, 1, 2), malloc));

#endif
