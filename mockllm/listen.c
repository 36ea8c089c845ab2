#include "mockllm/listen.h"

#include "common/cleanup.h"
#include "common/error.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 16384 }; /* thousands connect at once */

static int open_socket(int family)
{
	return socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/* -1 with errno set. */
static int open_tcp(const struct sockaddr *address, socklen_t length)
{
	auto_close int fd = open_socket(address->sa_family);
	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
	if (address->sa_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &(int){1}, sizeof(int));
	if (bind(fd, address, length) || listen(fd, BACKLOG))
		return -1;
	return steal_fd(&fd);
}

int listen_tcp(int port, struct error *err)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = open_tcp((struct sockaddr *)&address, sizeof address);
	if (fd < 0 && errno == EADDRINUSE)
		return error_set(err, 0,
			"cannot listen on 127.0.0.1:%d: another program does; choose another port "
			"with --port, or 0 for any free one",
			port);
	if (fd < 0)
		return error_set(err, errno, "cannot listen on 127.0.0.1:%d", port);
	return fd;
}

int listen_port(int fd)
{
	struct sockaddr_in address = {0};
	socklen_t length = sizeof address;
	getsockname(fd, (struct sockaddr *)&address, &length);
	return ntohs(address.sin_port);
}

int listen_tcp6(int port)
{
	struct sockaddr_in6 address = {.sin6_family = AF_INET6,
		.sin6_port = htons((uint16_t)port),
		.sin6_addr = IN6ADDR_LOOPBACK_INIT};
	return open_tcp((struct sockaddr *)&address, sizeof address);
}

/* Does somebody listen on this socket file? */
static bool is_alive(const struct sockaddr_un *address)
{
	auto_close int fd = open_socket(AF_UNIX);
	return fd >= 0 &&
	       (!connect(fd, (const struct sockaddr *)address, sizeof *address) || errno == EAGAIN);
}

/* Make room for a socket file. */
static int clear_path(const char *path, const struct sockaddr_un *address, struct error *err)
{
	struct stat status;
	if (lstat(path, &status))
		return 0;
	if (!S_ISSOCK(status.st_mode))
		return error_set(err, 0,
			"cannot listen on '%s': it is there and is no socket; remove it or choose "
			"another path with --control",
			path);
	if (is_alive(address))
		return error_set(err, 0,
			"cannot listen on '%s': another program does; end it or choose another "
			"path with --control",
			path);
	unlink(path);
	return 0;
}

int listen_unix(const char *path, struct error *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	if (!*path) /* the kernel would choose a name */
		return error_set(err, 0, "--control: must be a path, is empty");
	if (strlen(path) >= sizeof address.sun_path)
		return error_set(err, 0,
			"cannot listen on '%s': the path must be shorter than %zu bytes", path,
			sizeof address.sun_path);
	memcpy(address.sun_path, path, strlen(path) + 1);
	if (clear_path(path, &address, err))
		return -1;
	auto_close int fd = open_socket(AF_UNIX);
	if (fd < 0)
		return error_set(err, errno, "cannot create a Unix socket");
	/* The collector's root has no capabilities: whoever may enter the directory may control. */
	mode_t mask = umask(0);
	int failed = bind(fd, (struct sockaddr *)&address, sizeof address);
	int code = errno;
	umask(mask);
	if (failed)
		return error_set(err, code, "cannot listen on '%s'", path);
	if (listen(fd, BACKLOG))
		return error_set(err, errno, "cannot listen on '%s'", path);
	return steal_fd(&fd);
}
