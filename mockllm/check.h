/*
 * Is this request exactly what the session must send now?
 *
 * Roles, ids, order and contents are compared exactly, arguments as JSON values, against the texts
 * that the script makes again. What an earlier request of the session was found right up to is
 * known by its length and hash, so a history is scanned once, not once a turn. The scanner is sound
 * but takes plain shapes only; whatever it does not like is judged by a full parse.
 */
#ifndef MOCKLLM_CHECK_H
#define MOCKLLM_CHECK_H

#include "mockllm/fault.h"
#include "mockllm/hash.h"
#include "mockllm/script.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is known of a session's last right request; zeroed: nothing. Plain data, may be copied. */
struct check_known {
	int64_t turn;  /* it asked for; 0: nothing is known */
	size_t length; /* bytes of it, through its last message */
	struct hash_value hash;
	int64_t text_bytes; /* of the history's texts, without the system prompt */
	unsigned members;   /* top-level members seen in these bytes: the checker's own */
	bool stream, include_usage;
};

struct check_result {
	enum fault fault;
	char detail[256]; /* why, for people, if there is a fault */
	bool stream;
	bool include_usage;
	int64_t text_bytes; /* of a right history: task, answers, arguments, tool messages */
	bool was_scanned;   /* without a full parse */
};

/* Memory that is used again from check to check, by one thread at a time. */
struct check_scratch {
	struct script_turn turn;
	struct buf output; /* a tool's */
	struct buf task;
	/* Called by a scan at most every 64 KB, some 40 µs: a thread with other things to do may do
	 * them, but not begin another check with this scratch. May be NULL. */
	void (*pause)(void *context);
	void *pause_context;
};

void check_scratch_init(struct check_scratch *scratch);
void check_scratch_release(struct check_scratch *scratch);

/* Is `body` the request for `turn` of `session`, all turns before having been answered? Updates
 * *known where it is and was found so by scanning. */
void check_request(const struct script *script, int64_t session, int64_t turn, const char *body,
	size_t length, struct check_known *known, struct check_scratch *scratch,
	struct check_result *out);

/* The same by scanning alone. False: not known, *known and *out are untouched. */
bool check_scan(const struct script *script, int64_t session, int64_t turn, const char *body,
	size_t length, struct check_known *known, struct check_scratch *scratch,
	struct check_result *out);

/* What the answer of free play depends on: any history will do. */
struct check_outline {
	enum fault fault; /* malformed or none */
	char detail[256];
	char model[SCENARIO_NAME_MAX + 1]; /* "" if longer than any of ours */
	bool stream, include_usage;
	int64_t answers; /* assistant messages behind the last user message */
};

void check_outline(const char *body, size_t length, struct check_outline *out);

/* The `user` member: names the session where the header cannot. "" if there is none. */
void check_user(const char *body, size_t length, char *out, size_t size);

#endif
