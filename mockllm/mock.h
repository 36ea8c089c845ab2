/* The mock as a whole: what its parts share. All of it belongs to the main thread. */
#ifndef MOCKLLM_MOCK_H
#define MOCKLLM_MOCK_H

#include "common/loop.h"
#include "mockllm/catalog.h"
#include "mockllm/fault.h"
#include "mockllm/run.h"
#include "mockllm/server.h"
#include "mockllm/stream.h"
#include "mockllm/worker.h"

#include <stdint.h>

struct exchange;

/* Since the start, runs and free play. */
struct mock_counters {
	int64_t runs;
	int64_t chats;
	int64_t errors[FAULTS];
	int64_t peers_left;
	int64_t tool_stamps, tool_stamps_stray; /* those outside of a run */
};

struct mock {
	struct loop *loop;
	struct server *server;
	struct workers *workers;
	struct catalog catalog;
	struct run *run; /* the one that is on, or NULL */
	int64_t runs;
	int port;
	struct exchange *exchanges; /* all that are open, a list */
	void *chat_scratch;
	struct exchange *scanned; /* by the main thread, with chat_scratch; or NULL */
	struct mock_counters counters;
	struct stream_totals free_totals; /* of free play */
};

#endif
