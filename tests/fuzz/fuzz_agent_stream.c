/*
 * Streams: cut into pieces or whole, the same events; and whatever comes, the history stays JSON.
 * The first byte says how long the pieces are.
 */
#include "agent/c/answer.h"
#include "agent/c/command.h"
#include "agent/c/history.h"
#include "agent/c/sse.h"
#include "common/error.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct reading {
	struct sse sse;
	struct answer answer;
	struct buf events;
};

static int take(struct sse *sse, const char *data, size_t length, struct error *err)
{
	struct reading *reading = (struct reading *)sse;
	buf_add(&reading->events, data, length);
	buf_add_char(&reading->events, '\0');
	return answer_take(&reading->answer, data, length, err);
}

static int read_stream(struct reading *reading, struct history *history, const char *text,
	size_t size, size_t piece)
{
	struct error err;
	buf_init(&reading->events, SIZE_MAX / 2);
	sse_init(&reading->sse, take);
	answer_init(&reading->answer, history);
	int result = 0;
	for (size_t at = 0; at < size && !result; at += piece) {
		size_t length = size - at < piece ? size - at : piece;
		char *copy = xmalloc(length); /* so that a read beyond it is seen */
		memcpy(copy, text + at, length);
		result = sse_feed(&reading->sse, copy, length, &err);
		free(copy);
	}
	return result ? result : sse_end(&reading->sse, &err);
}

static void release(struct reading *reading)
{
	buf_release(&reading->events);
	sse_release(&reading->sse);
	answer_release(&reading->answer);
}

static void check_history(const struct history *history)
{
	size_t size = history_size(history), at = 0, count;
	char *text = xmalloc(size);
	struct iovec vectors[8];
	while ((count = history_vectors(history, at, vectors, sizeof vectors / sizeof *vectors)))
		for (size_t i = 0; i < count; i++) {
			memcpy(text + at, vectors[i].iov_base, vectors[i].iov_len);
			at += vectors[i].iov_len;
		}
	json_t *body = json_loadb(text, size, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, NULL);
	if (json_array_size(json_object_get(body, "messages")) != 3)
		abort();
	json_decref(body);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	const char *text = (const char *)data + 1;
	size_t length = size - 1, piece = data[0] ? data[0] : 1;
	struct store store = {0};
	struct buf prologue;
	struct history history;
	struct reading whole, pieces;
	prologue_init(&prologue, "m", "p", 1);
	history_init(&history, &prologue, &store, "t", "s1");

	int result = read_stream(&whole, &history, text, length, length ? length : 1);
	answer_drop(&whole.answer);
	if (read_stream(&pieces, &history, text, length, piece) != result ||
		whole.events.length != pieces.events.length ||
		(whole.events.length &&
			memcmp(whole.events.data, pieces.events.data, whole.events.length) != 0))
		abort();
	if (!result) {
		answer_end(&pieces.answer, 1);
		check_history(&history);
		for (size_t i = 0; i < pieces.answer.call_count; i++) {
			struct buf message;
			buf_init(&message, SIZE_MAX / 2);
			char **argv = command_of(&pieces.answer.calls[i], &message);
			if (!argv == !message.length)
				abort();
			free(argv);
			buf_release(&message);
		}
	}
	release(&whole);
	release(&pieces);
	history_release(&history);
	buf_release(&prologue);
	store_release(&store);
	return 0;
}
