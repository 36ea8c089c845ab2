#include "agent/c/history.h"

#include "agent/c/escape.h"

#include <string.h>

/* agent/CONTRACT.md, section 4. */
static const char TOOLS[] =
	"[{\"type\":\"function\",\"function\":{\"name\":\"exec\","
	"\"description\":\"Run a program without a shell.\","
	"\"parameters\":{\"type\":\"object\",\"properties\":{\"argv\":{\"type\":\"array\","
	"\"items\":{\"type\":\"string\"},\"minItems\":1}},\"required\":[\"argv\"]}}},"
	"{\"type\":\"function\",\"function\":{\"name\":\"shell\","
	"\"description\":\"Run a command with /bin/sh.\","
	"\"parameters\":{\"type\":\"object\",\"properties\":{\"command\":{\"type\":\"string\"}},"
	"\"required\":[\"command\"]}}}]";

static const char EPILOGUE[] = "]}";
enum { EPILOGUE_BYTES = sizeof EPILOGUE - 1 };

void prologue_init(struct buf *prologue, const char *model, const char *system_prompt,
	size_t system_prompt_length)
{
	buf_init(prologue, SIZE_MAX / 2);
	buf_add_text(prologue, "{\"model\":\"");
	escape_text(prologue, model, strlen(model));
	buf_add_text(prologue,
		"\",\"stream\":true,\"stream_options\":{\"include_usage\":true},\"tools\":");
	buf_add_text(prologue, TOOLS);
	buf_add_text(prologue, ",\"messages\":[{\"role\":\"system\",\"content\":\"");
	escape_text(prologue, system_prompt, system_prompt_length);
	buf_add_text(prologue, "\"}");
}

void history_init(struct history *history, const struct buf *prologue, struct store *store,
	const char *task, const char *session)
{
	static const char MARK[] = "{session}";
	struct buf text auto_buf, escaped auto_buf;
	buf_init(&text, SIZE_MAX / 2);
	for (const char *mark; (mark = strstr(task, MARK)); task = mark + strlen(MARK)) {
		buf_add(&text, task, (size_t)(mark - task));
		buf_add_text(&text, session);
	}
	buf_add_text(&text, task);
	buf_init(&escaped, SIZE_MAX / 2);
	escape_text(&escaped, text.data, text.length);

	history->prologue = prologue;
	chain_init(&history->chain, store);
	history_add(history, ",{\"role\":\"user\",\"content\":\"");
	history_add_bytes(history, escaped.data, escaped.length);
	history_add(history, "\"}");
}

void history_release(struct history *history)
{
	chain_cut(&history->chain, 0);
}

void history_add(struct history *history, const char *json)
{
	chain_append(&history->chain, json, strlen(json));
}

void history_add_bytes(struct history *history, const void *json, size_t length)
{
	chain_append(&history->chain, json, length);
}

size_t history_size(const struct history *history)
{
	return history->prologue->length + history->chain.length + EPILOGUE_BYTES;
}

size_t history_vectors(
	const struct history *history, size_t offset, struct iovec *vectors, size_t count)
{
	const struct buf *prologue = history->prologue;
	size_t filled = 0;
	if (offset < prologue->length && filled < count) {
		vectors[filled++] =
			(struct iovec){prologue->data + offset, prologue->length - offset};
		offset = prologue->length;
	}
	offset -= prologue->length;
	if (offset < history->chain.length) {
		filled += chain_vectors(&history->chain, offset, vectors + filled, count - filled);
		/* The epilogue is next only if the chain's last part is among the vectors. */
		if (filled == count)
			return filled;
		offset = history->chain.length;
	}
	offset -= history->chain.length;
	if (offset < EPILOGUE_BYTES && filled < count)
		vectors[filled++] =
			(struct iovec){(char *)EPILOGUE + offset, EPILOGUE_BYTES - offset};
	return filled;
}
