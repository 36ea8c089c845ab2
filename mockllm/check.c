#include "mockllm/check.h"

#include "common/json.h"
#include "mockllm/scan.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_MAX = 64 << 20, HASH_PART = 64 << 10 };

enum member {
	MEMBER_MODEL = 1,
	MEMBER_STREAM = 2,
	MEMBER_STREAM_OPTIONS = 4,
	MEMBER_MESSAGES = 8,
};

void check_scratch_init(struct check_scratch *scratch)
{
	*scratch = (struct check_scratch){0};
	buf_init(&scratch->output, TEXT_MAX);
	buf_init(&scratch->task, TEXT_MAX);
}

void check_scratch_release(struct check_scratch *scratch)
{
	script_turn_release(&scratch->turn);
	buf_release(&scratch->output);
	buf_release(&scratch->task);
}

/* What one check goes by. */
struct check {
	const struct script *script;
	int64_t session, turn;
	struct check_scratch *scratch;
	struct check_result *out;
};

static bool name_is(const char *name, size_t length, const char *wanted)
{
	return strlen(wanted) == length && !memcmp(name, wanted, length);
}

/* ---- the scanner: false means "not plain", never "wrong" */

/*
 * Members of an object, one a call: true and the value comes next, or false with *ended telling
 * whether the object is over.
 */
static bool next_member(
	struct scan *scan, bool *first, const char **name, size_t *length, bool *ended)
{
	*ended = false;
	if (scan_char(scan, '}')) {
		*ended = true;
		return false;
	}
	if (!*first && !scan_char(scan, ','))
		return false;
	*first = false;
	return scan_name(scan, name, length) && scan_char(scan, ':');
}

/* A flat object whose given members have exactly these texts. */
struct wanted_text {
	const char *name;
	const char *text;
	size_t length;
};

static bool scan_texts(struct scan *scan, const struct wanted_text *wanted, size_t count,
	bool (*other)(struct scan *scan, const char *name, size_t length, void *context),
	void *context)
{
	bool first = true, ended;
	unsigned seen = 0;
	const char *name;
	size_t length;
	if (!scan_char(scan, '{'))
		return false;
	while (next_member(scan, &first, &name, &length, &ended)) {
		size_t i = 0;
		while (i < count && !name_is(name, length, wanted[i].name))
			i++;
		if (i == count) {
			if (!(other ? other(scan, name, length, context) : scan_skip(scan)))
				return false;
			continue;
		}
		if (seen & 1u << i || !scan_text(scan, wanted[i].text, wanted[i].length))
			return false;
		seen |= 1u << i;
	}
	return ended && seen == (1u << count) - 1;
}

static bool scan_plain_message(
	struct scan *scan, const char *role, const char *content, size_t length)
{
	const struct wanted_text wanted[] = {
		{"role", role, strlen(role)}, {"content", content, length}};
	return scan_texts(scan, wanted, 2, NULL, NULL);
}

struct one_object {
	const struct script_call *call;
	const struct script_turn *turn;
	bool seen;
};

static bool scan_function(struct scan *scan, const char *name, size_t length, void *context)
{
	struct one_object *one = context;
	if (!name_is(name, length, "function"))
		return scan_skip(scan);
	if (one->seen)
		return false;
	one->seen = true;
	const struct script_call *call = one->call;
	const struct wanted_text wanted[] = {{"name", call->name, strlen(call->name)},
		{"arguments", call->arguments.data, call->arguments.length}};
	return scan_texts(scan, wanted, 2, NULL, NULL);
}

static bool scan_call(struct scan *scan, const struct script_call *call)
{
	struct one_object one = {.call = call};
	const struct wanted_text wanted[] = {
		{"id", call->id, strlen(call->id)}, {"type", "function", 8}};
	return scan_texts(scan, wanted, 2, scan_function, &one) && one.seen;
}

static bool scan_calls(struct scan *scan, const char *name, size_t length, void *context)
{
	struct one_object *one = context;
	if (!name_is(name, length, "tool_calls"))
		return scan_skip(scan);
	if (one->seen || !scan_char(scan, '['))
		return false;
	one->seen = true;
	for (size_t i = 0; i < one->turn->calls; i++)
		if ((i && !scan_char(scan, ',')) || !scan_call(scan, &one->turn->call[i]))
			return false;
	return scan_char(scan, ']');
}

static bool scan_assistant(struct scan *scan, const struct script_turn *turn)
{
	struct one_object one = {.turn = turn};
	const struct wanted_text wanted[] = {
		{"role", "assistant", 9}, {"content", turn->text.data, turn->text.length}};
	return scan_texts(scan, wanted, 2, scan_calls, &one) && one.seen;
}

static bool scan_tool(
	struct scan *scan, const struct script_call *call, const char *content, size_t length)
{
	const struct wanted_text wanted[] = {{"role", "tool", 4},
		{"tool_call_id", call->id, strlen(call->id)}, {"content", content, length}};
	return scan_texts(scan, wanted, 3, NULL, NULL);
}

static void let_others(const struct check *check)
{
	const struct check_scratch *scratch = check->scratch;
	if (scratch->pause)
		scratch->pause(scratch->pause_context);
}

static void hash_in_parts(
	const struct check *check, struct hash *hash, const char *bytes, size_t length)
{
	for (; length > HASH_PART; bytes += HASH_PART, length -= HASH_PART) {
		hash_update(hash, bytes, HASH_PART);
		let_others(check);
	}
	hash_update(hash, bytes, length);
}

/* The messages from turn `from` on; those before have been read. Adds their text to *text_bytes. */
static bool scan_turns(
	struct scan *scan, const struct check *check, int64_t from, int64_t *text_bytes)
{
	struct script_turn *turn = &check->scratch->turn;
	for (int64_t t = from; t < check->turn; t++) {
		script_turn_make(check->script, check->session, t, turn);
		if (!scan_char(scan, ',') || !scan_assistant(scan, turn))
			return false;
		for (size_t i = 0; i < turn->calls; i++) {
			size_t length;
			let_others(check);
			const char *content = script_output(
				check->script, &turn->call[i], &check->scratch->output, &length);
			let_others(check);
			if (!scan_char(scan, ',') ||
				!scan_tool(scan, &turn->call[i], content, length))
				return false;
			*text_bytes += (int64_t)(turn->call[i].arguments.length + length);
		}
		*text_bytes += (int64_t)turn->text.length;
	}
	return true;
}

static bool scan_first_messages(struct scan *scan, const struct check *check)
{
	const struct buf *prompt = &check->script->system_prompt;
	struct buf *task = &check->scratch->task;
	buf_clear(task);
	script_task(check->script, check->session, task);
	return scan_plain_message(scan, "system", prompt->data, prompt->length) &&
	       scan_char(scan, ',') && scan_plain_message(scan, "user", task->data, task->length);
}

static bool scan_stream_options(struct scan *scan, bool *include_usage)
{
	bool first = true, ended, seen = false;
	const char *name;
	size_t length;
	if (!scan_char(scan, '{'))
		return false;
	while (next_member(scan, &first, &name, &length, &ended)) {
		if (!name_is(name, length, "include_usage")) {
			if (!scan_skip(scan))
				return false;
			continue;
		}
		if (seen || !scan_bool(scan, include_usage))
			return false;
		seen = true;
	}
	return ended;
}

/* A top-level member other than messages. */
static bool scan_member(struct scan *scan, const struct check *check, const char *name,
	size_t length, struct check_known *known)
{
	static const struct {
		const char *name;
		enum member member;
	} ours[] = {{"model", MEMBER_MODEL}, {"stream", MEMBER_STREAM},
		{"stream_options", MEMBER_STREAM_OPTIONS}, {"messages", MEMBER_MESSAGES}};
	unsigned member = 0;
	for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
		if (name_is(name, length, ours[i].name))
			member = ours[i].member;
	if (known->members & member)
		return false;
	known->members |= member;
	const char *model = check->script->scenario->name;
	switch (member) {
	case MEMBER_MODEL:
		return scan_text(scan, model, strlen(model));
	case MEMBER_STREAM:
		return scan_bool(scan, &known->stream);
	case MEMBER_STREAM_OPTIONS:
		return scan_stream_options(scan, &known->include_usage);
	default:
		return scan_skip(scan);
	}
}

/* Is the body's beginning what it was the last time? Then its hash goes on from there. */
static bool knows_prefix(const struct check *check, const struct check_known *known,
	const char *body, size_t length, struct hash *hash)
{
	if (!known->turn || known->length > length)
		return false;
	hash_in_parts(check, hash, body, known->length);
	return hash_equal(hash_get(hash), known->hash);
}

static bool scan_request(
	const struct check *check, const char *body, size_t length, struct check_known *known)
{
	struct scan scan = {body, body + length};
	struct check_known now = {0};
	struct hash hash;
	hash_init(&hash);
	bool first = true, ended = false, in_messages = false;
	const char *name;
	size_t name_length;
	int64_t from = 1;
	if (known->turn <= check->turn && knows_prefix(check, known, body, length, &hash)) {
		now = *known;
		scan.at += known->length;
		from = known->turn;
		first = false;
	} else {
		hash_init(&hash);
		if (!scan_char(&scan, '{'))
			return false;
		while (!in_messages && next_member(&scan, &first, &name, &name_length, &ended)) {
			in_messages = name_is(name, name_length, "messages");
			if (!in_messages && !scan_member(&scan, check, name, name_length, &now))
				return false;
		}
		if (!in_messages || !scan_char(&scan, '[') || !scan_first_messages(&scan, check))
			return false;
		now.members |= MEMBER_MESSAGES;
		now.text_bytes = (int64_t)check->scratch->task.length;
	}
	if (!scan_turns(&scan, check, from, &now.text_bytes))
		return false;

	now.turn = check->turn;
	now.length = (size_t)(scan.at - body);
	let_others(check);
	hash_in_parts(check, &hash, body + hash.length, now.length - hash.length);
	now.hash = hash_get(&hash);
	struct check_known whole = now;
	if (!scan_char(&scan, ']'))
		return false;
	while (next_member(&scan, &first, &name, &name_length, &ended))
		if (!scan_member(&scan, check, name, name_length, &whole))
			return false;
	if (!ended || !scan_ended(&scan) || !(whole.members & MEMBER_MODEL))
		return false;
	*known = now;
	*check->out = (struct check_result){
		.fault = FAULT_NONE,
		.stream = whole.stream,
		.include_usage = whole.include_usage,
		.text_bytes = whole.text_bytes,
		.was_scanned = true,
	};
	return true;
}

/* ---- the full parse: says what is wrong */

/* Details quote outside text, perhaps cut within a character: keep them ASCII. */
static void make_ascii(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || (unsigned char)*text > 0x7e)
			*text = '?';
}

static int fail(struct check *check, enum fault fault, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static int fail(struct check *check, enum fault fault, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(check->out->detail, sizeof check->out->detail, format, args);
	va_end(args);
	check->out->fault = fault;
	return -1;
}

/* Where two texts part, said shortly. */
static void describe_difference(
	const json_t *found, const char *text, size_t length, char *out, size_t size)
{
	if (!json_is_string(found)) {
		snprintf(out, size, "must be a text of %zu bytes, is %s", length,
			json_describe(found));
		return;
	}
	const char *value = json_string_value(found);
	size_t value_length = json_string_length(found), same = 0;
	while (same < length && same < value_length && value[same] == text[same])
		same++;
	snprintf(out, size, "must have %zu bytes, has %zu, differs from byte %zu on", length,
		value_length, same);
}

static int parse_text(struct check *check, size_t at, const json_t *message, const char *member,
	const char *text, size_t length, enum fault fault)
{
	const json_t *found = json_object_get(message, member);
	if (json_is_string(found) && json_string_length(found) == length &&
		!memcmp(json_string_value(found), text, length))
		return 0;
	char difference[160];
	describe_difference(found, text, length, difference, sizeof difference);
	return fail(check, fault, "messages[%zu].%s: %s", at, member, difference);
}

static int parse_role(struct check *check, size_t at, const json_t *message, const char *role)
{
	const json_t *found = json_object_get(message, "role");
	if (json_is_string(found) && !strcmp(json_string_value(found), role))
		return 0;
	return fail(check, FAULT_HISTORY, "messages[%zu].role: must be \"%s\", is %s", at, role,
		json_is_object(message) ? json_describe(found) : json_describe(message));
}

static bool same_json(const json_t *found, const struct buf *arguments)
{
	if (!json_is_string(found))
		return false;
	json_auto_t *value = json_loadb(
		json_string_value(found), json_string_length(found), JSON_DECODE_ANY, NULL);
	json_auto_t *wanted = json_loadb(arguments->data, arguments->length, JSON_DECODE_ANY, NULL);
	return value && json_equal(value, wanted);
}

static int parse_call(struct check *check, size_t at, size_t index, const json_t *found,
	const struct script_call *call)
{
	const json_t *function = json_object_get(found, "function");
	const char *id = json_string_value(json_object_get(found, "id"));
	const char *type = json_string_value(json_object_get(found, "type"));
	const char *name = json_string_value(json_object_get(function, "name"));
	const char *wrong = NULL;
	if (!id || strcmp(id, call->id))
		wrong = "id";
	else if (!type || strcmp(type, "function"))
		wrong = "type";
	else if (!name || strcmp(name, call->name))
		wrong = "function.name";
	else if (!same_json(json_object_get(function, "arguments"), &call->arguments))
		wrong = "function.arguments";
	if (!wrong)
		return 0;
	return fail(check, FAULT_HISTORY, "messages[%zu].tool_calls[%zu].%s: not as sent", at,
		index, wrong);
}

static int parse_assistant(
	struct check *check, size_t at, const json_t *message, const struct script_turn *turn)
{
	const json_t *calls = json_object_get(message, "tool_calls");
	if (parse_role(check, at, message, "assistant") ||
		parse_text(check, at, message, "content", turn->text.data, turn->text.length,
			FAULT_HISTORY))
		return -1;
	if (json_array_size(calls) != turn->calls)
		return fail(check, FAULT_HISTORY,
			"messages[%zu].tool_calls: must be an array of %zu, is %s", at, turn->calls,
			json_describe(calls));
	for (size_t i = 0; i < turn->calls; i++)
		if (parse_call(check, at, i, json_array_get(calls, i), &turn->call[i]))
			return -1;
	return 0;
}

static int parse_tool(
	struct check *check, size_t at, const json_t *message, const struct script_call *call)
{
	size_t length;
	const char *content = script_output(check->script, call, &check->scratch->output, &length);
	if (parse_role(check, at, message, "tool") ||
		parse_text(check, at, message, "tool_call_id", call->id, strlen(call->id),
			FAULT_HISTORY))
		return -1;
	return parse_text(check, at, message, "content", content, length, FAULT_TOOL_OUTPUT);
}

/* A history of whole turns that is shorter than it must be is an old request, asked again. */
static int parse_turns(struct check *check, const json_t *messages)
{
	struct script_turn *turn = &check->scratch->turn;
	size_t count = json_array_size(messages), at = 2;
	int64_t t = 1;
	for (; at < count; t++) {
		if (t == check->turn)
			return fail(check, FAULT_HISTORY,
				"messages: must be %zu for turn %lld, are %zu", at,
				(long long)check->turn, count);
		script_turn_make(check->script, check->session, t, turn);
		if (parse_assistant(check, at, json_array_get(messages, at), turn))
			return -1;
		at++;
		for (size_t i = 0; i < turn->calls; i++, at++) {
			if (at == count)
				return fail(check, FAULT_HISTORY,
					"messages: end at %zu, without the result of call %zu of "
					"turn %lld",
					count, i, (long long)t);
			if (parse_tool(check, at, json_array_get(messages, at), &turn->call[i]))
				return -1;
			check->out->text_bytes +=
				(int64_t)(turn->call[i].arguments.length +
					  script_output_length(check->script, &turn->call[i]));
		}
		check->out->text_bytes += (int64_t)turn->text.length;
	}
	if (t < check->turn)
		return fail(check, FAULT_REPEAT, "turn %lld was answered in full; turn %lld is due",
			(long long)t, (long long)check->turn);
	return 0;
}

static int parse_messages(struct check *check, const json_t *messages)
{
	const struct buf *prompt = &check->script->system_prompt;
	struct buf *task = &check->scratch->task;
	size_t count = json_array_size(messages);
	if (count < 2)
		return fail(check, FAULT_HISTORY, "messages: must begin with system and user");
	const json_t *system = json_array_get(messages, 0), *user = json_array_get(messages, 1);
	buf_clear(task);
	script_task(check->script, check->session, task);
	check->out->text_bytes = (int64_t)task->length;
	if (parse_role(check, 0, system, "system") ||
		parse_text(
			check, 0, system, "content", prompt->data, prompt->length, FAULT_HISTORY) ||
		parse_role(check, 1, user, "user") ||
		parse_text(check, 1, user, "content", task->data, task->length, FAULT_HISTORY))
		return -1;
	return parse_turns(check, messages);
}

/* What every request must have. The texts go to `detail`. NULL or the object, a new reference. */
static json_t *parse_body(const char *body, size_t length, char *detail, size_t size)
{
	json_error_t at;
	json_t *request = json_loadb(body, length, JSON_ALLOW_NUL, &at);
	if (!request) {
		snprintf(detail, size, "the body is not JSON: line %d, column %d: %s", at.line,
			at.column, at.text);
		return NULL;
	}
	const json_t *messages = json_object_get(request, "messages");
	const json_t *stream = json_object_get(request, "stream");
	if (!json_is_object(request))
		snprintf(detail, size, "the body must be a JSON object");
	else if (!json_is_array(messages) || !json_array_size(messages))
		snprintf(detail, size, "messages: must be an array of messages, is %s",
			json_describe(messages));
	else if (!json_is_string(json_object_get(request, "model")))
		snprintf(detail, size, "model: must be a text, is %s",
			json_describe(json_object_get(request, "model")));
	else if (stream && !json_is_boolean(stream) && !json_is_null(stream))
		snprintf(detail, size, "stream: must be true or false, is %s",
			json_describe(stream));
	else
		return request;
	json_decref(request);
	return NULL;
}

static bool wants_usage(const json_t *request)
{
	const json_t *options = json_object_get(request, "stream_options");
	return json_is_true(json_object_get(options, "include_usage"));
}

static void parse_request(struct check *check, const char *body, size_t length)
{
	struct check_result *out = check->out;
	json_auto_t *request = parse_body(body, length, out->detail, sizeof out->detail);
	if (!request) {
		out->fault = FAULT_MALFORMED;
		return;
	}
	const json_t *model = json_object_get(request, "model");
	if (strcmp(json_string_value(model), check->script->scenario->name)) {
		fail(check, FAULT_MALFORMED, "model: must be \"%s\", is %s",
			check->script->scenario->name, json_describe(model));
		return;
	}
	out->stream = json_is_true(json_object_get(request, "stream"));
	out->include_usage = wants_usage(request);
	parse_messages(check, json_object_get(request, "messages"));
}

bool check_scan(const struct script *script, int64_t session, int64_t turn, const char *body,
	size_t length, struct check_known *known, struct check_scratch *scratch,
	struct check_result *out)
{
	const struct check check = {script, session, turn, scratch, out};
	return scan_request(&check, body, length, known);
}

void check_request(const struct script *script, int64_t session, int64_t turn, const char *body,
	size_t length, struct check_known *known, struct check_scratch *scratch,
	struct check_result *out)
{
	struct check check = {script, session, turn, scratch, out};
	if (scan_request(&check, body, length, known))
		return;
	*out = (struct check_result){.fault = FAULT_NONE};
	parse_request(&check, body, length);
	make_ascii(out->detail);
}

/* ---- free play */

void check_outline(const char *body, size_t length, struct check_outline *out)
{
	*out = (struct check_outline){.fault = FAULT_NONE};
	json_auto_t *request = parse_body(body, length, out->detail, sizeof out->detail);
	if (!request) {
		out->fault = FAULT_MALFORMED;
		make_ascii(out->detail);
		return;
	}
	const char *model = json_string_value(json_object_get(request, "model"));
	if (strlen(model) <= SCENARIO_NAME_MAX)
		memcpy(out->model, model, strlen(model) + 1);
	out->stream = json_is_true(json_object_get(request, "stream"));
	out->include_usage = wants_usage(request);
	size_t at;
	json_t *message;
	json_array_foreach(json_object_get(request, "messages"), at, message)
	{
		const char *role = json_string_value(json_object_get(message, "role"));
		if (role && !strcmp(role, "user"))
			out->answers = 0;
		if (role && !strcmp(role, "assistant"))
			out->answers++;
	}
}

void check_user(const char *body, size_t length, char *out, size_t size)
{
	out[0] = '\0';
	json_auto_t *request = json_loadb(body, length, JSON_ALLOW_NUL, NULL);
	const char *user = json_string_value(json_object_get(request, "user"));
	if (user && strlen(user) < size)
		memcpy(out, user, strlen(user) + 1);
}
