#include "agent/c/chunk.h"

#include "common/word.h"

#include <string.h>

struct reader {
	const char *at, *end;
	int depth;
};

enum kind {
	KIND_BAD,
	KIND_NULL,
	KIND_FALSE,
	KIND_TRUE,
	KIND_NUMBER,
	KIND_STRING,
	KIND_OBJECT,
	KIND_ARRAY
};

static enum kind skip_value(struct reader *reader, struct span *span);

static void skip_space(struct reader *reader)
{
	while (reader->at < reader->end && (*reader->at == ' ' || *reader->at == '\n' ||
						   *reader->at == '\r' || *reader->at == '\t'))
		reader->at++;
}

static bool take(struct reader *reader, char c)
{
	skip_space(reader);
	if (reader->at == reader->end || *reader->at != c)
		return false;
	reader->at++;
	return true;
}

static bool skip_escape(struct reader *reader)
{
	const char *at = reader->at + 1;
	if (at == reader->end)
		return false;
	if (*at == 'u') {
		if (reader->end - at < 5)
			return false;
		for (int i = 1; i <= 4; i++) {
			char c = at[i];
			bool digit = c >= '0' && c <= '9';
			if (!digit && !((c | 0x20) >= 'a' && (c | 0x20) <= 'f'))
				return false;
		}
		reader->at = at + 5;
		return true;
	}
	if (!*at || !strchr("\"\\/bfnrt", *at))
		return false;
	reader->at = at + 1;
	return true;
}

/* To the next quote, backslash or control character. */
static void skip_plain(struct reader *reader)
{
	const char *at = reader->at, *end = reader->end;
	for (; HAVE_WORDS && end - at >= WORD_BYTES; at += WORD_BYTES) {
		uint64_t word = word_load(at);
		uint64_t special =
			WORD_BELOW(word, 0x20) | WORD_EQUAL(word, '"') | WORD_EQUAL(word, '\\');
		if (special) {
			reader->at = at + WORD_FIRST(special);
			return;
		}
	}
	while (at < end && (unsigned char)*at >= 0x20 && *at != '"' && *at != '\\')
		at++;
	reader->at = at;
}

/* A string; the opening quote is next. `span` is what stands between the quotes. */
static bool skip_string(struct reader *reader, struct span *span)
{
	if (!take(reader, '"'))
		return false;
	const char *from = reader->at;
	for (;;) {
		skip_plain(reader);
		if (reader->at == reader->end)
			return false;
		if (*reader->at == '"') {
			*span = (struct span){from, (size_t)(reader->at - from)};
			reader->at++;
			return true;
		}
		if (*reader->at != '\\' || !skip_escape(reader))
			return false;
	}
}

static bool skip_digits(struct reader *reader)
{
	const char *from = reader->at;
	while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9')
		reader->at++;
	return reader->at > from;
}

static bool skip_number(struct reader *reader)
{
	if (*reader->at == '-')
		reader->at++;
	if (reader->at < reader->end && *reader->at == '0')
		reader->at++;
	else if (!skip_digits(reader))
		return false;
	if (reader->at < reader->end && *reader->at == '.') {
		reader->at++;
		if (!skip_digits(reader))
			return false;
	}
	if (reader->at < reader->end && (*reader->at | 0x20) == 'e') {
		reader->at++;
		if (reader->at < reader->end && (*reader->at == '+' || *reader->at == '-'))
			reader->at++;
		if (!skip_digits(reader))
			return false;
	}
	return true;
}

static enum kind skip_word(struct reader *reader, const char *word, enum kind kind)
{
	size_t length = strlen(word);
	if ((size_t)(reader->end - reader->at) < length || memcmp(reader->at, word, length))
		return KIND_BAD;
	reader->at += length;
	return kind;
}

/*
 * Walks an object or array: `open` is taken, then begin_item() says whether there is one more item
 * to read. `bad` is set when the text is not JSON; the caller reads the item's value and goes on.
 */
struct walk {
	char close;
	bool first;
	bool bad;
};

static bool enter(struct reader *reader, struct walk *walk, char open, char close)
{
	*walk = (struct walk){.close = close, .first = true};
	return take(reader, open) && ++reader->depth <= CHUNK_DEPTH_MAX;
}

static bool begin_item(struct reader *reader, struct walk *walk, struct span *key)
{
	if (walk->bad)
		return false;
	bool first = walk->first;
	walk->first = false;
	if (take(reader, walk->close)) {
		reader->depth--;
		return false;
	}
	walk->bad = (!first && !take(reader, ',')) ||
		    (key && (!skip_string(reader, key) || !take(reader, ':')));
	/* A comma before the closing bracket is caught by the value that is missing there. */
	return !walk->bad;
}

static bool skip_members(struct reader *reader, char open, char close)
{
	struct walk walk;
	struct span key, value;
	if (!enter(reader, &walk, open, close))
		return false;
	while (begin_item(reader, &walk, open == '{' ? &key : NULL))
		walk.bad = skip_value(reader, &value) == KIND_BAD;
	return !walk.bad;
}

/* Any value. `span` is its text; of a string, what stands between the quotes. */
static enum kind skip_value(struct reader *reader, struct span *span)
{
	skip_space(reader);
	if (reader->at == reader->end)
		return KIND_BAD;
	const char *from = reader->at;
	enum kind kind;
	switch (*from) {
	case '"':
		return skip_string(reader, span) ? KIND_STRING : KIND_BAD;
	case '{':
		kind = skip_members(reader, '{', '}') ? KIND_OBJECT : KIND_BAD;
		break;
	case '[':
		kind = skip_members(reader, '[', ']') ? KIND_ARRAY : KIND_BAD;
		break;
	case 'n':
		kind = skip_word(reader, "null", KIND_NULL);
		break;
	case 't':
		kind = skip_word(reader, "true", KIND_TRUE);
		break;
	case 'f':
		kind = skip_word(reader, "false", KIND_FALSE);
		break;
	default:
		kind = skip_number(reader) ? KIND_NUMBER : KIND_BAD;
	}
	*span = (struct span){from, (size_t)(reader->at - from)};
	return kind;
}

static int hex_digit(char c)
{
	return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
}

/* Keys of interest are ASCII letters and '_', which a key may spell with escapes: "\u0069d". */
static bool key_is_slow(struct span key, const char *name)
{
	const char *at = key.at, *end = at + key.length;
	for (; at < end && *name; name++) {
		int c = (unsigned char)*at++;
		if (c == '\\') {
			if (*at != 'u')
				return false;
			c = 0;
			for (int i = 1; i <= 4; i++)
				c = c << 4 | hex_digit(at[i]);
			at += 5;
		}
		if (c != *name)
			return false;
	}
	return at == end && !*name;
}

static inline bool key_is(struct span key, const char *name)
{
	size_t length = strlen(name); /* known when compiled */
	if (key.length == length)
		return !memcmp(key.at, name, length);
	return key.length > length && memchr(key.at, '\\', key.length) && key_is_slow(key, name);
}

static bool next_is(struct reader *reader, char c)
{
	skip_space(reader);
	return reader->at < reader->end && *reader->at == c;
}

/* A value that counts only as a string; anything else is absent. */
static bool read_string(struct reader *reader, struct span *span)
{
	struct span value;
	enum kind kind = skip_value(reader, &value);
	*span = kind == KIND_STRING ? value : (struct span){0};
	return kind != KIND_BAD;
}

static bool read_delta(struct reader *reader, struct chunk *chunk)
{
	struct walk walk;
	struct span key, value;
	chunk->content = chunk->tool_calls = (struct span){0};
	if (!next_is(reader, '{'))
		return skip_value(reader, &value) != KIND_BAD;
	if (!enter(reader, &walk, '{', '}'))
		return false;
	while (begin_item(reader, &walk, &key)) {
		if (key_is(key, "content")) {
			walk.bad = !read_string(reader, &chunk->content);
		} else if (key_is(key, "tool_calls")) {
			enum kind kind = skip_value(reader, &value);
			chunk->tool_calls = kind == KIND_ARRAY ? value : (struct span){0};
			walk.bad = kind == KIND_BAD;
		} else {
			walk.bad = skip_value(reader, &value) == KIND_BAD;
		}
	}
	return !walk.bad;
}

static bool read_choice(struct reader *reader, struct chunk *chunk)
{
	struct walk walk;
	struct span key, value;
	if (!next_is(reader, '{'))
		return skip_value(reader, &value) != KIND_BAD;
	if (!enter(reader, &walk, '{', '}'))
		return false;
	while (begin_item(reader, &walk, &key)) {
		if (key_is(key, "delta"))
			walk.bad = !read_delta(reader, chunk);
		else if (key_is(key, "finish_reason"))
			walk.bad = !read_string(reader, &chunk->finish_reason);
		else
			walk.bad = skip_value(reader, &value) == KIND_BAD;
	}
	if (!chunk->finish_reason.length)
		chunk->finish_reason.at = NULL;
	return !walk.bad;
}

static bool read_choices(struct reader *reader, struct chunk *chunk)
{
	struct walk walk;
	struct span value;
	*chunk = (struct chunk){.error = chunk->error};
	if (!next_is(reader, '['))
		return skip_value(reader, &value) != KIND_BAD;
	if (!enter(reader, &walk, '[', ']'))
		return false;
	for (bool first = true; begin_item(reader, &walk, NULL); first = false)
		walk.bad = first ? !read_choice(reader, chunk)
				 : skip_value(reader, &value) == KIND_BAD;
	return !walk.bad;
}

static bool read_error(struct reader *reader, struct chunk *chunk)
{
	skip_space(reader);
	const char *from = reader->at;
	struct span value;
	enum kind kind = skip_value(reader, &value);
	if (kind == KIND_BAD)
		return false;
	bool none = kind == KIND_NULL || kind == KIND_FALSE ||
		    (kind == KIND_STRING && !value.length) ||
		    (kind == KIND_NUMBER && value.length == 1 && *value.at == '0');
	chunk->error = none ? (struct span){0} : (struct span){from, (size_t)(reader->at - from)};
	return true;
}

static bool read_object(struct reader *reader, struct chunk *chunk)
{
	struct walk walk;
	struct span key, value;
	if (!enter(reader, &walk, '{', '}'))
		return false;
	while (begin_item(reader, &walk, &key)) {
		if (key_is(key, "choices"))
			walk.bad = !read_choices(reader, chunk);
		else if (key_is(key, "error"))
			walk.bad = !read_error(reader, chunk);
		else
			walk.bad = skip_value(reader, &value) == KIND_BAD;
	}
	return !walk.bad;
}

int chunk_read(const char *text, size_t length, struct chunk *chunk)
{
	struct reader reader = {.at = text, .end = text + length};
	struct chunk found = {0};
	struct span value;
	bool good = next_is(&reader, '{') ? read_object(&reader, &found)
					  : skip_value(&reader, &value) != KIND_BAD;
	skip_space(&reader);
	if (!good || reader.at != reader.end)
		return -1;
	*chunk = found;
	return 0;
}

/* An index that is a whole number of at most 9 digits; any other value counts as absent. */
static void read_index(struct reader *reader, struct fragment *fragment)
{
	struct span value;
	enum kind kind = skip_value(reader, &value);
	fragment->has_index = false;
	if (kind != KIND_NUMBER || value.length > 9)
		return;
	int64_t index = 0;
	for (size_t i = 0; i < value.length; i++) {
		if (value.at[i] < '0' || value.at[i] > '9')
			return;
		index = 10 * index + (value.at[i] - '0');
	}
	fragment->index = index;
	fragment->has_index = true;
}

static void read_arguments(struct reader *reader, struct fragment *fragment)
{
	enum kind kind = skip_value(reader, &fragment->arguments);
	fragment->arguments_are_json = kind != KIND_STRING;
	if (kind == KIND_NULL)
		fragment->arguments = (struct span){0};
}

static void read_function(struct reader *reader, struct fragment *fragment)
{
	struct walk walk;
	struct span key, value;
	fragment->name = fragment->arguments = (struct span){0};
	if (!next_is(reader, '{')) {
		skip_value(reader, &value);
		return;
	}
	enter(reader, &walk, '{', '}');
	while (begin_item(reader, &walk, &key)) {
		if (key_is(key, "name"))
			read_string(reader, &fragment->name);
		else if (key_is(key, "arguments"))
			read_arguments(reader, fragment);
		else
			skip_value(reader, &value);
	}
}

/* The text was checked by chunk_read, so nothing here can meet bad JSON. */
static void read_fragment(struct reader *reader, struct fragment *fragment)
{
	struct walk walk;
	struct span key, value;
	*fragment = (struct fragment){0};
	if (!next_is(reader, '{')) {
		skip_value(reader, &value);
		return;
	}
	enter(reader, &walk, '{', '}');
	while (begin_item(reader, &walk, &key)) {
		if (key_is(key, "index"))
			read_index(reader, fragment);
		else if (key_is(key, "id"))
			read_string(reader, &fragment->id);
		else if (key_is(key, "function"))
			read_function(reader, fragment);
		else
			skip_value(reader, &value);
	}
}

bool chunk_next_fragment(struct span *tool_calls, struct fragment *fragment)
{
	if (!tool_calls->at)
		return false;
	struct reader reader = {.at = tool_calls->at, .end = tool_calls->at + tool_calls->length};
	for (;;) {
		/* '[' or ',' stands before each item, ']' before none. */
		skip_space(&reader);
		reader.at++;
		if (next_is(&reader, ']') || reader.at == reader.end) {
			tool_calls->at = NULL;
			return false;
		}
		bool object = *reader.at == '{';
		read_fragment(&reader, fragment);
		skip_space(&reader);
		*tool_calls = (struct span){reader.at, (size_t)(reader.end - reader.at)};
		if (object)
			return true;
	}
}
