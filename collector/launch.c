#include "collector/launch.h"

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

/* Emptying a large scratch folder or ending 10,000 processes may take a while; a launcher that does
 * not answer for longer is lost. */
static const int64_t REQUEST_TIMEOUT_NS = 60 * NS_PER_S;

enum { LAUNCHERS_MAX = 256, NAME_MAX_BYTES = 255, PATH_MAX_BYTES = 4095 };

struct launcher {
	struct source source;
	struct launch_server *server;
	struct launcher *next;
	pid_t pid;
	bool greeted; /* HELLO was read: the texts are set */
	bool lost;
	char *name, *prefix, *here, *scratch;
	uint32_t last_id, spawn_id;
	bool has_exited;
	struct launch_exited exited;
	void (*changed)(void *context);
	void *context;
};

struct launch_server {
	struct source source;
	struct loop *loop;
	char *path;
	struct launcher *launchers;
	int count;
};

struct reply {
	struct launch_header header;
	const char *payload; /* into `message` */
	int fds[LAUNCH_FDS];
	int fd_count;
};

static _Alignas(struct launch_header) char message[LAUNCH_MESSAGE_MAX];

/* ---- connections */

static void launcher_free(struct launcher *launcher)
{
	struct launcher **slot = &launcher->server->launchers;
	while (*slot != launcher)
		slot = &(*slot)->next;
	*slot = launcher->next;
	launcher->server->count--;
	free(launcher->name);
	free(launcher->prefix);
	free(launcher->here);
	free(launcher->scratch);
	loop_free_later(launcher->server->loop, launcher);
}

static void lose(struct launcher *launcher)
{
	if (launcher->lost)
		return;
	int fd = launcher->source.fd;
	loop_remove(launcher->server->loop, &launcher->source);
	close(fd);
	launcher->lost = true;
}

void launcher_drop(struct launcher *launcher)
{
	lose(launcher);
	launcher_free(launcher);
}

/*
 * One message into `message`, at most one for each call. 0: got one; 1: nothing there yet; -1: the
 * connection is of no more use.
 */
static int receive(struct launcher *launcher, struct reply *reply)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(LAUNCH_FDS * sizeof(int))];
	struct iovec part = {message, sizeof message};
	struct msghdr in = {.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof control};
	ssize_t got = recvmsg(launcher->source.fd, &in, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (got < 0)
		return errno == EAGAIN || errno == EINTR ? 1 : -1;
	reply->fd_count = 0;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&in); c; c = CMSG_NXTHDR(&in, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		reply->fd_count = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(reply->fds, CMSG_DATA(c), (size_t)reply->fd_count * sizeof(int));
	}
	bool good =
		got >= (ssize_t)sizeof reply->header && !(in.msg_flags & (MSG_TRUNC | MSG_CTRUNC));
	if (good) {
		memcpy(&reply->header, message, sizeof reply->header);
		reply->payload = message + sizeof reply->header;
		good = reply->header.version == LAUNCH_VERSION &&
		       reply->header.length == (size_t)got - sizeof reply->header;
	}
	if (good)
		return 0;
	for (int i = 0; i < reply->fd_count; i++)
		close(reply->fds[i]);
	return -1;
}

static void close_fds(struct reply *reply)
{
	for (int i = 0; i < reply->fd_count; i++)
		close(reply->fds[i]);
	reply->fd_count = 0;
}

static char *take_text(const char **at, const char *end, size_t max)
{
	const char *nul = memchr(*at, '\0', (size_t)(end - *at));
	if (!nul || (size_t)(nul - *at) > max || nul == *at)
		return NULL;
	char *text = xstrdup(*at);
	*at = nul + 1;
	return text;
}

static bool greet(struct launcher *launcher, const struct reply *reply)
{
	const char *at = reply->payload + sizeof(struct launch_hello);
	const char *end = reply->payload + reply->header.length;
	if (reply->header.type != LAUNCH_HELLO ||
		reply->header.length < sizeof(struct launch_hello))
		return false;
	launcher->name = take_text(&at, end, NAME_MAX_BYTES);
	if (launcher->name)
		launcher->prefix = take_text(&at, end, PATH_MAX_BYTES);
	if (launcher->prefix)
		launcher->here = take_text(&at, end, PATH_MAX_BYTES);
	if (launcher->here)
		launcher->scratch = take_text(&at, end, PATH_MAX_BYTES);
	/* One launcher for a name: a second may be a contender's own doing. */
	launcher->greeted =
		launcher->scratch && at == end && !launch_find(launcher->server, launcher->name);
	return launcher->greeted;
}

/* What comes without being asked for. False: the connection is of no more use. */
static bool on_event(struct launcher *launcher, const struct reply *reply)
{
	if (!launcher->greeted)
		return greet(launcher, reply);
	if (reply->header.type != LAUNCH_EXITED || reply->header.length != sizeof launcher->exited)
		return false;
	if (reply->header.id == launcher->spawn_id) {
		memcpy(&launcher->exited, reply->payload, sizeof launcher->exited);
		launcher->has_exited = true;
	}
	return true;
}

static void launcher_ready(struct source *source, uint32_t events)
{
	struct launcher *launcher = container_of(source, struct launcher, source);
	(void)events;
	struct reply reply;
	int result = receive(launcher, &reply);
	if (result > 0)
		return;
	if (!result) {
		bool good = on_event(launcher, &reply);
		close_fds(&reply);
		result = good ? 0 : -1;
	}
	if (!result && !launcher->changed)
		return;
	if (result)
		lose(launcher);
	if (launcher->changed)
		launcher->changed(launcher->context);
	else
		launcher_free(launcher);
}

static void server_ready(struct source *source, uint32_t events)
{
	struct launch_server *server = container_of(source, struct launch_server, source);
	(void)events;
	auto_close int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct ucred peer;
	socklen_t length = sizeof peer;
	if (fd < 0 || server->count >= LAUNCHERS_MAX ||
		getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length))
		return;
	struct launcher *launcher = xcalloc(1, sizeof *launcher);
	*launcher = (struct launcher){.source = {.fd = -1, .ready = launcher_ready},
		.server = server,
		.next = server->launchers,
		.pid = peer.pid};
	struct error ignored; /* it connects again */
	if (loop_add(server->loop, &launcher->source, fd, EPOLLIN, &ignored)) {
		free(launcher);
		return;
	}
	steal_fd(&fd);
	server->launchers = launcher;
	server->count++;
}

/* ---- the server */

/* A socket that nobody listens at may be removed; everything else is not ours. */
static int remove_stale(const char *path, const struct sockaddr_un *address, struct error *err)
{
	struct stat status;
	if (lstat(path, &status))
		return errno == ENOENT ? 0 : error_set(err, errno, "cannot look at '%s'", path);
	if (!S_ISSOCK(status.st_mode))
		return error_set(err, EEXIST, "cannot listen at '%s'", path);
	auto_close int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return error_set(err, errno, "cannot make a socket");
	if (!connect(fd, (const struct sockaddr *)address, sizeof *address) ||
		errno != ECONNREFUSED)
		return error_set(err, 0,
			"another collector listens at '%s': end it first, or use "
			"another path",
			path);
	if (unlink(path) && errno != ENOENT)
		return error_set(err, errno, "cannot remove the stale socket '%s'", path);
	return 0;
}

struct launch_server *launch_server_new(
	struct loop *loop, const char *path, bool for_all, struct error *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof address.sun_path) {
		error_set(err, ENAMETOOLONG, "cannot listen at '%s'", path);
		return NULL;
	}
	memcpy(address.sun_path, path, strlen(path));
	if (remove_stale(path, &address, err))
		return NULL;
	auto_close int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address)) {
		error_set(err, errno, "cannot listen at '%s'", path);
		return NULL;
	}
	struct launch_server *server = xcalloc(1, sizeof *server);
	*server = (struct launch_server){
		.source = {.fd = -1, .ready = server_ready}, .loop = loop, .path = xstrdup(path)};
	if ((for_all && chmod(path, 0666)) || listen(fd, 64)) {
		error_set(err, errno, "cannot listen at '%s'", path);
		launch_server_free(server);
		return NULL;
	}
	if (loop_add(loop, &server->source, fd, EPOLLIN, err)) {
		launch_server_free(server);
		return NULL;
	}
	steal_fd(&fd);
	return server;
}

void launch_server_free(struct launch_server *server)
{
	if (!server)
		return;
	while (server->launchers)
		launcher_drop(server->launchers);
	int fd = server->source.fd;
	loop_remove(server->loop, &server->source);
	if (fd >= 0)
		close(fd);
	unlink(server->path);
	free(server->path);
	free(server);
}

struct launcher *launch_find(struct launch_server *server, const char *name)
{
	for (struct launcher *launcher = server->launchers; launcher; launcher = launcher->next)
		if (launcher->greeted && !launcher->lost && !strcmp(launcher->name, name))
			return launcher;
	return NULL;
}

const char *launcher_name(const struct launcher *launcher)
{
	return launcher->name;
}

const char *launcher_prefix(const struct launcher *launcher)
{
	return launcher->prefix;
}

const char *launcher_here(const struct launcher *launcher)
{
	return launcher->here;
}

const char *launcher_scratch(const struct launcher *launcher)
{
	return launcher->scratch;
}

pid_t launcher_pid(const struct launcher *launcher)
{
	return launcher->pid;
}

void launcher_watch(struct launcher *launcher, void (*changed)(void *context), void *context)
{
	launcher->changed = changed;
	launcher->context = context;
}

bool launcher_exited(const struct launcher *launcher, struct launch_exited *exited)
{
	if (launcher->has_exited)
		*exited = launcher->exited;
	return launcher->has_exited;
}

bool launcher_lost(const struct launcher *launcher)
{
	return launcher->lost;
}

/* ---- requests */

static int lost_error(const struct launcher *launcher, struct error *err)
{
	return error_set(err, ECONNRESET, "lost the launcher of '%s'", launcher->name);
}

/* The launcher's refusal as our error. */
static int refused(const struct launcher *launcher, const struct reply *reply, struct error *err)
{
	struct launch_failed failed = {0};
	const char *text = reply->payload + sizeof failed;
	size_t length = reply->header.length;
	if (length <= sizeof failed || reply->payload[length - 1])
		return lost_error(launcher, err);
	memcpy(&failed, reply->payload, sizeof failed);
	error_set(err, 0, "'%s': %s", launcher->name, text);
	err->code = failed.code;
	return -1;
}

/*
 * Send a request of parts, and wait for its answer; events that come first are kept. The payload of
 * the answer is good until the next call.
 */
static int request(struct launcher *launcher, uint32_t type, const struct iovec *parts,
	size_t count, struct reply *reply, struct error *err)
{
	if (launcher->lost)
		return lost_error(launcher, err);
	struct launch_header header = {LAUNCH_VERSION, type, ++launcher->last_id, 0};
	struct iovec all[4] = {{&header, sizeof header}};
	size_t length = 0;
	for (size_t i = 0; i < count; i++) {
		all[i + 1] = parts[i];
		length += parts[i].iov_len;
	}
	if (length > LAUNCH_MESSAGE_MAX - sizeof header)
		return error_set(err, E2BIG, "'%s': the request is too long", launcher->name);
	header.length = (uint32_t)length;
	struct msghdr out = {.msg_iov = all, .msg_iovlen = count + 1};
	int64_t deadline_ns = now_ns() + REQUEST_TIMEOUT_NS;
	bool sent = false;
	while (now_ns() < deadline_ns) {
		struct pollfd poll_fd = {
			launcher->source.fd, (short)(POLLIN | (sent ? 0 : POLLOUT)), 0};
		if (poll(&poll_fd, 1, 1000) < 0 && errno != EINTR)
			break;
		if (!sent && poll_fd.revents & POLLOUT) {
			ssize_t put =
				sendmsg(launcher->source.fd, &out, MSG_NOSIGNAL | MSG_DONTWAIT);
			if (put < 0 && errno != EAGAIN && errno != EINTR)
				break;
			sent = put >= 0;
		}
		if (!(poll_fd.revents & (POLLIN | POLLHUP | POLLERR)))
			continue;
		int result = receive(launcher, reply);
		if (result > 0)
			continue;
		if (result < 0)
			break;
		if (reply->header.id == header.id && reply->header.type == LAUNCH_OK)
			return 0;
		if (reply->header.id == header.id && reply->header.type == LAUNCH_FAILED) {
			close_fds(reply);
			return refused(launcher, reply, err);
		}
		bool good = on_event(launcher, reply);
		close_fds(reply);
		if (!good)
			break;
	}
	lose(launcher);
	return lost_error(launcher, err);
}

/* For answers that must have this many bytes and descriptors. */
static int exact_request(struct launcher *launcher, uint32_t type, const struct iovec *parts,
	size_t count, struct reply *reply, size_t length, int fd_count, struct error *err)
{
	if (request(launcher, type, parts, count, reply, err))
		return -1;
	if (reply->header.length == length && reply->fd_count == fd_count)
		return 0;
	close_fds(reply);
	lose(launcher);
	return lost_error(launcher, err);
}

static int add_texts(struct buf *buf, const char *const texts[], uint32_t *count)
{
	for (*count = 0; texts[*count]; ++*count)
		if (*count >= LAUNCH_TEXTS_MAX ||
			buf_add(buf, texts[*count], strlen(texts[*count]) + 1))
			return -1;
	return 0;
}

int launcher_spawn(struct launcher *launcher, const char *const argv[], const char *const envp[],
	pid_t *pid, int fds[LAUNCH_FDS], struct error *err)
{
	auto_buf struct buf texts;
	buf_init(&texts, LAUNCH_MESSAGE_MAX);
	struct launch_spawn spawn;
	if (add_texts(&texts, argv, &spawn.argc) || add_texts(&texts, envp, &spawn.envc))
		return error_set(err, E2BIG,
			"'%s': command and environment are longer than %d bytes together",
			launcher->name, LAUNCH_MESSAGE_MAX);
	struct iovec parts[] = {{&spawn, sizeof spawn}, {texts.data, texts.length}};
	struct launch_spawned spawned;
	struct reply reply;
	launcher->has_exited = false;
	launcher->spawn_id = launcher->last_id + 1;
	if (exact_request(
		    launcher, LAUNCH_SPAWN, parts, 2, &reply, sizeof spawned, LAUNCH_FDS, err))
		return -1;
	memcpy(&spawned, reply.payload, sizeof spawned);
	memcpy(fds, reply.fds, sizeof reply.fds);
	*pid = spawned.pid;
	return 0;
}

int launcher_kill(struct launcher *launcher, struct error *err)
{
	struct reply reply;
	return exact_request(launcher, LAUNCH_KILL, NULL, 0, &reply, 0, 0, err);
}

int launcher_clean(struct launcher *launcher, struct error *err)
{
	struct reply reply;
	return exact_request(launcher, LAUNCH_CLEAN, NULL, 0, &reply, 0, 0, err);
}

int launcher_probe(struct launcher *launcher, struct launch_probe *probe, struct error *err)
{
	struct reply reply;
	if (exact_request(launcher, LAUNCH_PROBE, NULL, 0, &reply, sizeof *probe, 0, err))
		return -1;
	memcpy(probe, reply.payload, sizeof *probe);
	return 0;
}

int launcher_write_file(struct launcher *launcher, const char *name, const void *bytes,
	size_t length, struct error *err)
{
	const size_t piece = LAUNCH_MESSAGE_MAX / 2;
	size_t done = 0;
	do {
		struct launch_write put = {(int64_t)done};
		size_t now = length - done < piece ? length - done : piece;
		struct iovec parts[] = {{&put, sizeof put}, {(void *)name, strlen(name) + 1},
			{(char *)bytes + done, now}};
		struct reply reply;
		if (exact_request(launcher, LAUNCH_WRITE, parts, 3, &reply, 0, 0, err))
			return -1;
		done += now;
	} while (done < length);
	return 0;
}

int launcher_open(struct launcher *launcher, const char *path, struct error *err)
{
	struct iovec part = {(void *)path, strlen(path) + 1};
	struct reply reply;
	if (exact_request(launcher, LAUNCH_OPEN, &part, 1, &reply, 0, 1, err))
		return -1;
	return reply.fds[0];
}

int pidfd_pid(int pidfd, pid_t *pid, struct error *err)
{
	char path[64], line[128];
	snprintf(path, sizeof path, "/proc/self/fdinfo/%d", pidfd);
	auto_fclose FILE *file = fopen(path, "re");
	if (!file)
		return error_set(err, errno, "cannot open '%s'", path);
	while (fgets(line, sizeof line, file)) {
		if (strncmp(line, "Pid:", 4))
			continue;
		long value = strtol(line + 4, NULL, 10);
		if (value <= 0)
			return error_set(err, ESRCH,
				"the process is not in this pid namespace: the collector's "
				"container needs 'pid: host'");
		*pid = (pid_t)value;
		return 0;
	}
	return error_set(err, 0, "'%s' tells no pid", path);
}
