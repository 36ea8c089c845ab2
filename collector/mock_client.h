/*
 * The mock's control API over its Unix socket (docs/protocols.md). Calls block, at most for the
 * client's time limit; none is made while a run is being measured.
 */
#ifndef COLLECTOR_MOCK_CLIENT_H
#define COLLECTOR_MOCK_CLIENT_H

#include <jansson.h>
#include <stdint.h>

struct error;
struct mock_client;

struct mock_client *mock_client_new(const char *socket_path, struct error *err);
void mock_client_free(struct mock_client *mock); /* accepts NULL */

/* The answer of /healthz: new reference, or NULL. Tries once. */
json_t *mock_health(struct mock_client *mock, struct error *err);
int mock_load_scenario(struct mock_client *mock, const json_t *scenario, struct error *err);
/* Begin a run: the answer {"run","system_prompt","task","begun_ns"}, new reference, or NULL. */
json_t *mock_begin(struct mock_client *mock, const char *scenario, int64_t sessions, int64_t seed,
	struct error *err);
/* End it: the ledger, new reference, or NULL. */
json_t *mock_end(struct mock_client *mock, struct error *err);

#endif
