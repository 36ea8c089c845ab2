#include "mockllm/stamps.h"

#include "common/cleanup.h"
#include "common/error.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

struct stamps {
	struct source source;
	struct mock *mock;
};

void stamps_drain(struct stamps *stamps)
{
	struct mock *mock = stamps->mock;
	struct tool_stamp stamp;
	for (;;) {
		ssize_t length = recv(stamps->source.fd, &stamp, sizeof stamp, MSG_TRUNC);
		if (length < 0)
			return;
		if (length != (ssize_t)sizeof stamp)
			continue;
		mock->counters.tool_stamps++;
		if (mock->run)
			run_stamp(mock->run, &stamp);
		else
			mock->counters.tool_stamps_stray++;
	}
}

static void handle_stamps(struct source *source, uint32_t events)
{
	(void)events;
	stamps_drain(container_of(source, struct stamps, source));
}

struct stamps *stamps_new(struct mock *mock, const char *name, struct error *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t length = strlen(name);
	if (length >= sizeof address.sun_path) {
		error_set(err, 0, "the tool socket's name '%s' is too long", name);
		return NULL;
	}
	memcpy(address.sun_path + 1, name, length);
	auto_close int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length))) {
		error_set(err, errno, "cannot listen for tool stamps on '@%s'", name);
		return NULL;
	}
	struct stamps *stamps = xcalloc(1, sizeof *stamps);
	stamps->mock = mock;
	stamps->source = (struct source){.fd = -1, .ready = handle_stamps};
	if (loop_add(mock->loop, &stamps->source, fd, EPOLLIN, err)) {
		free(stamps);
		return NULL;
	}
	(void)steal_fd(&fd);
	return stamps;
}

void stamps_free(struct stamps *stamps)
{
	if (!stamps)
		return;
	int fd = stamps->source.fd;
	loop_remove(stamps->mock->loop, &stamps->source);
	close(fd);
	free(stamps);
}
