/*
 * One run: its sessions, what it saw (a row a turn), what went wrong, and the ledger of it.
 * Used by the main thread only, but for the script, which workers read.
 */
#ifndef MOCKLLM_RUN_H
#define MOCKLLM_RUN_H

#include "common/buf.h"
#include "mockllm/catalog.h"
#include "mockllm/check.h"
#include "mockllm/fault.h"
#include "mockllm/histogram.h"
#include "mockllm/stream.h"
#include "mockllm/tool_stamp.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	RUN_SESSIONS_MAX = 10000,
	RUN_ERRORS_KEPT = 100,
};

struct exchange;

#define RUN_NULL INT64_MIN /* of a row: it did not come to it */

/* A row of the ledger; docs/protocols.md has the meanings. Times are absolute ns. */
struct run_row {
	int64_t session, turn, attempt, connection;
	int64_t headers_ns, read_ns, first_ns, end_before_ns, end_after_ns;
	int64_t late_self_us, late_peer_us;
	int64_t tool_calls, tool_demand_ns, tool_wall_ns;
	int64_t bytes_in, bytes_out;
};

/* The tool calls of one turn, until all have been stamped. */
struct run_calls {
	int64_t turn; /* 0: unused */
	size_t row;
	unsigned stamped; /* bit i: call i */
	bool was_early;
	int64_t demand_ns, wall_ns; /* the longest so far */
};

struct run_session {
	int64_t answered;   /* turns answered in full */
	int64_t attempts;   /* at the turn that is due */
	int64_t text_bytes; /* of its last right history */
	bool seen;
	struct exchange *open; /* its request that is being answered, or NULL */
	struct check_known known;
	struct run_calls calls[2]; /* of the last two turns, by turn number modulo 2 */
};

struct run_error {
	enum fault fault;
	int64_t session, turn; /* 0: not known */
	int64_t at_ns;
	char *detail;
};

struct run {
	int holders;
	bool ended;
	int64_t id;
	struct loaded *loaded;
	struct script script;
	int64_t sessions;
	struct run_session *session; /* [0] is s1 */
	int64_t begun_ns, ended_ns;
	int64_t begun_cpu_ns, ended_cpu_ns;

	struct run_row *rows;
	size_t row_count, row_capacity;
	struct run_error errors[RUN_ERRORS_KEPT];
	size_t errors_kept;
	int64_t error_counts[FAULTS];

	int64_t requests, connections, sessions_seen, sessions_complete, open_streams;
	int64_t peers_left;
	/* by what means requests were judged: by scanning in a worker, by a full parse there, or,
	 * where the worker was late, by scanning in the main thread */
	int64_t checks_scanned, checks_parsed, checks_inline;
	int64_t tool_calls, tool_stamps, tool_stamps_unmatched;
	struct stream_totals totals;
	struct histogram loop; /* how long each pass of the loop took */
};

struct run *run_new(int64_t id, struct loaded *loaded, int64_t sessions, uint64_t seed,
	const struct catalog *catalog);
/* Stamp its end. */
void run_end(struct run *run);

struct run *run_hold(struct run *run);
void run_drop(struct run *run); /* accepts NULL */

/* Session number of "sK" with K of this run, or 0. */
int64_t run_session_number(const struct run *run, const char *name);
static inline struct run_session *run_session(struct run *run, int64_t number)
{
	return &run->session[number - 1];
}

void run_add_error(struct run *run, enum fault fault, int64_t session, int64_t turn,
	const char *format, ...) __attribute__((format(printf, 5, 6)));

/* A new row, all RUN_NULL but these. Returns its index: rows move. */
size_t run_add_row(struct run *run, int64_t session, int64_t turn, size_t tool_calls);

/* A tool's stamp has come. */
void run_stamp(struct run *run, const struct tool_stamp *stamp);

int64_t run_error_total(const struct run *run);

/* The ledger as JSON, added to `out`. After the end. */
void run_add_ledger(const struct run *run, struct buf *out);

#endif
