/*
 * From the records of a results folder to its summary and reports.
 *
 * Read: plan.json (with its "sha256"; "hypotheses" if it has any), environment.json, runs.jsonl and
 * samples/. Written: summary.json, summary.csv, summary.md, report.html, each under a temporary
 * name, fsynced and renamed. Nothing here prints.
 */
#ifndef COLLECTOR_SUMMARY_H
#define COLLECTOR_SUMMARY_H

#include <jansson.h>
#include <stdbool.h>

struct error;

/*
 * Make the summary and write the four files into the folder `dir_fd`; `where` is its name for
 * messages. A torn last line of runs.jsonl (a killed collector) is left out and said in the
 * summary's "notes". *summary, if not NULL, gets a new reference to what was written. Fails with
 * one line naming file and line when a record cannot be used, or when there is no run at all.
 */
int report_write(int dir_fd, const char *where, json_t **summary, struct error *err);

/* The summary alone, nothing written: new reference, or NULL. */
json_t *summary_make(int dir_fd, const char *where, struct error *err);

/*
 * The table for the end of a run on a terminal: contender × sessions with startup, overhead, peak
 * memory, CPU per turn and completed/attempted, then notes and exclusions. UTF-8 text, aligned,
 * control characters of outside text shown as '?'; `colour` adds SGR sequences, and what of a main
 * table does not fit `width` columns is left out, which is said. malloc'ed.
 */
char *summary_terminal(const json_t *summary, bool colour, size_t width);

#endif
