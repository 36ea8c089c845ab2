#include "agent/c/dial.h"

#include "agent/c/target.h"
#include "agent/c/tool.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#ifndef AGENT_C_NO_TLS

#include <curl/curl.h>

/*
 * The receive buffer is each connection's own before libcurl 8.7: 1 KiB, which holds several events
 * of a stream. Later it is one for all.
 */
enum {
	RECEIVE_BYTES = 1024,
	SHARED_RECEIVE_BYTES = 16 << 10,
	FIRST_SHARED_BUFFER = 0x080700,
	CONNECTIONS_MAX = 1 << 16,
};

struct dialer {
	struct loop *loop;
	const char *ca_file;
	CURLM *multi;
	struct timer timer;
	long receive_bytes;
};

struct dial {
	struct dialer *dialer;
	CURL *easy;
	void (*done)(struct dial *dial, void *client, const char *failure);
	void *client;
};

/* A descriptor that libcurl has us watch. */
struct watch {
	struct source source;
	struct dialer *dialer;
};

static void tell_ends(struct dialer *dialer)
{
	int left;
	CURLMsg *message;
	while ((message = curl_multi_info_read(dialer->multi, &left))) {
		struct dial *dial;
		CURLcode code = message->data.result;
		curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &dial);
		dial->done(dial, dial->client, code ? curl_easy_strerror(code) : NULL);
	}
}

static void act(struct dialer *dialer, curl_socket_t fd, int events)
{
	int running;
	curl_multi_socket_action(dialer->multi, fd, events, &running);
	tell_ends(dialer);
}

static void watch_ready(struct source *source, uint32_t events)
{
	struct watch *watch = container_of(source, struct watch, source);
	int action = 0;
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		action |= CURL_CSELECT_IN;
	if (events & EPOLLOUT)
		action |= CURL_CSELECT_OUT;
	if (events & EPOLLERR)
		action |= CURL_CSELECT_ERR;
	act(watch->dialer, source->fd, action);
}

static int socket_changed(CURL *easy, curl_socket_t fd, int what, void *client, void *assigned)
{
	struct dialer *dialer = client;
	struct watch *watch = assigned;
	struct error err;
	(void)easy;
	if (what == CURL_POLL_REMOVE) {
		if (watch) {
			curl_multi_assign(dialer->multi, fd, NULL);
			loop_remove(dialer->loop, &watch->source);
			loop_free_later(dialer->loop, watch);
		}
		return 0;
	}
	uint32_t events = 0;
	if (what & CURL_POLL_IN)
		events |= EPOLLIN;
	if (what & CURL_POLL_OUT)
		events |= EPOLLOUT;
	if (!watch) {
		watch = xcalloc(1, sizeof *watch);
		watch->source = (struct source){.fd = -1, .ready = watch_ready};
		watch->dialer = dialer;
		curl_multi_assign(dialer->multi, fd, watch);
	}
	int result = watch->source.fd < 0 ? loop_add(dialer->loop, &watch->source, fd, events, &err)
					  : loop_change(dialer->loop, &watch->source, events, &err);
	/* Fails for want of memory only: the request then ends by its idle timeout. */
	(void)result;
	return 0;
}

static void timer_expired(struct timer *timer)
{
	act(container_of(timer, struct dialer, timer), CURL_SOCKET_TIMEOUT, 0);
}

static int timer_changed(CURLM *multi, long wait_ms, void *client)
{
	struct dialer *dialer = client;
	(void)multi;
	if (wait_ms < 0)
		loop_timer_clear(dialer->loop, &dialer->timer);
	else
		loop_timer_set(dialer->loop, &dialer->timer, now_ns() + wait_ms * NS_PER_MS);
	return 0;
}

static curl_socket_t open_socket(void *client, curlsocktype purpose, struct curl_sockaddr *address)
{
	(void)client, (void)purpose;
	int fd = socket(address->family, address->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
		address->protocol);
	return fd < 0 ? CURL_SOCKET_BAD : fd;
}

bool dialer_is_there(void)
{
	return true;
}

const char *dialer_version(void)
{
	return curl_version();
}

struct dialer *dialer_new(struct loop *loop, const char *ca_file, struct error *err)
{
	if (curl_global_init(CURL_GLOBAL_DEFAULT)) {
		error_set(err, 0, "cannot initialise libcurl");
		return NULL;
	}
	if (!(curl_version_info(CURLVERSION_NOW)->features & CURL_VERSION_SSL)) {
		error_set(err, 0, "libcurl has no TLS");
		curl_global_cleanup();
		return NULL;
	}
	struct dialer *dialer = xcalloc(1, sizeof *dialer);
	dialer->loop = loop;
	dialer->ca_file = ca_file;
	dialer->timer.expired = timer_expired;
	bool shares = curl_version_info(CURLVERSION_NOW)->version_num >= FIRST_SHARED_BUFFER;
	dialer->receive_bytes = shares ? SHARED_RECEIVE_BYTES : RECEIVE_BYTES;
	dialer->multi = curl_multi_init();
	if (!dialer->multi)
		die_oom();
	curl_multi_setopt(dialer->multi, CURLMOPT_SOCKETFUNCTION, socket_changed);
	curl_multi_setopt(dialer->multi, CURLMOPT_SOCKETDATA, dialer);
	curl_multi_setopt(dialer->multi, CURLMOPT_TIMERFUNCTION, timer_changed);
	curl_multi_setopt(dialer->multi, CURLMOPT_TIMERDATA, dialer);
	/* Left to itself, libcurl closes connections of which it thinks there are too many. */
	curl_multi_setopt(dialer->multi, CURLMOPT_MAXCONNECTS, (long)CONNECTIONS_MAX);
	/* libcurl opens some that tools would inherit. */
	tools_hide_descriptors();
	return dialer;
}

void dialer_free(struct dialer *dialer)
{
	if (!dialer)
		return;
	curl_multi_cleanup(dialer->multi);
	loop_timer_clear(dialer->loop, &dialer->timer);
	free(dialer);
	curl_global_cleanup();
}

struct dial *dial_new(struct dialer *dialer, const struct target *target,
	void (*done)(struct dial *dial, void *client, const char *failure), void *client)
{
	struct dial *dial = xcalloc(1, sizeof *dial);
	*dial = (struct dial){.dialer = dialer, .done = done, .client = client};
	CURL *easy = dial->easy = curl_easy_init();
	if (!easy)
		die_oom();
	curl_easy_setopt(easy, CURLOPT_PRIVATE, dial);
	char *url = xasprintf("https://%s/", target->authority);
	curl_easy_setopt(easy, CURLOPT_URL, url); /* copied */
	free(url);
	curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_PROXY, "");
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, dialer->receive_bytes);
	curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
	if (dialer->ca_file) {
		curl_easy_setopt(easy, CURLOPT_CAINFO, dialer->ca_file);
		curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
	}
	if (curl_multi_add_handle(dialer->multi, easy))
		die_oom();
	return dial;
}

void dial_free(struct dial *dial)
{
	if (!dial)
		return;
	curl_multi_remove_handle(dial->dialer->multi, dial->easy);
	curl_easy_cleanup(dial->easy);
	free(dial);
}

int dial_socket(const struct dial *dial)
{
	curl_socket_t fd = CURL_SOCKET_BAD;
	curl_easy_getinfo(dial->easy, CURLINFO_ACTIVESOCKET, &fd);
	return fd;
}

static ssize_t result_of(CURLcode code, size_t count)
{
	if (!code)
		return (ssize_t)count;
	errno = code == CURLE_AGAIN ? EAGAIN : EIO;
	return -1;
}

ssize_t dial_send(struct dial *dial, const void *bytes, size_t length)
{
	size_t sent = 0;
	CURLcode code = curl_easy_send(dial->easy, bytes, length, &sent);
	return result_of(code, sent);
}

ssize_t dial_receive(struct dial *dial, void *bytes, size_t length)
{
	size_t got = 0;
	CURLcode code = curl_easy_recv(dial->easy, bytes, length, &got);
	return result_of(code, got);
}

#else /* AGENT_C_NO_TLS */

bool dialer_is_there(void)
{
	return false;
}

const char *dialer_version(void)
{
	return "without TLS";
}

struct dialer *dialer_new(struct loop *loop, const char *ca_file, struct error *err)
{
	(void)loop, (void)ca_file;
	error_set(err, 0, "this build knows http:// only");
	return NULL;
}

void dialer_free(struct dialer *dialer)
{
	(void)dialer;
}

struct dial *dial_new(struct dialer *dialer, const struct target *target,
	void (*done)(struct dial *dial, void *client, const char *failure), void *client)
{
	(void)dialer, (void)target, (void)done, (void)client;
	abort();
}

void dial_free(struct dial *dial)
{
	(void)dial;
}

int dial_socket(const struct dial *dial)
{
	(void)dial;
	abort();
}

ssize_t dial_send(struct dial *dial, const void *bytes, size_t length)
{
	(void)dial, (void)bytes, (void)length;
	abort();
}

ssize_t dial_receive(struct dial *dial, void *bytes, size_t length)
{
	(void)dial, (void)bytes, (void)length;
	abort();
}

#endif
