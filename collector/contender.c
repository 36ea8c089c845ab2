#include "collector/contender.h"

#include "collector/launch.h"
#include "collector/manifest.h"
#include "collector/output.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/json.h"
#include "common/loop.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>

static const int64_t VERSION_TIMEOUT_NS = 20 * NS_PER_S;

void contender_set(json_t *all, const char *name, const char *value)
{
	json_object_set_new(all, name, json_text(value, LAUNCH_MESSAGE_MAX));
}

json_t *contender_environment(
	const struct launcher *launcher, const struct manifest *manifest, const char *track)
{
	json_t *all = json_object();
	contender_set(all, "PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
	contender_set(all, "HOME", launcher_scratch(launcher));
	contender_set(all, "TMPDIR", launcher_scratch(launcher));
	contender_set(all, "LANG", "C.UTF-8");
	json_auto_t *own = manifest_environment(manifest, track);
	const char *name;
	json_t *value;
	json_object_foreach(own, name, value)
	{
		auto_free char *text = manifest_expand(json_string_value(value),
			launcher_prefix(launcher), launcher_here(launcher));
		contender_set(all, name, text);
	}
	return all;
}

/* "NAME=VALUE" texts, NULL-ended; texts_free. */
static char **environment_texts(const json_t *all)
{
	char **texts = xcalloc(json_object_size(all) + 1, sizeof *texts);
	size_t count = 0;
	const char *name;
	json_t *value;
	json_object_foreach((json_t *)all, name, value) texts[count++] =
		xasprintf("%s=%s", name, json_string_value(value));
	return texts;
}

static int make_nonblocking(const int fds[LAUNCH_FDS], struct error *err)
{
	static const enum launch_fd readable[] = {
		LAUNCH_FD_STATUS, LAUNCH_FD_STDOUT, LAUNCH_FD_STDERR};
	for (size_t i = 0; i < sizeof readable / sizeof *readable; i++)
		if (fcntl(fds[readable[i]], F_SETFL, O_RDONLY | O_NONBLOCK))
			return error_set(err, errno, "cannot read from the contender");
	return 0;
}

void contender_close(int fds[LAUNCH_FDS])
{
	for (int i = 0; i < LAUNCH_FDS; i++)
		if (fds[i] >= 0)
			close(steal_fd(&fds[i]));
}

int contender_spawn(struct launcher *launcher, const char **command, const json_t *environment,
	int fds[LAUNCH_FDS], struct error *err)
{
	char **argv =
		manifest_expand_all(command, launcher_prefix(launcher), launcher_here(launcher));
	char **envp = environment_texts(environment);
	pid_t pid;
	int result = launcher_spawn(
		launcher, (const char *const *)argv, (const char *const *)envp, &pid, fds, err);
	texts_free(argv);
	texts_free(envp);
	if (!result && make_nonblocking(fds, err)) {
		contender_close(fds);
		return -1;
	}
	return result;
}

/* Read to the end of the file, or until the time is up. */
static int read_output(int fd, struct buf *text, int64_t deadline_ns)
{
	for (;;) {
		char bytes[4096];
		int64_t left_ns = deadline_ns - now_ns();
		struct pollfd ready = {fd, POLLIN, 0};
		if (left_ns <= 0 || poll(&ready, 1, (int)(left_ns / NS_PER_MS) + 1) < 0)
			return -1;
		ssize_t got;
		switch (output_read_some(fd, bytes, sizeof bytes, &got)) {
		case DRAINED_END:
			return 0;
		case DRAINED_MORE:
			/* The first line is enough; what is too long is dropped. */
			if (got > 0)
				buf_add(text, bytes, (size_t)got);
			break;
		case DRAINED_EMPTY:
			break;
		}
	}
}

static char *first_line(const struct buf *text)
{
	auto_free char *line = xasprintf("%.*s", (int)strcspn(text->data, "\n"), text->data);
	json_auto_t *printable = json_text(line, 200);
	char *copy = xstrdup(json_string_value(printable));
	for (char *c = copy; *c; c++)
		if (iscntrl((unsigned char)*c))
			*c = '?';
	return copy;
}

char *contender_version(struct loop *loop, struct launcher *launcher,
	const struct manifest *manifest, struct error *err)
{
	int fds[LAUNCH_FDS] = {-1, -1, -1, -1, -1, -1};
	json_auto_t *environment = contender_environment(launcher, manifest, "shipped");
	if (contender_spawn(launcher, manifest->version, environment, fds, err))
		return NULL;
	auto_buf struct buf text;
	buf_init(&text, 4096);
	int64_t deadline_ns = now_ns() + VERSION_TIMEOUT_NS;
	close(steal_fd(&fds[LAUNCH_FD_STDIN]));
	bool whole = write(fds[LAUNCH_FD_GO], "", 1) == 1 &&
		     !read_output(fds[LAUNCH_FD_STDOUT], &text, deadline_ns);
	int32_t code = 0;
	bool refused = read(fds[LAUNCH_FD_STATUS], &code, sizeof code) == sizeof code;
	contender_close(fds);
	struct error ignored;
	launcher_kill(launcher, &ignored);
	struct launch_exited exited;
	while (!launcher_exited(launcher, &exited) && !launcher_lost(launcher) &&
		now_ns() < deadline_ns)
		if (loop_once(loop, 100 * NS_PER_MS, err))
			return NULL;
	if (whole && !refused && text.length)
		return first_line(&text);
	error_set(err, refused ? code : 0, "'%s' does not tell its version", manifest->version[0]);
	return NULL;
}
