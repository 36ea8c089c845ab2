#include "collector/contender.h"

#include "collector/cgroup.h"
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
#include <string.h>

enum { OUTPUT_MAX = 4096 };
static const int64_t ANSWER_TIMEOUT_NS = 20 * NS_PER_S;

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

/* What is asked of a contender outside of its runs. */
struct question {
	struct loop *loop;
	struct launcher *launcher;
	const char **command;
	const json_t *environment;
	const struct cgroup *leaf; /* that it is put into; NULL: it stays where the launcher is */
	const char *what;          /* that it does not tell */
};

static int let_go(const struct question *question, const int fds[LAUNCH_FDS], struct error *err)
{
	pid_t pid;
	if (question->leaf && (pidfd_pid(fds[LAUNCH_FD_PID], &pid, err) ||
				      cgroup_attach(question->leaf, pid, err)))
		return -1;
	if (write(fds[LAUNCH_FD_GO], "", 1) != 1)
		return error_set(err, errno, "cannot start it");
	return 0;
}

/* Its output, the first OUTPUT_MAX bytes of it, in `text`. */
static int ask(const struct question *question, struct buf *text, struct error *err)
{
	int fds[LAUNCH_FDS] = {-1, -1, -1, -1, -1, -1};
	if (contender_spawn(question->launcher, question->command, question->environment, fds, err))
		return -1;
	int64_t deadline_ns = now_ns() + ANSWER_TIMEOUT_NS;
	close(steal_fd(&fds[LAUNCH_FD_STDIN]));
	int result = let_go(question, fds, err);
	bool whole = !result && !output_read_start(fds[LAUNCH_FD_STDOUT], text, deadline_ns);
	int32_t code = 0;
	bool refused = read(fds[LAUNCH_FD_STATUS], &code, sizeof code) == sizeof code;
	contender_close(fds);
	struct error ignored;
	launcher_kill(question->launcher, &ignored);
	struct launch_exited exited;
	while (!launcher_exited(question->launcher, &exited) &&
		!launcher_lost(question->launcher) && now_ns() < deadline_ns)
		if (loop_once(question->loop, 100 * NS_PER_MS, err))
			return -1;
	if (result || (whole && !refused && text->length))
		return result;
	return error_set(err, refused ? code : 0, "'%s' does not tell %s", question->command[0],
		question->what);
}

char *contender_version(struct loop *loop, struct launcher *launcher,
	const struct manifest *manifest, struct error *err)
{
	json_auto_t *environment = contender_environment(launcher, manifest, "shipped");
	struct question question = {
		loop, launcher, manifest->version, environment, NULL, "its version"};
	auto_buf struct buf text;
	buf_init(&text, OUTPUT_MAX);
	return ask(&question, &text, err) ? NULL : first_line(&text);
}

json_t *contender_beliefs(struct loop *loop, struct launcher *launcher,
	const struct manifest *manifest, const char *track, const struct cgroup *leaf,
	struct error *err)
{
	json_auto_t *environment = contender_environment(launcher, manifest, track);
	struct question question = {
		loop, launcher, manifest->beliefs, environment, leaf, "what it believes"};
	auto_buf struct buf text;
	buf_init(&text, OUTPUT_MAX);
	if (ask(&question, &text, err))
		return NULL;
	json_t *beliefs = json_loadb(text.data, text.length, JSON_REJECT_DUPLICATES, NULL);
	if (json_is_object(beliefs))
		return beliefs;
	json_decref(beliefs);
	if (text.length == OUTPUT_MAX)
		error_set(err, 0, "'%s' prints %d bytes or more, and no JSON object in fewer",
			manifest->beliefs[0], OUTPUT_MAX);
	else
		error_set(err, 0, "'%s' prints no JSON object", manifest->beliefs[0]);
	return NULL;
}
