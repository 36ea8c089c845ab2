/*
 * The request checker against any body: whatever its scanner takes for right, the full parse must
 * too, and both must have understood the same. The input is an edit of a right request, so that
 * the fuzzer gets deep into one: its first byte chooses the turn and what is known of the session,
 * then come pieces of place (2 bytes), how much to drop (1), how much to put there (1), and that.
 * With the top bit of the first byte set, the rest is the body as it is.
 */
#include "mockllm/check.c" /* NOLINT(bugprone-suspicious-include): for both ways of judging */

#include "common/error.h"
#include "mockllm/bench/right_request.h"

#include <stdint.h>
#include <stdlib.h>

enum { SESSION = 2, TURNS = 3, RAW = 0x80 };

static const char scenario_text[] =
	"{\"name\":\"fuzz\",\"description\":\"d\",\"turns\":4,\"system_prompt_bytes\":120,"
	"\"task\":\"t "
	"{session}\",\"ttft_ms\":{\"constant\":1},\"chunk_interval_ms\":{\"constant\":1},"
	"\"chunks\":8,\"chunk_bytes\":{\"min\":3,\"max\":30},\"tools\":{\"kind\":\"tmtool\","
	"\"calls\":{\"min\":1,\"max\":2},\"sleep_ms\":{\"min\":0,\"max\":1},"
	"\"output_bytes\":{\"min\":0,\"max\":400}}}";

static struct script script;
static struct check_scratch scratch;
static struct right_request right;
static struct check_known known[TURNS + 1]; /* [0]: nothing is */

static void start(void)
{
	struct error err;
	json_auto_t *object = json_read_text(scenario_text, sizeof scenario_text - 1, "fuzz", &err);
	struct scenario *scenario = scenario_read(object, "fuzz", &err);
	if (!scenario)
		abort();
	script_init(&script, scenario, 1, "/tmtool", "turnmeter-00001");
	check_scratch_init(&scratch);
	right_request_init(&right);
	for (int64_t turn = 1; turn <= TURNS; turn++) {
		struct check_result result;
		right_request_make(&right, &script, SESSION, turn);
		if (!check_scan(&script, SESSION, turn, right.body.data, right.body.length,
			    &known[turn], &scratch, &result))
			abort();
	}
}

static void edit(struct buf *body, const uint8_t *data, size_t size)
{
	while (size >= 4) {
		size_t place = (data[0] | (size_t)data[1] << 8) % (body->length + 1);
		size_t drop = data[2], put = data[3];
		data += 4;
		size -= 4;
		if (put > size)
			put = size;
		if (drop > body->length - place)
			drop = body->length - place;
		struct buf edited;
		buf_init(&edited, 1 << 24);
		buf_add(&edited, body->data, place);
		buf_add(&edited, data, put);
		buf_add(&edited, body->data + place + drop, body->length - place - drop);
		buf_release(body);
		*body = edited;
		data += put;
		size -= put;
	}
}

static void judge(int64_t turn, const struct check_known *before, const char *body, size_t length)
{
	struct check_known after = *before;
	struct check_result scanned, parsed = {.fault = FAULT_NONE};
	if (!check_scan(&script, SESSION, turn, body, length, &after, &scratch, &scanned)) {
		if (after.turn != before->turn || after.length != before->length ||
			!hash_equal(after.hash, before->hash))
			abort();
		struct check_result result;
		check_request(&script, SESSION, turn, body, length, &after, &scratch, &result);
		return;
	}
	struct check check = {&script, SESSION, turn, &scratch, &parsed};
	parse_request(&check, body, length);
	if (parsed.fault != FAULT_NONE || parsed.stream != scanned.stream ||
		parsed.include_usage != scanned.include_usage ||
		parsed.text_bytes != scanned.text_bytes || after.turn != turn ||
		after.length > length)
		abort();
	/* what is known now is enough to know it again */
	struct check_result again;
	if (!check_scan(&script, SESSION, turn, body, length, &after, &scratch, &again))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool started;
	if (!started)
		start();
	started = true;
	if (!size)
		return 0;
	int64_t turn = 1 + data[0] % TURNS;
	const struct check_known *before = &known[(data[0] >> 2) % (TURNS + 1)];
	struct buf body;
	buf_init(&body, 1 << 24);
	if (data[0] & RAW) {
		buf_add(&body, data + 1, size - 1);
	} else {
		right_request_make(&right, &script, SESSION, turn);
		buf_add(&body, right.body.data, right.body.length);
		edit(&body, data + 1, size - 1);
	}
	judge(turn, before, body.data, body.length);
	struct check_outline outline;
	check_outline(body.data, body.length, &outline);
	char user[32];
	check_user(body.data, body.length, user, sizeof user);
	buf_release(&body);
	return 0;
}
