/* What a server says when it fails, made short enough for one line. */
#ifndef AGENT_C_SERVER_ERROR_H
#define AGENT_C_SERVER_ERROR_H

#include <stddef.h>

struct error;

enum { SERVER_ERROR_MAX = 500 }; /* bytes of UTF-8 */

/*
 * The message of a body: of {"error":{"message":M}}, {"error":M}, {"message":M}, as the server
 * wrote it (it may hold line ends: to be shown escaped), or the text itself with runs of white
 * space made one space. `body` may be anything. Sets err->text, which is empty for an empty body.
 * Returns -1.
 */
int server_error_body(const char *body, size_t length, struct error *err);

/* The same for the value of "error" as JSON text. */
int server_error_value(const char *json, size_t length, struct error *err);

#endif
