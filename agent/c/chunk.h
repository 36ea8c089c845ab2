/*
 * Reads a chat completion chunk without allocating: one pass that checks the whole text as JSON and
 * notes where the parts of interest stand. One reader for every shape a chunk can have, instead of
 * a quick one for common chunks and a general one that would have to agree with it.
 *
 * Stricter than nothing and looser than jansson in two points, both on purpose: a lone half of a
 * surrogate pair is taken (it may be one delta's end), and bytes of strings need not be UTF-8
 * (escape.h mends both). Of duplicate keys the last counts. Values nest CHUNK_DEPTH_MAX deep.
 */
#ifndef AGENT_C_CHUNK_H
#define AGENT_C_CHUNK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CHUNK_DEPTH_MAX = 2048 };

/* Text within the event; `at` is NULL for what is absent. */
struct span {
	const char *at;
	size_t length;
};

/* Members of another type than stated count as absent. */
struct chunk {
	struct span error;   /* value of "error" as JSON text, unless it is null, false, 0, "" */
	struct span content; /* choices[0].delta.content: JSON string text without its quotes */
	struct span finish_reason; /* likewise, and not empty */
	struct span tool_calls;    /* choices[0].delta.tool_calls: the array's text */
};

/* Returns 0, or -1 if the text is not JSON. JSON that is no object is a chunk without parts. */
int chunk_read(const char *text, size_t length, struct chunk *chunk);

struct fragment {
	bool has_index;
	int64_t index;
	struct span id, name;    /* JSON string text without quotes */
	struct span arguments;   /* the same; of an object or array: its JSON text */
	bool arguments_are_json; /* the latter */
};

/* Take the next fragment off `tool_calls`, of a chunk that was read well. False at the end. */
bool chunk_next_fragment(struct span *tool_calls, struct fragment *fragment);

#endif
