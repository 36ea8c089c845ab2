#include "common/loop.h"

#include "common/clock.h"
#include "common/error.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BATCH = 256 };

/*
 * Events carry (slot, serial), not a pointer: an event of a source that was removed earlier in
 * the batch finds its slot empty or with another serial, and is dropped.
 */
struct slot {
	struct source *source;
	uint32_t next_free;
};

/* With the deadline beside it: thousands of timers are compared without being looked at. */
struct heap_item {
	int64_t deadline_ns;
	struct timer *timer;
};

struct loop {
	int epoll_fd;
	bool stopped;
	bool in_batch;
	bool no_pwait2; /* kernel before 5.11, or a filter that refuses it */
	int64_t batch_ns;
	int64_t spin_ns;
	struct slot *slots;
	uint32_t slots_length, slots_capacity, first_free;
	uint32_t last_serial;
	struct heap_item *heap; /* heap[1 … heap_length], earliest first */
	size_t heap_length, heap_capacity;
	void **graves;
	size_t graves_length, graves_capacity;
};

static const uint32_t NO_SLOT = UINT32_MAX;

struct loop *loop_new(struct error *err)
{
	int fd = epoll_create1(EPOLL_CLOEXEC);
	if (fd < 0) {
		error_set(err, errno, "cannot create an epoll instance");
		return NULL;
	}
	struct loop *loop = xcalloc(1, sizeof *loop);
	loop->epoll_fd = fd;
	loop->first_free = NO_SLOT;
	loop->batch_ns = now_ns();
	return loop;
}

void loop_spin(struct loop *loop, int64_t spin_ns)
{
	loop->spin_ns = spin_ns;
}

static void bury(struct loop *loop)
{
	for (size_t i = 0; i < loop->graves_length; i++)
		free(loop->graves[i]);
	loop->graves_length = 0;
}

void loop_free(struct loop *loop)
{
	if (!loop)
		return;
	close(loop->epoll_fd);
	bury(loop);
	free(loop->graves);
	free(loop->slots);
	free(loop->heap);
	free(loop);
}

static uint32_t take_slot(struct loop *loop)
{
	if (loop->first_free != NO_SLOT) {
		uint32_t slot = loop->first_free;
		loop->first_free = loop->slots[slot].next_free;
		return slot;
	}
	if (loop->slots_length == loop->slots_capacity) {
		loop->slots_capacity = loop->slots_capacity ? 2 * loop->slots_capacity : 16;
		loop->slots = xrealloc(loop->slots, loop->slots_capacity * sizeof *loop->slots);
	}
	return loop->slots_length++;
}

static void give_slot(struct loop *loop, uint32_t slot)
{
	loop->slots[slot] = (struct slot){.next_free = loop->first_free};
	loop->first_free = slot;
}

static struct epoll_event event_of(const struct source *source, uint32_t events)
{
	return (struct epoll_event){
		.events = events, .data.u64 = (uint64_t)source->serial << 32 | source->slot};
}

int loop_add(struct loop *loop, struct source *source, int fd, uint32_t events, struct error *err)
{
	source->slot = take_slot(loop);
	source->serial = ++loop->last_serial;
	struct epoll_event event = event_of(source, events);
	if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event)) {
		int code = errno;
		give_slot(loop, source->slot);
		source->fd = -1;
		return error_set(err, code, "cannot watch descriptor %d", fd);
	}
	source->fd = fd;
	loop->slots[source->slot].source = source;
	return 0;
}

int loop_change(struct loop *loop, struct source *source, uint32_t events, struct error *err)
{
	struct epoll_event event = event_of(source, events);
	if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, source->fd, &event))
		return error_set(
			err, errno, "cannot change the events of descriptor %d", source->fd);
	return 0;
}

void loop_forget(struct loop *loop, struct source *source)
{
	if (source->fd < 0)
		return;
	give_slot(loop, source->slot);
	source->fd = -1;
}

void loop_remove(struct loop *loop, struct source *source)
{
	if (source->fd < 0)
		return;
	/* Fails only if the descriptor was closed before, which the kernel takes as removal. */
	epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
	loop_forget(loop, source);
}

static void heap_place(struct loop *loop, size_t at, struct heap_item item)
{
	loop->heap[at] = item;
	item.timer->slot = at;
}

static void heap_up(struct loop *loop, size_t at)
{
	struct heap_item item = loop->heap[at];
	for (; at > 1 && item.deadline_ns < loop->heap[at / 2].deadline_ns; at /= 2)
		heap_place(loop, at, loop->heap[at / 2]);
	heap_place(loop, at, item);
}

static void heap_down(struct loop *loop, size_t at)
{
	struct heap_item item = loop->heap[at];
	for (;;) {
		size_t child = 2 * at;
		if (child > loop->heap_length)
			break;
		if (child < loop->heap_length &&
			loop->heap[child + 1].deadline_ns < loop->heap[child].deadline_ns)
			child++;
		if (loop->heap[child].deadline_ns >= item.deadline_ns)
			break;
		heap_place(loop, at, loop->heap[child]);
		at = child;
	}
	heap_place(loop, at, item);
}

void loop_timer_set(struct loop *loop, struct timer *timer, int64_t deadline_ns)
{
	struct heap_item item = {deadline_ns, timer};
	timer->deadline_ns = deadline_ns;
	if (timer->slot) {
		bool is_earlier = deadline_ns < loop->heap[timer->slot].deadline_ns;
		heap_place(loop, timer->slot, item);
		if (is_earlier)
			heap_up(loop, timer->slot);
		else
			heap_down(loop, timer->slot);
		return;
	}
	if (loop->heap_length + 2 > loop->heap_capacity) {
		loop->heap_capacity = loop->heap_capacity ? 2 * loop->heap_capacity : 16;
		loop->heap = xrealloc(loop->heap, loop->heap_capacity * sizeof *loop->heap);
	}
	heap_place(loop, ++loop->heap_length, item);
	heap_up(loop, timer->slot);
}

void loop_timer_clear(struct loop *loop, struct timer *timer)
{
	if (!timer->slot)
		return;
	size_t at = timer->slot;
	struct heap_item last = loop->heap[loop->heap_length--];
	timer->slot = 0;
	if (last.timer == timer)
		return;
	heap_place(loop, at, last);
	heap_up(loop, at);
	heap_down(loop, last.timer->slot);
}

void loop_free_later(struct loop *loop, void *memory)
{
	if (!loop->in_batch) {
		free(memory);
		return;
	}
	if (loop->graves_length == loop->graves_capacity) {
		loop->graves_capacity = loop->graves_capacity ? 2 * loop->graves_capacity : 16;
		loop->graves = xrealloc(loop->graves, loop->graves_capacity * sizeof *loop->graves);
	}
	loop->graves[loop->graves_length++] = memory;
}

/*
 * Only timers due at a given time are run, such as the batch's start: a callback that sets its
 * deadline to now is served by the next batch, so sources are never starved.
 */
static void run_timers(struct loop *loop, int64_t due_ns)
{
	while (loop->heap_length && loop->heap[1].deadline_ns <= due_ns) {
		struct timer *timer = loop->heap[1].timer;
		loop_timer_clear(loop, timer);
		timer->expired(timer);
	}
}

static int wait_for_events(struct loop *loop, struct epoll_event *events, int64_t wait_ns)
{
#ifdef SYS_epoll_pwait2
	if (!loop->no_pwait2) {
		struct timespec wait = {
			.tv_sec = wait_ns / NS_PER_S, .tv_nsec = wait_ns % NS_PER_S};
		long count = syscall(SYS_epoll_pwait2, loop->epoll_fd, events, BATCH,
			wait_ns < 0 ? NULL : &wait, NULL, (size_t)8);
		if (count >= 0 || (errno != ENOSYS && errno != EPERM))
			return (int)count;
		loop->no_pwait2 = true;
	}
#endif
	int64_t wait_ms = wait_ns < 0 ? -1 : (wait_ns + NS_PER_MS - 1) / NS_PER_MS;
	if (wait_ms > 3600000)
		wait_ms = 3600000;
	return epoll_wait(loop->epoll_fd, events, BATCH, (int)wait_ms);
}

int loop_once(struct loop *loop, int64_t max_wait_ns, struct error *err)
{
	int64_t wait_ns = max_wait_ns;
	if (loop->heap_length) {
		int64_t deadline_ns = loop->heap[1].deadline_ns, until_ns = deadline_ns - now_ns();
		bool is_near = until_ns <= loop->spin_ns && (wait_ns < 0 || until_ns <= wait_ns);
		while (is_near && now_ns() < deadline_ns)
			;
		if (is_near || until_ns < 0)
			until_ns = 0;
		if (wait_ns < 0 || until_ns < wait_ns)
			wait_ns = until_ns;
	}
	struct epoll_event events[BATCH];
	int count = wait_for_events(loop, events, wait_ns);
	if (count < 0 && errno != EINTR)
		return error_set(err, errno, "cannot wait for events");

	loop->in_batch = true;
	loop->batch_ns = now_ns();
	run_timers(loop, loop->batch_ns);
	for (int i = 0; i < count; i++) {
		uint32_t slot = (uint32_t)events[i].data.u64;
		uint32_t serial = (uint32_t)(events[i].data.u64 >> 32);
		struct source *source = slot < loop->slots_length ? loop->slots[slot].source : NULL;
		if (source && source->serial == serial)
			source->ready(source, events[i].events);
	}
	loop->in_batch = false;
	bury(loop);
	return 0;
}

int loop_run(struct loop *loop, struct error *err)
{
	loop->stopped = false;
	while (!loop->stopped)
		if (loop_once(loop, -1, err))
			return -1;
	return 0;
}

void loop_stop(struct loop *loop)
{
	loop->stopped = true;
}

int64_t loop_batch_ns(const struct loop *loop)
{
	return loop->batch_ns;
}

void loop_run_due(struct loop *loop)
{
	run_timers(loop, now_ns());
}
