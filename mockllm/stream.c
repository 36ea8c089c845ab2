#include "mockllm/stream.h"

#include "common/clock.h"
#include "common/error.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum { WATCHED = EPOLLRDHUP };

static int64_t due_of(const struct stream *stream, size_t send)
{
	return stream->base_ns + stream->answer->send[send].due_ns;
}

static void keep_max(int64_t *max, int64_t value)
{
	if (value > *max)
		*max = value;
}

static void count_send(struct stream *stream, int64_t now)
{
	int64_t due_ns = due_of(stream, stream->next), peer_ns = 0;
	if (stream->free_ns > due_ns)
		peer_ns = stream->free_ns -
			  (stream->blocked_ns > due_ns ? stream->blocked_ns : due_ns);
	int64_t self_ns = now - due_ns - peer_ns;
	keep_max(&stream->late_self_ns, self_ns);
	keep_max(&stream->late_peer_ns, peer_ns);
	histogram_add(&stream->totals->late_self, self_ns);
	histogram_add(&stream->totals->late_peer, peer_ns);
	stream->totals->events++;
}

static void leave(struct stream *stream)
{
	loop_timer_clear(stream->loop, &stream->timer);
	stream->left(stream);
}

static void set_blocked(struct stream *stream, bool blocked)
{
	struct error ignored;
	if (blocked == stream->blocked)
		return;
	stream->blocked = blocked;
	/* The descriptor is in the loop and the events are valid: cannot fail. */
	loop_change(
		stream->loop, &stream->source, blocked ? WATCHED | EPOLLOUT : WATCHED, &ignored);
}

/* What send(2) did with the bytes up to `end`: how many it took, 0 if it had no room, -1: gone. */
static ssize_t hand_over(struct stream *stream, size_t end)
{
	ssize_t sent;
	do
		sent = send(stream->source.fd, stream->answer->bytes + stream->written,
			end - stream->written, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	if (sent < 0)
		return errno == EAGAIN ? 0 : -1;
	stream->written += (size_t)sent;
	stream->bytes_out += sent;
	stream->totals->bytes += sent;
	return sent;
}

/* Send everything that is due, each send by a call of its own, then wait for the next. */
static void send_due(struct stream *stream)
{
	const struct answer *answer = stream->answer;
	for (; stream->next < answer->sends; stream->next++) {
		int64_t now = now_ns();
		if (due_of(stream, stream->next) > now) {
			stream->blocked_ns = stream->free_ns = 0;
			loop_timer_set(stream->loop, &stream->timer, due_of(stream, stream->next));
			return;
		}
		bool is_last = stream->next + 1 == answer->sends;
		if (!stream->first_ns)
			stream->first_ns = now;
		if (is_last && !stream->end_before_ns) {
			stream->end_before_ns = now;
			if (stream->ending)
				stream->ending(stream);
		}
		size_t end = answer->send[stream->next].end;
		if (hand_over(stream, end) < 0) {
			leave(stream);
			return;
		}
		if (stream->written < end) {
			if (!stream->blocked_ns)
				stream->blocked_ns = now;
			set_blocked(stream, true);
			return;
		}
		if (is_last)
			stream->end_after_ns = now_ns();
		count_send(stream, now);
	}
	stream->completed(stream);
}

static void handle_timer(struct timer *timer)
{
	send_due(container_of(timer, struct stream, timer));
}

static void handle_ready(struct source *source, uint32_t events)
{
	struct stream *stream = container_of(source, struct stream, source);
	if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
		leave(stream);
		return;
	}
	if (!stream->blocked)
		return;
	set_blocked(stream, false);
	stream->free_ns = loop_batch_ns(stream->loop);
	send_due(stream);
}

int stream_watch(struct stream *stream, int fd, struct error *err)
{
	stream->source = (struct source){.fd = -1, .ready = handle_ready};
	stream->timer = (struct timer){.expired = handle_timer};
	return loop_add(stream->loop, &stream->source, fd, WATCHED, err);
}

void stream_start(struct stream *stream, const struct answer *answer, int64_t base_ns,
	struct stream_totals *totals)
{
	stream->answer = answer;
	stream->totals = totals;
	stream->base_ns = base_ns;
	loop_timer_set(stream->loop, &stream->timer, due_of(stream, 0));
}

bool stream_is_left(const struct stream *stream)
{
	struct pollfd look = {.fd = stream->source.fd, .events = POLLRDHUP};
	return poll(&look, 1, 0) > 0;
}

int stream_stop(struct stream *stream)
{
	int fd = stream->source.fd;
	loop_timer_clear(stream->loop, &stream->timer);
	loop_remove(stream->loop, &stream->source);
	return fd;
}
