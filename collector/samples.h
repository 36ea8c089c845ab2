/*
 * Per-turn samples of a run: the rows of the mock's ledger joined with the agent's own turn times,
 * in memory and as samples/RUN.csv. A value that is not known is FACT_MISSING (run_facts.h), an
 * empty cell in the file. Columns and their meanings: docs/method.md, "Sample files".
 */
#ifndef COLLECTOR_SAMPLES_H
#define COLLECTOR_SAMPLES_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct error;

/* One attempt at one turn. Times are ns from the run's start (just before exec). */
struct sample {
	int64_t session, turn, attempt, connection; /* from 1 */
	int64_t headers_ns, read_ns, first_ns, end_before_ns, end_after_ns;
	int64_t late_self_us, late_peer_us;
	int64_t tool_calls, tool_demand_ns,
		tool_wall_ns; /* of the calls this row's answer asked for */
	int64_t bytes_in, bytes_out;
	int64_t agent_turn_ns; /* the agent's own time of this turn */
};

/* Rows in order of session, turn, attempt. */
struct samples {
	struct sample *rows;
	size_t count;
};

void samples_release(struct samples *samples);
#define auto_samples __attribute__((cleanup(samples_release)))

/*
 * From a ledger (docs/protocols.md). `agent_turns` are the agent's turn events or NULL; those that
 * do not name a row, or are malformed, are left out, since they are the contender's words.
 * `origin_ns` is the run's start. Fails, naming the row, when the ledger is not as documented.
 */
int samples_from_ledger(const json_t *ledger, const json_t *agent_turns, int64_t origin_ns,
	struct samples *out, struct error *err);

/* The file's text: a header and one line a row. Write errors stay on the stream. */
void samples_write(const struct samples *samples, FILE *out);

/*
 * Read a sample file below `dir_fd`. Messages name file and line. err->code is ENOENT when there
 * is no such file. Further columns are ignored.
 */
int samples_read(int dir_fd, const char *name, struct samples *out, struct error *err);

#endif
