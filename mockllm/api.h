/* Plain requests: the small part of OpenAI's API beside chat completions, and the control API. */
#ifndef MOCKLLM_API_H
#define MOCKLLM_API_H

#include "mockllm/mock.h"

void api_handle(struct mock *mock, const struct request *request, struct reply *reply);
void control_handle(struct mock *mock, const struct request *request, struct reply *reply);

#include <jansson.h>

/* Fill a reply; takes the object's reference. */
void api_reply(struct reply *reply, int status, json_t *object);

/* {"status":"ok",…}, of both. */
void api_health(struct mock *mock, struct reply *reply);

/* The body of a 413 or 503. malloc'ed. */
char *api_refusal(int status);

#endif
