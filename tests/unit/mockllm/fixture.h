/* A small script to test with. */
#ifndef TESTS_UNIT_MOCKLLM_FIXTURE_H
#define TESTS_UNIT_MOCKLLM_FIXTURE_H

#include "common/error.h"
#include "common/json.h"
#include "mockllm/script.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char *const tool_tmtool =
	"{\"kind\":\"tmtool\",\"calls\":{\"min\":1,\"max\":3},\"sleep_ms\":{\"min\":1,\"max\":9},"
	"\"output_bytes\":{\"min\":0,\"max\":900}}";
static const char *const tool_bin = "{\"kind\":\"bin\",\"calls\":{\"min\":1,\"max\":3},\"output_"
				    "bytes\":{\"min\":64,\"max\":512}}";

/* A scenario of 4 turns. `chunks` sends a turn. */
static inline struct scenario *fixture_scenario(const char *tools, int chunks)
{
	char text[2048];
	snprintf(text, sizeof text,
		"{\"name\":\"fixture\",\"description\":\"d\",\"turns\":4,\"system_prompt_bytes\":"
		"700,"
		"\"task\":\"Do it, {session}: \\\"now\\\".\","
		"\"ttft_ms\":{\"uniform\":20,\"spread\":0.5},\"chunk_interval_ms\":{\"constant\":2}"
		","
		"\"spread_first_ms\":10,\"chunks\":%d,\"chunk_bytes\":{\"min\":3,\"max\":30},"
		"\"tools\":%s}",
		chunks, tools);
	struct error err = {0};
	json_t *object = json_read_text(text, strlen(text), "fixture", &err);
	struct scenario *scenario = object ? scenario_read(object, "fixture", &err) : NULL;
	json_decref(object);
	if (!scenario)
		fail_msg("%s", err.text);
	return scenario;
}

static inline void fixture_script(
	struct script *script, const struct scenario *scenario, uint64_t seed)
{
	script_init(script, scenario, seed, "/opt/tools/tmtool", "turnmeter-08080");
}

#endif
