/* The launcher's parts: the child that waits for GO, the tree of processes, the scratch folder. */
#include "collector/launcher/child.h"
#include "collector/launcher/scratch.h"
#include "collector/launcher/tree.h"
#include "common/clock.h"
#include "common/error.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];
static int folder_fd;
static struct child child;

static int set_up(void **state)
{
	(void)state;
	struct error err;
	snprintf(folder, sizeof folder, "/tmp/test-launcher-XXXXXX");
	if (!mkdtemp(folder) || prctl(PR_SET_CHILD_SUBREAPER, 1))
		return -1;
	folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return folder_fd < 0 ? -1 : child_init(&child, &err);
}

static int tear_down(void **state)
{
	(void)state;
	struct error err;
	int result = scratch_clean(folder_fd, &err);
	close(folder_fd);
	return result || rmdir(folder) ? -1 : 0;
}

/* ---- the child */

static void spawn(const char *const argv[], int fds[LAUNCH_FDS])
{
	static const char *const envp[] = {"GREETING=hello", NULL};
	struct error err;
	sigset_t none;
	sigemptyset(&none);
	if (child_spawn(
		    &child, (char *const *)argv, (char *const *)envp, folder_fd, &none, fds, &err))
		fail_msg("%s", err.text);
}

static void close_all(int fds[LAUNCH_FDS])
{
	for (int i = 0; i < LAUNCH_FDS; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

static void go(int fds[LAUNCH_FDS])
{
	assert_int_equal(write(fds[LAUNCH_FD_GO], "", 1), 1);
}

static size_t read_all(int fd, char *text, size_t size)
{
	size_t length = 0;
	ssize_t got;
	while (length < size && (got = read(fd, text + length, size - length)) > 0)
		length += (size_t)got;
	return length;
}

static int wait_status(void)
{
	int status;
	assert_int_equal(waitpid(child.pid, &status, 0), child.pid);
	child.pid = 0;
	return status;
}

static void a_child_waits_for_go(void **state)
{
	(void)state;
	int fds[LAUNCH_FDS];
	char text[256];
	spawn((const char *const[]){"/bin/sh", "-c",
		      "pwd; echo $GREETING; cat /proc/self/oom_score_adj; echo oops >&2; "
		      "read line; echo $line; exit 3",
		      NULL},
		fds);
	/* nothing happens before GO */
	struct pollfd quiet = {fds[LAUNCH_FD_STATUS], POLLIN, 0};
	assert_int_equal(poll(&quiet, 1, 50), 0);
	assert_int_equal(*child.spawn_ns, 0);
	int64_t before_ns = now_ns();
	go(fds);
	int32_t code;
	assert_int_equal(read(fds[LAUNCH_FD_STATUS], &code, sizeof code), 0);
	assert_true(*child.spawn_ns >= before_ns && *child.spawn_ns <= now_ns());
	assert_int_equal(write(fds[LAUNCH_FD_STDIN], "end\n", 4), 4);
	size_t length = read_all(fds[LAUNCH_FD_STDOUT], text, sizeof text - 1);
	text[length] = '\0';
	char expected[256];
	snprintf(expected, sizeof expected, "%s\nhello\n1000\nend\n", folder);
	assert_string_equal(text, expected);
	length = read_all(fds[LAUNCH_FD_STDERR], text, sizeof text - 1);
	assert_int_equal(length, 5);
	int status = wait_status();
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 3);
	struct pollfd pidfd = {fds[LAUNCH_FD_PID], POLLIN, 0};
	assert_int_equal(poll(&pidfd, 1, 1000), 1);
	close_all(fds);
}

static void a_go_that_never_comes_ends_the_child(void **state)
{
	(void)state;
	int fds[LAUNCH_FDS];
	spawn((const char *const[]){"/bin/true", NULL}, fds);
	close(fds[LAUNCH_FD_GO]);
	fds[LAUNCH_FD_GO] = -1;
	int status = wait_status();
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 125);
	assert_int_equal(*child.spawn_ns, 0);
	close_all(fds);
}

static void a_failed_exec_tells_why(void **state)
{
	(void)state;
	static const struct {
		const char *program;
		int code;
	} rows[] = {{"/nonexistent/program", ENOENT}, {"/etc/passwd", EACCES}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		int fds[LAUNCH_FDS];
		spawn((const char *const[]){rows[i].program, NULL}, fds);
		go(fds);
		int32_t code = 0;
		assert_int_equal(read(fds[LAUNCH_FD_STATUS], &code, sizeof code), sizeof code);
		assert_int_equal(code, rows[i].code);
		assert_true(WIFEXITED(wait_status()));
		assert_int_equal(*child.spawn_ns, 0);
		close_all(fds);
	}
}

/* ---- the tree */

static void reap(void *context)
{
	(void)context;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		continue;
}

static void the_tree_is_probed_and_killed(void **state)
{
	(void)state;
	int fds[LAUNCH_FDS];
	struct error err;
	struct launch_probe probe;
	char byte;
	/* a shell and its child, and a daemon that went away from both */
	spawn((const char *const[]){"/bin/sh", "-c",
		      "(setsid sh -c 'sleep 300 & echo x' &); sleep 300 & wait", NULL},
		fds);
	go(fds);
	assert_int_equal(read(fds[LAUNCH_FD_STDOUT], &byte, 1), 1);
	/* the daemon's parent may be on its way out */
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(tree_probe(child.pid, &probe, &err), 0);
		if (probe.processes == 2)
			break;
		usleep(1000);
	}
	assert_int_equal(probe.processes, 2);
	assert_true(probe.rss_peak_bytes > 100000 && probe.rss_peak_bytes < 100 << 20);
	assert_true(probe.pss_bytes == -1 || probe.pss_bytes > 10000);
	assert_int_equal(tree_kill(reap, NULL, &err), 0);
	/* the daemon held this too */
	assert_int_equal(read_all(fds[LAUNCH_FD_STDOUT], &byte, 1), 1);
	assert_int_equal(read(fds[LAUNCH_FD_STDOUT], &byte, 1), 0);
	assert_int_equal(tree_probe(child.pid, &probe, &err), -1);
	assert_int_equal(err.code, ESRCH);
	child.pid = 0;
	close_all(fds);
}

/* ---- the scratch folder */

static bool is_empty(void)
{
	char command[128];
	snprintf(command, sizeof command, "test -z \"$(ls -A %s)\"", folder);
	return system(command) == 0;
}

static void the_scratch_folder_gets_empty(void **state)
{
	(void)state;
	static const char *const doings[] = {
		"true",
		"touch a 'b c' .hidden; mkdir -p d/e/f; touch d/e/f/g; mkfifo p",
		"mkdir -p locked/in; touch locked/in/x; chmod 000 locked/in locked",
		"ln -s /etc link; ln -s nowhere broken; mkdir k; ln -s .. k/up",
		"mkdir -p .clean-0/.clean-1 .clean-1; touch .clean-0/.clean-2",
		"i=0; while [ $i -lt 300 ]; do mkdir deep && cd deep; i=$((i + 1)); done; touch x",
	};
	for (size_t i = 0; i < sizeof doings / sizeof *doings; i++) {
		char command[512];
		struct error err;
		snprintf(command, sizeof command, "cd %s && { %s; }", folder, doings[i]);
		assert_int_equal(system(command), 0);
		if (scratch_clean(folder_fd, &err))
			fail_msg("%s: %s", doings[i], err.text);
		assert_true(is_empty());
	}
	assert_int_equal(access("/etc/passwd", F_OK), 0);
}

static void files_are_written_in_pieces(void **state)
{
	(void)state;
	struct error err;
	char text[16] = "";
	assert_int_equal(scratch_write(folder_fd, "f", 0, "old and longer", 14, &err), 0);
	assert_int_equal(scratch_write(folder_fd, "f", 0, "one", 3, &err), 0);
	assert_int_equal(scratch_write(folder_fd, "f", 3, "two", 3, &err), 0);
	int fd = openat(folder_fd, "f", O_RDONLY);
	assert_int_equal(read_all(fd, text, sizeof text), 6);
	close(fd);
	assert_string_equal(text, "onetwo");
	assert_int_equal(symlinkat("/tmp/elsewhere", folder_fd, "link"), 0);
	static const struct {
		const char *name;
		int64_t offset;
	} rows[] = {{"", 0}, {".", 0}, {"..", 0}, {"../x", 0}, {"/x", 0}, {"a/b", 0}, {"link", 0},
		{"f", -1}, {"f", INT64_MAX}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		assert_int_equal(
			scratch_write(folder_fd, rows[i].name, rows[i].offset, "x", 1, &err), -1);
	assert_int_equal(access("/tmp/elsewhere", F_OK), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_child_waits_for_go),
		cmocka_unit_test(a_go_that_never_comes_ends_the_child),
		cmocka_unit_test(a_failed_exec_tells_why),
		cmocka_unit_test(the_tree_is_probed_and_killed),
		cmocka_unit_test(the_scratch_folder_gets_empty),
		cmocka_unit_test(files_are_written_in_pieces),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
