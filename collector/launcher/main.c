/*
 * launcher: the collector's remote hand inside a contender's container, where it is PID 1 (or a
 * child of the collector in local mode). It forks what it is told to, hands every descriptor of
 * the child over, and sleeps until the child ends: the collector reads on CPUs of its own.
 */
#include "collector/launch_proto.h"
#include "collector/launcher/child.h"
#include "collector/launcher/scratch.h"
#include "collector/launcher/tree.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/descriptors.h"
#include "common/error.h"
#include "common/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

static const int64_t RECONNECT_MIN_NS = 50 * NS_PER_MS;
static const int64_t RECONNECT_MAX_NS = 2 * NS_PER_S;

struct launcher {
	const char *socket_path, *name, *here, *scratch;
	char prefix[4096];
	bool once;

	struct loop *loop;
	struct source collector, signals;
	struct timer reconnect;
	int64_t backoff_ns;
	int scratch_fd;
	sigset_t inherited_mask;
	struct child child;
	int signal_number; /* asked to end by this */
	bool failed;       /* with --once: could not connect, or lost the collector */
	struct error error;
};

static _Alignas(struct launch_header) char message[LAUNCH_MESSAGE_MAX];

static void connect_later(struct launcher *launcher);

/* ---- sending */

static bool send_message(struct launcher *launcher, uint32_t type, uint32_t id, const void *fixed,
	size_t fixed_length, const char *text, size_t text_length, const int *fds, size_t fd_count)
{
	struct launch_header header = {
		LAUNCH_VERSION, type, id, (uint32_t)(fixed_length + text_length)};
	struct iovec parts[] = {{&header, sizeof header}, {(void *)fixed, fixed_length},
		{(void *)text, text_length}};
	struct msghdr out = {.msg_iov = parts, .msg_iovlen = 3};
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(LAUNCH_FDS * sizeof(int))] = {0};
	if (fd_count) {
		out.msg_control = control;
		out.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
		struct cmsghdr *rights = CMSG_FIRSTHDR(&out);
		rights->cmsg_level = SOL_SOCKET;
		rights->cmsg_type = SCM_RIGHTS;
		rights->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
		memcpy(CMSG_DATA(rights), fds, fd_count * sizeof(int));
	}
	return sendmsg(launcher->collector.fd, &out, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}

static bool answer(struct launcher *launcher, uint32_t id, const void *fixed, size_t length,
	const int *fds, size_t fd_count)
{
	return send_message(launcher, LAUNCH_OK, id, fixed, length, NULL, 0, fds, fd_count);
}

static bool refuse(struct launcher *launcher, uint32_t id, const struct error *err)
{
	struct launch_failed failed = {err->code ? err->code : EPROTO};
	return send_message(launcher, LAUNCH_FAILED, id, &failed, sizeof failed, err->text,
		strlen(err->text) + 1, NULL, 0);
}

/* ---- processes */

/* As PID 1 or subreaper, orphans come here too; only the spawned process is told. */
static void reap(void *context)
{
	struct launcher *launcher = context;
	int status;
	pid_t pid;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid != launcher->child.pid)
			continue;
		struct launch_exited exited = {
			.spawn_ns = *launcher->child.spawn_ns, .status = status};
		launcher->child.pid = 0;
		/* A failed send is a lost collector: the socket's own event says so next. */
		if (launcher->collector.fd >= 0)
			send_message(launcher, LAUNCH_EXITED, launcher->child.id, &exited,
				sizeof exited, NULL, 0, NULL, 0);
	}
}

/*
 * Hang up first: what is killed now is not to be told as the contender's own end. The collector
 * sees a launcher that it lost.
 */
static void abandon_run(struct launcher *launcher)
{
	int fd = launcher->collector.fd;
	if (fd >= 0) {
		loop_remove(launcher->loop, &launcher->collector);
		close(fd);
	}
	struct error ignored; /* nobody is left to hear of it; the next run meets it again */
	tree_kill(reap, launcher, &ignored);
	scratch_clean(launcher->scratch_fd, &ignored);
}

static void drop_collector(struct launcher *launcher)
{
	abandon_run(launcher);
	if (launcher->once)
		loop_stop(launcher->loop);
	else
		connect_later(launcher);
}

/* ---- requests */

/* The next NUL-ended text of the payload, or NULL. */
static const char *take_text(const char **at, const char *end)
{
	const char *text = *at;
	const char *nul = memchr(text, '\0', (size_t)(end - text));
	if (!nul)
		return NULL;
	*at = nul + 1;
	return text;
}

static bool take_fixed(const char **at, const char *end, void *out, size_t size)
{
	if ((size_t)(end - *at) < size)
		return false;
	memcpy(out, *at, size);
	*at += size;
	return true;
}

static int bad_payload(struct error *err)
{
	return error_set(err, EPROTO, "malformed request");
}

static int on_spawn(
	struct launcher *launcher, uint32_t id, const char *at, const char *end, struct error *err)
{
	struct launch_spawn spawn;
	static const char *texts[LAUNCH_TEXTS_MAX + 2];
	size_t count = 0;
	if (!take_fixed(&at, end, &spawn, sizeof spawn) || !spawn.argc ||
		spawn.argc > LAUNCH_TEXTS_MAX || spawn.envc > LAUNCH_TEXTS_MAX - spawn.argc)
		return bad_payload(err);
	for (uint32_t i = 0; i < spawn.argc + spawn.envc; i++) {
		if (!(texts[count++] = take_text(&at, end)))
			return bad_payload(err);
		if (i == spawn.argc - 1)
			texts[count++] = NULL;
	}
	texts[count] = NULL;
	if (at != end)
		return bad_payload(err);
	if (launcher->child.pid)
		return error_set(err, EBUSY, "a process runs already");
	int fds[LAUNCH_FDS];
	if (child_spawn(&launcher->child, (char **)texts, (char **)texts + spawn.argc + 1,
		    launcher->scratch_fd, &launcher->inherited_mask, fds, err))
		return -1;
	launcher->child.id = id;
	struct launch_spawned spawned = {launcher->child.pid};
	bool sent = answer(launcher, id, &spawned, sizeof spawned, fds, LAUNCH_FDS);
	for (int i = 0; i < LAUNCH_FDS; i++)
		close(fds[i]);
	return sent ? 0 : 1;
}

static int on_open(
	struct launcher *launcher, uint32_t id, const char *at, const char *end, struct error *err)
{
	const char *path = take_text(&at, end);
	if (!path || at != end || *path != '/')
		return bad_payload(err);
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat status;
	if (fd < 0 || fstat(fd, &status))
		return error_set(err, errno, "cannot open '%s'", path);
	if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
		return error_set(err, EINVAL, "'%s' is neither a file nor a folder", path);
	return answer(launcher, id, NULL, 0, &fd, 1) ? 0 : 1;
}

static int on_write(struct launcher *launcher, const char *at, const char *end, struct error *err)
{
	struct launch_write put;
	const char *name;
	if (!take_fixed(&at, end, &put, sizeof put) || !(name = take_text(&at, end)))
		return bad_payload(err);
	return scratch_write(launcher->scratch_fd, name, put.offset, at, (size_t)(end - at), err);
}

static int on_probe(struct launcher *launcher, uint32_t id, struct error *err)
{
	struct launch_probe probe;
	if (!launcher->child.pid)
		return error_set(err, ESRCH, "no process runs");
	if (tree_probe(launcher->child.pid, &probe, err))
		return -1;
	return answer(launcher, id, &probe, sizeof probe, NULL, 0) ? 0 : 1;
}

/* One request. False: the connection is of no more use. */
static bool on_request(struct launcher *launcher, const struct launch_header *header,
	const char *at, const char *end)
{
	struct error err;
	int result;
	switch (header->type) {
	case LAUNCH_SPAWN:
		result = on_spawn(launcher, header->id, at, end, &err);
		break;
	case LAUNCH_OPEN:
		result = on_open(launcher, header->id, at, end, &err);
		break;
	case LAUNCH_PROBE:
		result = on_probe(launcher, header->id, &err);
		break;
	case LAUNCH_KILL:
		result = tree_kill(reap, launcher, &err);
		break;
	case LAUNCH_CLEAN:
		result = scratch_clean(launcher->scratch_fd, &err);
		break;
	case LAUNCH_WRITE:
		result = on_write(launcher, at, end, &err);
		break;
	default:
		result = error_set(&err, EPROTO, "unknown request %u", header->type);
	}
	if (result < 0)
		return refuse(launcher, header->id, &err);
	bool answered = header->type == LAUNCH_SPAWN || header->type == LAUNCH_OPEN ||
			header->type == LAUNCH_PROBE;
	if (answered)
		return !result;
	return answer(launcher, header->id, NULL, 0, NULL, 0);
}

static void collector_ready(struct source *source, uint32_t events)
{
	struct launcher *launcher = container_of(source, struct launcher, collector);
	(void)events;
	/* Descriptors nobody asked for are refused by the kernel: there is no room for them. */
	ssize_t got = recv(source->fd, message, sizeof message, MSG_DONTWAIT | MSG_TRUNC);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	struct launch_header header;
	bool good = got >= (ssize_t)sizeof header && got <= (ssize_t)sizeof message;
	if (good) {
		memcpy(&header, message, sizeof header);
		good = header.version == LAUNCH_VERSION &&
		       header.length == (size_t)got - sizeof header;
	}
	if (!good || !on_request(launcher, &header, message + sizeof header, message + got)) {
		error_set(&launcher->error, 0, "lost the collector");
		drop_collector(launcher);
	}
}

/* ---- connection */

static int connect_collector(struct launcher *launcher, struct error *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	memcpy(address.sun_path, launcher->socket_path, strlen(launcher->socket_path));
	auto_close int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return error_set(err, errno, "cannot make a socket");
	if (connect(fd, (struct sockaddr *)&address, sizeof address))
		return error_set(err, errno, "cannot connect to '%s'", launcher->socket_path);
	if (loop_add(launcher->loop, &launcher->collector, fd, EPOLLIN, err))
		return -1;
	steal_fd(&fd);

	struct launch_hello hello = {(int32_t)getpid()};
	const char *const texts[] = {
		launcher->name, launcher->prefix, launcher->here, launcher->scratch};
	char all[4 * 4096];
	size_t length = 0;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		size_t size = strlen(texts[i]) + 1; /* main has checked: below 4096 */
		memcpy(all + length, texts[i], size);
		length += size;
	}
	if (!send_message(launcher, LAUNCH_HELLO, 0, &hello, sizeof hello, all, length, NULL, 0)) {
		int code = errno;
		fd = launcher->collector.fd;
		loop_remove(launcher->loop, &launcher->collector);
		return error_set(err, code, "cannot talk to '%s'", launcher->socket_path);
	}
	return 0;
}

static void connect_later(struct launcher *launcher)
{
	loop_timer_set(launcher->loop, &launcher->reconnect, now_ns() + launcher->backoff_ns);
	launcher->backoff_ns *= 2;
	if (launcher->backoff_ns > RECONNECT_MAX_NS)
		launcher->backoff_ns = RECONNECT_MAX_NS;
}

static void reconnect_due(struct timer *timer)
{
	struct launcher *launcher = container_of(timer, struct launcher, reconnect);
	if (!connect_collector(launcher, &launcher->error)) {
		launcher->backoff_ns = RECONNECT_MIN_NS;
	} else if (launcher->once) {
		launcher->failed = true;
		loop_stop(launcher->loop);
	} else {
		connect_later(launcher);
	}
}

static void signals_ready(struct source *source, uint32_t events)
{
	struct launcher *launcher = container_of(source, struct launcher, signals);
	(void)events;
	struct signalfd_siginfo info;
	while (read(source->fd, &info, sizeof info) == sizeof info) {
		if (info.ssi_signo == SIGCHLD)
			continue;
		launcher->signal_number = (int)info.ssi_signo;
		loop_stop(launcher->loop);
	}
	reap(launcher);
}

/* ---- start */

/* PREFIX of PREFIX/bin/launcher. */
static int find_prefix(char *prefix, size_t size, struct error *err)
{
	ssize_t length = readlink("/proc/self/exe", prefix, size - 1);
	if (length < 0)
		return error_set(err, errno, "cannot read '/proc/self/exe'");
	prefix[length] = '\0';
	for (int i = 0; i < 2; i++) {
		char *slash = strrchr(prefix, '/');
		if (slash)
			*slash = '\0';
	}
	return 0;
}

static int open_scratch(struct launcher *launcher, const char *path, struct error *err)
{
	launcher->scratch = path;
	launcher->scratch_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (launcher->scratch_fd < 0)
		return error_set(err, errno, "cannot open the scratch folder '%s'", path);
	return 0;
}

static int watch_signals(struct launcher *launcher, struct error *err)
{
	sigset_t mask;
	sigemptyset(&mask);
	sigaddset(&mask, SIGCHLD);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGHUP);
	sigprocmask(SIG_BLOCK, &mask, &launcher->inherited_mask);
	/* The contender starts with none of these blocked, whatever we were started with. */
	sigemptyset(&launcher->inherited_mask);
	int fd = signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
	if (fd < 0)
		return error_set(err, errno, "cannot make a signalfd");
	return loop_add(launcher->loop, &launcher->signals, fd, EPOLLIN, err);
}

static int start(struct launcher *launcher, const char *scratch, struct error *err)
{
	launcher->loop = loop_new(err);
	if (!launcher->loop)
		return -1;
	if (getpid() != 1 && prctl(PR_SET_CHILD_SUBREAPER, 1))
		return error_set(err, errno, "cannot become the reaper of orphans");
	if (find_prefix(launcher->prefix, sizeof launcher->prefix, err) ||
		open_scratch(launcher, scratch, err) || child_init(&launcher->child, err) ||
		watch_signals(launcher, err))
		return -1;
	launcher->backoff_ns = RECONNECT_MIN_NS;
	loop_timer_set(launcher->loop, &launcher->reconnect, now_ns());
	return 0;
}

static void usage(FILE *out)
{
	fputs("usage: launcher --socket PATH --name CONTENDER --scratch DIR [--here DIR] [--once]\n"
	      "Run what the collector behind the socket asks for; normally PID 1 of a container.\n"
	      "  --socket PATH   the collector's Unix socket\n"
	      "  --name NAME     the contender of this container\n"
	      "  --scratch DIR   working folder of the contender, emptied between runs\n"
	      "  --here DIR      what {here} in the contender's manifest means (default: scratch)\n"
	      "  --once          end when the collector goes away, instead of reconnecting\n",
		out);
}

static int usage_error(const char *text)
{
	fprintf(stderr, "launcher: %s (launcher --help lists the options)\n", text);
	return 2;
}

/* As of a contender's name: it comes from the command line of a container. */
static bool is_name(const char *name)
{
	size_t length = strlen(name);
	return length && length < 64 &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == length;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"socket", required_argument, NULL, 's'},
		{"name", required_argument, NULL, 'n'}, {"scratch", required_argument, NULL, 'd'},
		{"here", required_argument, NULL, 'H'}, {"once", no_argument, NULL, 'o'},
		{"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, 'v'}, {0}};
	static struct launcher launcher = {.collector = {-1, collector_ready, 0, 0},
		.signals = {-1, signals_ready, 0, 0},
		.reconnect = {.expired = reconnect_due}};
	const char *socket_path = NULL, *name = NULL, *scratch = NULL, *here = NULL;
	int option;
	while ((option = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		switch (option) {
		case 's':
			socket_path = optarg;
			break;
		case 'n':
			name = optarg;
			break;
		case 'd':
			scratch = optarg;
			break;
		case 'H':
			here = optarg;
			break;
		case 'o':
			launcher.once = true;
			break;
		case 'h':
			usage(stdout);
			return 0;
		case 'v':
			puts("launcher " TURNMETER_VERSION);
			return 0;
		default:
			return 2;
		}
	}
	if (optind != argc)
		return usage_error("no argument is expected beside the options");
	if (!socket_path || !name || !scratch || !*socket_path || !*scratch)
		return usage_error("--socket, --name and --scratch must be given");
	if (!is_name(name))
		return usage_error("--name: must be 1 to 63 lower-case letters, digits and '-'");
	if (!here)
		here = scratch;
	if (strlen(socket_path) >= sizeof((struct sockaddr_un){0}).sun_path)
		return usage_error("--socket: must be shorter than 108 bytes");
	if (strlen(here) >= 4096 || strlen(scratch) >= 4096)
		return usage_error("--here and --scratch must be shorter than 4096 bytes");
	launcher.socket_path = socket_path;
	launcher.name = name;
	launcher.here = here;
	/* Pipes of the child must not land on 0, 1 or 2. */
	struct error err;
	if (descriptors_open_standard(&err) || start(&launcher, scratch, &err) ||
		loop_run(launcher.loop, &err)) {
		fprintf(stderr, "launcher: %s\n", err.text);
		return 1;
	}
	abandon_run(&launcher);
	if (launcher.failed) {
		fprintf(stderr, "launcher: %s\n", launcher.error.text);
		return 1;
	}
	return launcher.signal_number ? 128 + launcher.signal_number : 0;
}
