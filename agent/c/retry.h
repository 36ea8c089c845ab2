/* When a failed attempt at a turn is tried again (agent/CONTRACT.md, "Retries"). */
#ifndef AGENT_C_RETRY_H
#define AGENT_C_RETRY_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Statuses that are worth another attempt: 408, 409, 429 and 5xx. */
bool retry_status(long status);

/* Wait before the retry number `retry` (0, 1, …), in ms: 500 × 2^retry, at most 8 s, times a random
 * factor of 0.75 to 1. */
int64_t retry_backoff_ms(int retry, uint64_t *rng);

/*
 * What a server's header asks for, in ms, 0 to 60,000; -1 if it is no such header or malformed.
 * `line` is a whole header line. Retry-After-Ms counts before Retry-After.
 */
enum retry_header { RETRY_HEADER_NONE, RETRY_HEADER_AFTER, RETRY_HEADER_AFTER_MS };
enum retry_header retry_header(const char *line, size_t length, time_t now, int64_t *wait_ms);

#endif
