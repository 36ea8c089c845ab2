/*
 * The floor: the loop of agent/CONTRACT.md on raw sockets and epoll, and nothing else. A yardstick
 * of what the loop costs at least, not an agent: it knows the answers of mockllm only, and
 * whatever goes otherwise than well ends it with a line on stderr.
 */
#include "agent/c/history.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/number.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BATCH = 256, ARGS_MAX = 64, VECTORS = 512, READ_SIZE = 64 << 10 };

/* A tool call of the running turn. Its texts are the inside of JSON strings. */
struct call {
	bool is_call; /* first member here and in struct session */
	struct session *session;
	char id[64], name[16];
	struct chain arguments, output;
	pid_t pid;
	int pipe; /* stdout and stderr */
};

struct session {
	bool is_call;
	int number, turn, socket;
	struct history history;
	size_t sent, size; /* of the request; what is left waits for room in the socket */
	enum { HEAD, CHUNK_SIZE, CHUNK, CHUNK_END, LAST } state; /* of the response */
	int matched;                                             /* bytes of CRLF CRLF */
	size_t chunk_left;
	struct chain line; /* what earlier reads brought of a line */
	bool has_content, done;
	struct call *calls;
	int count, running; /* calls */
	int64_t start_ns;
};

static int epoll, null, report;
static int64_t unfinished;      /* sessions */
static char request_head[1024]; /* headers that all requests have alike */
static struct store store;
static struct buf prologue;
static char read_buffer[READ_SIZE + 1], text_buffer[READ_SIZE + 1];

#define FAIL(status, ...) exit((fprintf(stderr, "agent-floor: " __VA_ARGS__), status))

static void check(bool well, const char *what)
{
	if (!well)
		FAIL(1, "%s: %s\n", what, strerror(errno));
}

static const char *setting(const char *name)
{
	const char *text = getenv(name);
	if (!text || !*text)
		FAIL(2, "%s: is required\n", name);
	return text;
}

static void watch(int fd, uint32_t events, void *what)
{
	struct epoll_event event = {.events = events, .data.ptr = what};
	check(!epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
}

static void add_text(struct chain *chain, const char *text)
{
	chain_append(chain, text, strlen(text));
}

/* Bytes as the inside of a JSON string. */
static void add_escaped(struct chain *chain, const char *bytes, size_t length)
{
	static const char hex[] = "0123456789abcdef";
	size_t start = 0;
	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)bytes[i];
		if (c >= 0x20 && c != '"' && c != '\\')
			continue;
		char letter = c == '\n' ? 'n' : c == '\t' ? 't' : c < 0x20 ? 'u' : (char)c;
		char escape[6] = {'\\', letter, '0', '0', hex[c >> 4], hex[c & 15]};
		chain_append(chain, bytes + start, i - start);
		chain_append(chain, escape, letter == 'u' ? 6 : 2);
		start = i + 1;
	}
	chain_append(chain, bytes + start, length - start);
}

/* The chain as text in text_buffer. Returns its length. */
static size_t chain_text(const struct chain *chain)
{
	check(chain->length < READ_SIZE, "too long a text");
	chain_read(chain, 0, text_buffer, chain->length);
	text_buffer[chain->length] = '\0';
	return chain->length;
}

/* ---- JSON: a quote inside of a string is escaped, so a key can be searched for in its quotes */

static const char *string_end(const char *text)
{
	for (; *text && *text != '"'; text++)
		if (*text == '\\')
			text++;
	return text;
}

/* The value after `key`, a string without its quotes. */
static const char *find(const char *json, const char *key, size_t *length)
{
	const char *value = strstr(json, key);
	if (value) {
		value += strlen(key);
		*length = (size_t)(string_end(value) - value);
	}
	return value;
}

/* Decode the inside of a string (of its escapes, those that the mock uses). Returns the length. */
static size_t unescape(const char *text, size_t length, char *out)
{
	static const char names[] = "bfnrt", meanings[] = "\b\f\n\r\t";
	size_t used = 0;
	for (const char *end = text + length; text < end; text++) {
		if (*text != '\\') {
			out[used++] = *text;
		} else if (*++text == 'u') {
			unsigned c = 0;
			sscanf(text + 1, "%4x", &c);
			check(c >= 0x80 && c < 0x800, "an escape that the mock does not use");
			out[used++] = (char)(0xc0 | c >> 6);
			out[used++] = (char)(0x80 | (c & 0x3f));
			text += 4;
		} else {
			const char *name = strchr(names, *text);
			out[used++] = name ? meanings[name - names] : *text;
		}
	}
	out[used] = '\0';
	return used;
}

/* ---- requests */

static void send_more(struct session *session)
{
	char head[sizeof request_head + 96];
	size_t body = history_size(&session->history);
	size_t head_size = (size_t)snprintf(head, sizeof head,
		"%sX-Session-Id: s%d\r\nContent-Length: %zu\r\n\r\n", request_head, session->number,
		body);
	session->size = head_size + body;
	while (session->sent < session->size) {
		struct iovec vectors[VECTORS];
		size_t at = session->sent, count = at < head_size;
		vectors[0] = (struct iovec){head + at, head_size - at};
		count += history_vectors(&session->history, count ? 0 : at - head_size,
			vectors + count, VECTORS - count);
		struct msghdr message = {.msg_iov = vectors, .msg_iovlen = count};
		ssize_t sent = sendmsg(session->socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (sent < 0 && errno == EAGAIN)
			return;
		check(sent > 0, "sendmsg");
		session->sent += (size_t)sent;
	}
}

static void start_turn(struct session *session)
{
	session->turn++;
	session->state = HEAD;
	session->matched = session->count = 0;
	session->has_content = session->done = false;
	session->sent = session->chunk_left = 0;
	session->start_ns = now_ns();
	send_more(session);
}

static void report_turn(const struct session *session)
{
	char line[128];
	int size = snprintf(line, sizeof line,
		"{\"event\":\"turn\",\"session\":\"s%d\",\"turn\":%d,\"attempt\":1,"
		"\"turn_ns\":%lld}\n",
		session->number, session->turn, (long long)(now_ns() - session->start_ns));
	check(!report || write(1, line, (size_t)size) == size, "stdout");
}

static void end_session(struct session *session)
{
	report_turn(session);
	history_release(&session->history);
	close(session->socket);
	unfinished--;
}

/* ---- tools */

static void start_tool(struct call *call)
{
	unescape(text_buffer, chain_text(&call->arguments), read_buffer);
	static char sh[] = "/bin/sh", command[] = "-c";
	char *argv[ARGS_MAX + 1] = {sh, command}, *room = text_buffer;
	bool shell = !strcmp(call->name, "shell");
	size_t count = shell ? 2 : 0, length;
	const char *arg = find(read_buffer, shell ? "\"command\":" : "\"argv\":", &length);
	while (arg && *(arg += strcspn(arg, "\"]}")) == '"' && count < ARGS_MAX) {
		const char *end = string_end(++arg);
		argv[count++] = room;
		room += unescape(arg, (size_t)(end - arg), room) + 1;
		arg = end + 1;
	}
	int ends[2];
	check(count && !pipe2(ends, O_CLOEXEC), "pipe");
	/* NOLINTBEGIN(clang-analyzer-*): Linux allows a vforked child any system call */
	pid_t pid = vfork();
	if (!pid) {
		if (dup2(null, 0) >= 0 && dup2(ends[1], 1) >= 0 && dup2(ends[1], 2) >= 0)
			execvp(argv[0], argv);
		_exit(127);
	} /* NOLINTEND(clang-analyzer-*) */
	check((call->pid = pid) > 0, "vfork");
	close(ends[1]);
	call->pipe = ends[0];
	watch(call->pipe, EPOLLIN, call);
}

/* All calls have ended: their messages, and the next turn. */
static void end_tools(struct session *session)
{
	struct chain *history = &session->history.chain;
	for (int k = 0; k < session->count; k++) {
		struct call *call = &session->calls[k];
		add_text(history, ",{\"role\":\"tool\",\"tool_call_id\":\"");
		add_text(history, call->id);
		add_text(history, "\",\"content\":\"");
		struct iovec vectors[VECTORS];
		size_t count = chain_vectors(&call->output, 0, vectors, VECTORS);
		for (size_t i = 0; i < count; i++)
			add_escaped(history, vectors[i].iov_base, vectors[i].iov_len);
		add_text(history, "\"}");
		chain_cut(&call->output, 0);
		chain_cut(&call->arguments, 0);
	}
	free(session->calls);
	session->calls = NULL;
	report_turn(session);
	start_turn(session);
}

static void call_ready(struct call *call)
{
	ssize_t size = read(call->pipe, read_buffer, READ_SIZE);
	if (size > 0) {
		chain_append(&call->output, read_buffer, (size_t)size);
		return;
	}
	/* Removed first: a child between vfork and exec may still hold a copy of the pipe. */
	epoll_ctl(epoll, EPOLL_CTL_DEL, call->pipe, NULL);
	close(call->pipe);
	int status; /* its end is near, and waiting for that is cheaper than a pidfd */
	check(waitpid(call->pid, &status, 0) > 0, "waitpid");
	if (status) {
		char last = '\n', line[24];
		if (call->output.length)
			chain_read(&call->output, call->output.length - 1, &last, 1);
		snprintf(line, sizeof line, "\n[exit %d]", WEXITSTATUS(status));
		add_text(&call->output, line + (last == '\n'));
	}
	if (!--call->session->running)
		end_tools(call->session);
}

/* ---- answers */

static void take_event(struct session *session, const char *event)
{
	struct chain *history = &session->history.chain;
	size_t length;
	const char *value = find(event, "\"content\":\"", &length);
	check(!strstr(event, "\"error\":{"), event);
	if (value) {
		if (!session->has_content)
			add_text(history, ",{\"role\":\"assistant\",\"content\":\"");
		session->has_content = true;
		chain_append(history, value, length);
	}
	const char *fragment = find(event, "\"tool_calls\":[", &length);
	const char *index = fragment ? find(fragment, "\"index\":", &length) : NULL;
	if (!index)
		return;
	int number = (int)strtol(index, NULL, 10);
	if (number == session->count) {
		size_t size = sizeof *session->calls * (size_t)++session->count;
		session->calls = xrealloc(session->calls, size);
		session->calls[number] = (struct call){.is_call = true, .session = session};
		chain_init(&session->calls[number].arguments, &store);
		chain_init(&session->calls[number].output, &store);
	}
	check(number >= 0 && number < session->count, event);
	struct call *call = &session->calls[number];
	if ((value = find(fragment, "\"id\":\"", &length)) && length < sizeof call->id)
		memcpy(call->id, value, length);
	if ((value = find(fragment, "\"name\":\"", &length)) && length < sizeof call->name)
		memcpy(call->name, value, length);
	if ((value = find(fragment, "\"arguments\":\"", &length)))
		chain_append(&call->arguments, value, length);
}

static void end_answer(struct session *session)
{
	struct chain *history = &session->history.chain;
	session->done = true;
	add_text(
		history, session->has_content ? "\"" : ",{\"role\":\"assistant\",\"content\":null");
	for (int i = 0; i < session->count; i++) {
		struct call *call = &session->calls[i];
		add_text(history, i ? ",{\"id\":\"" : ",\"tool_calls\":[{\"id\":\"");
		add_text(history, call->id);
		add_text(history, "\",\"type\":\"function\",\"function\":{\"name\":\"");
		add_text(history, call->name);
		add_text(history, "\",\"arguments\":\"");
		chain_append(history, text_buffer, chain_text(&call->arguments));
		add_text(history, "\"}}");
	}
	add_text(history, "]}");
}

/* Bytes of the stream; bytes[length] may be written to. */
static void take_stream(struct session *session, char *bytes, size_t length)
{
	for (char *end; (end = memchr(bytes, '\n', length)); bytes = end + 1) {
		const char *line = bytes;
		length -= (size_t)(end + 1 - bytes);
		*end = '\0';
		if (session->line.length) {
			chain_append(&session->line, bytes, (size_t)(end - bytes));
			chain_text(&session->line);
			chain_cut(&session->line, 0);
			line = text_buffer;
		}
		if (!strcmp(line, "data: [DONE]"))
			end_answer(session);
		else if (!session->done)
			take_event(session, line);
	}
	chain_append(&session->line, bytes, length);
}

/* Bytes of the response; bytes[length] may be written to. True at its end. */
static bool take_response(struct session *session, char *bytes, size_t length)
{
	for (char *end = bytes + length; bytes < end;) {
		if (session->state == CHUNK) {
			size_t part = (size_t)(end - bytes);
			part = part < session->chunk_left ? part : session->chunk_left;
			take_stream(session, bytes, part);
			bytes += part;
			session->chunk_left -= part;
			if (!session->chunk_left)
				session->state = CHUNK_END;
			continue;
		}
		char c = *bytes++;
		if (session->state == HEAD) {
			bool next = c == "\r\n\r\n"[session->matched];
			session->matched = next ? session->matched + 1 : c == '\r';
			if (session->matched == 4)
				session->state = CHUNK_SIZE;
		} else if (session->state == CHUNK_SIZE && c > '\r') {
			int digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
			session->chunk_left = session->chunk_left * 16 + (size_t)digit;
		} else if (c == '\n') {
			if (session->state == LAST)
				return true;
			session->state = session->state == CHUNK_END ? CHUNK_SIZE
					 : session->chunk_left       ? CHUNK
								     : LAST;
		}
	}
	return false;
}

static void session_ready(struct session *session, uint32_t events)
{
	if (events & EPOLLOUT && session->sent < session->size)
		send_more(session);
	ssize_t size = events & EPOLLIN ? READ_SIZE : 0;
	while (size == READ_SIZE) {
		size = recv(session->socket, read_buffer, READ_SIZE, MSG_DONTWAIT);
		if (size < 0 && errno == EAGAIN)
			return;
		check(size > 0, "recv");
		if (session->state == HEAD && !session->matched)
			check(!strncmp(read_buffer, "HTTP/1.1 200", 12), read_buffer);
		if (!take_response(session, read_buffer, (size_t)size))
			continue;
		check(session->done, "the stream ended before the answer");
		for (; session->running < session->count; session->running++)
			start_tool(&session->calls[session->running]);
		if (!session->count)
			end_session(session);
		return;
	}
}

/* ---- the program */

static void make_prologue(void)
{
	int file = open(setting("AGENT_SYSTEM_PROMPT_FILE"), O_RDONLY | O_CLOEXEC);
	struct stat stat;
	check(file >= 0 && !fstat(file, &stat), "AGENT_SYSTEM_PROMPT_FILE");
	char *text = xmalloc((size_t)stat.st_size + 1);
	check(read(file, text, (size_t)stat.st_size) == stat.st_size, "system prompt");
	close(file);
	prologue_init(&prologue, setting("OPENAI_MODEL"), text, (size_t)stat.st_size);
	free(text);
}

static void start_session(
	struct session *session, int number, const struct sockaddr *server, socklen_t size)
{
	char name[16];
	snprintf(name, sizeof name, "s%d", number);
	*session = (struct session){.number = number};
	history_init(&session->history, &prologue, &store, setting("AGENT_TASK"), name);
	chain_init(&session->line, &store);
	session->socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	check(session->socket >= 0 && !connect(session->socket, server, size), "connect");
	setsockopt(session->socket, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	start_turn(session);
	watch(session->socket, EPOLLIN | EPOLLOUT | EPOLLET, session);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return strcmp(argv[1], "--version") || puts("agent-floor " TURNMETER_VERSION) < 0;
	struct rlimit limit;
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	char host[64], path[256] = "";
	unsigned short port = 0;
	struct sockaddr_in server = {.sin_family = AF_INET};
	const char *url = setting("OPENAI_BASE_URL");
	int found = sscanf(url, "http://%63[0-9.]:%hu%255s", host, &port, path);
	if (found < 2 || !inet_aton(host, &server.sin_addr))
		FAIL(2, "OPENAI_BASE_URL: must be like http://127.0.0.1:8080/v1\n");
	server.sin_port = htons(port);
	snprintf(request_head, sizeof request_head,
		"POST %s/chat/completions HTTP/1.1\r\nHost: %s:%hu\r\nAuthorization: Bearer %s\r\n"
		"Content-Type: application/json\r\n",
		path, host, port, setting("OPENAI_API_KEY"));
	report = getenv("AGENT_REPORT") != NULL;
	struct error err;
	if (number_parse(setting("AGENT_SESSIONS"), "AGENT_SESSIONS", 1, 10000, &unfinished, &err))
		FAIL(2, "%s\n", err.text);
	make_prologue();
	epoll = epoll_create1(EPOLL_CLOEXEC);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	check(epoll >= 0 && null >= 0, "cannot begin");
	struct session *sessions = xmalloc(sizeof *sessions * (size_t)unfinished);
	for (int i = 0, count = (int)unfinished; i < count; i++)
		start_session(&sessions[i], i + 1, (struct sockaddr *)&server, sizeof server);
	while (unfinished) {
		struct epoll_event events[BATCH];
		int count = epoll_wait(epoll, events, BATCH, -1);
		/* Tools first: what they end is what can go on at once. */
		for (int i = 0; i < count; i++)
			if (*(bool *)events[i].data.ptr)
				call_ready(events[i].data.ptr);
			else
				events[i].events |= EPOLLPRI;
		for (int i = 0; i < count; i++)
			if (events[i].events & EPOLLPRI)
				session_ready(events[i].data.ptr, events[i].events);
	}
	check(write(1, "{\"event\":\"done\"}\n", 17) == 17, "stdout");
	while (read(0, read_buffer, READ_SIZE) > 0)
		;
	return 0;
}
