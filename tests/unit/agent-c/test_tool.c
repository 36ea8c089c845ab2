/* Tools as real processes, and the bytes of their messages. */
#include "agent/c/tool.h"

#include "common/clock.h"
#include "common/error.h"
#include "tests/unit/agent-c/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define FFFD "\xef\xbf\xbd"

enum { OUTPUT_MAX = 64, TOOLS_MAX = 32 };

static struct loop *loop;
static struct store store;
static struct tools tools;
static struct rlimit files;

static void set_up_with(size_t output_max, int64_t timeout_ms)
{
	struct error err;
	getrlimit(RLIMIT_NOFILE, &files);
	loop = loop_new(&err);
	assert_non_null(loop);
	assert_int_equal(
		tools_init(&tools, loop, &store, output_max, timeout_ms * NS_PER_MS, &files, &err),
		0);
}

static void tear_down(void)
{
	tools_release(&tools);
	loop_free(loop);
	store_release(&store);
}

struct outcome {
	struct tool tool;
	int64_t began_ns, took_ms;
	bool ended;
	char *message;
};

static int still_running;

static void tool_ended(struct tool *tool)
{
	struct outcome *outcome = container_of(tool, struct outcome, tool);
	struct chain text;
	outcome->took_ms = (now_ns() - outcome->began_ns) / NS_PER_MS;
	outcome->ended = true;
	still_running--;
	chain_init(&text, &store);
	chain_append(&text, "<", 1); /* the message begins within other text */
	tool_message(tool, &text);
	outcome->message = xcalloc(text.length + 1, 1);
	chain_read(&text, 1, outcome->message, text.length - 1);
	chain_cut(&text, 0);
	tool_release(tool);
}

/* The argument vector in one piece of memory, as command_of makes it. */
static char **copy_argv(const char *const *argv)
{
	size_t count = 0;
	while (argv[count])
		count++;
	char **copy = xcalloc(count + 1 + 8192 / sizeof *copy, sizeof *copy);
	char *to = (char *)(copy + count + 1);
	for (size_t i = 0; i < count; i++) {
		copy[i] = to;
		to = stpcpy(to, argv[i]) + 1;
	}
	return copy;
}

static void start(struct outcome *outcome, const char *const *argv)
{
	*outcome = (struct outcome){.began_ns = now_ns()};
	still_running++;
	tool_start(&tools, &outcome->tool, copy_argv(argv), tool_ended);
}

static void start_shell(struct outcome *outcome, const char *command)
{
	start(outcome, (const char *const[]){"/bin/sh", "-c", command, NULL});
}

static void wait_for_all(void)
{
	struct error err;
	int64_t deadline_ns = now_ns() + 30 * NS_PER_S;
	while (still_running) {
		bool more = tools_pump(&tools, 1);
		assert_int_equal(loop_once(loop, more ? 0 : NS_PER_S, &err), 0);
		assert_true(now_ns() < deadline_ns);
	}
	assert_null(tools.running);
}

static void assert_message(struct outcome *outcome, const char *want)
{
	assert_true(outcome->ended);
	assert_string_equal(outcome->message, want);
	free(outcome->message);
}

struct row {
	const char *argv[5]; /* or */
	const char *command;
	const char *message;
};

static const struct row rows[] = {
	{{"/bin/echo", "hi"}, NULL, "hi\\n"},
	{{"echo", "by", "PATH"}, NULL, "by PATH\\n"},
	{{"/bin/true"}, NULL, ""},
	{{"/bin/false"}, NULL, "[exit 1]"},
	{{"no-such-program"}, NULL, "[exit 127]"},
	{{""}, NULL, "[exit 127]"},
	{{"/no/such/program"}, NULL, "[exit 127]"},
	{{"/dev/null"}, NULL, "[exit 126]"},
	{{"/"}, NULL, "[exit 126]"},
	{{NULL}, "exit 3", "[exit 3]"},
	{{NULL}, "exit 127", "[exit 127]"},
	{{NULL}, "kill -TERM $$", "[exit 143]"},
	{{NULL}, "kill -KILL $$", "[exit 137]"},
	/* stdout before stderr, however they came */
	{{NULL}, "echo err >&2; echo out", "out\\nerr\\n"},
	{{NULL}, "printf out; printf err >&2; exit 2", "outerr\\n[exit 2]"},
	{{NULL}, "printf 'x\\n'; exit 2", "x\\n[exit 2]"},
	{{NULL}, "printf 'x\\n' >&2; printf y; exit 2", "yx\\n[exit 2]"},
	/* a backslash and an n are no line end */
	{{"printf", "%s", "a\\n"}, NULL, "a\\\\n"},
	{{NULL}, "printf 'a\\\\n'; exit 1", "a\\\\n\\n[exit 1]"},
	/* what is no UTF-8 */
	{{NULL}, "printf 'a\\377\\342\\202'; printf '\\254b' >&2", "a" FFFD FFFD FFFD "b"},
	{{NULL}, "printf '\\342\\202\\254'", "\u20ac"},
	{{NULL}, "printf '\\000\\001'", "\\u0000\\u0001"},
	/* a sequence that comes in two parts is one */
	{{NULL}, "printf '\\342'; sleep 0.05; printf '\\202\\254'", "\u20ac"},
	/* stdin, the signal mask and dispositions */
	{{NULL}, "cat; readlink /proc/self/fd/0", "/dev/null\\n"},
	{{NULL}, "grep -E '^Sig(Blk|Ign):' /proc/self/status | tr -d '\\n\\t'",
		"SigBlk:0000000000000000SigIgn:0000000000000000"},
	/* a group of its own, in our working directory */
	{{NULL}, "read -r stat </proc/$$/stat; set -- $stat; test $5 = $$ && echo own", "own\\n"},
};

static void one_at_a_time(void **state)
{
	(void)state;
	set_up_with(OUTPUT_MAX, 20000);
	for (size_t i = 0; i < ROWS(rows); i++) {
		struct outcome outcome;
		if (rows[i].command)
			start_shell(&outcome, rows[i].command);
		else
			start(&outcome, rows[i].argv);
		wait_for_all();
		assert_message(&outcome, rows[i].message);
	}
	tear_down();
}

static void all_at_once(void **state)
{
	(void)state;
	static struct outcome outcomes[ROWS(rows)];
	set_up_with(OUTPUT_MAX, 20000);
	for (size_t i = 0; i < ROWS(rows); i++)
		if (rows[i].command)
			start_shell(&outcomes[i], rows[i].command);
		else
			start(&outcomes[i], rows[i].argv);
	wait_for_all();
	for (size_t i = 0; i < ROWS(rows); i++)
		assert_message(&outcomes[i], rows[i].message);
	tear_down();
}

struct cut_row {
	const char *out, *err; /* arguments of printf(1) */
	int status;
	const char *message;
};

/* With a cap of 16 bytes. */
static const struct cut_row cut_rows[] = {
	{"0123456789abcdef", "", 0, "0123456789abcdef"},
	{"0123456789abcdefg", "", 0, "0123456789abcdef\\n[truncated]"},
	{"0123456789abcdefg", "", 3, "0123456789abcdef\\n[truncated]\\n[exit 3]"},
	{"0123456789abcdef", "g", 0, "0123456789abcdef\\n[truncated]"},
	{"0123456789abcde\\n", "", 0, "0123456789abcde\\n"},
	{"0123456789abcde\\n", "x", 0, "0123456789abcde\\n[truncated]"},
	{"01234567", "89abcdef", 0, "0123456789abcdef"},
	{"01234567", "89abcdefg", 0, "0123456789abcdef\\n[truncated]"},
	{"01234567", "89abcde\\ng", 1, "0123456789abcde\\n[truncated]\\n[exit 1]"},
	{"", "0123456789abcdefg", 0, "0123456789abcdef\\n[truncated]"},
	/* whole code points only, escapes counted as what they stand for */
	{"0123456789abcd\\342\\202\\254", "", 0, "0123456789abcd\\n[truncated]"},
	{"0123456789abcd\\342\\202\\254x", "", 0, "0123456789abcd\\n[truncated]"},
	{"0123456789abcd", "\\342\\202\\254x", 0, "0123456789abcd\\n[truncated]"},
	{"0123456789abc", "\\360\\237\\230\\200x", 0, "0123456789abc\\n[truncated]"},
	{"0123456789ab", "\\360\\237\\230\\200", 0, "0123456789ab\U0001f600"},
	{"0123456789abc", "\\377", 0, "0123456789abc" FFFD},
	{"0123456789abcd", "\\377", 0, "0123456789abcd\\n[truncated]"},
	{"0123456789ab", "\\001\"\\n\\\\x", 0, "0123456789ab\\u0001\\\"\\n\\\\\\n[truncated]"},
	{"0123456789abcd", "\\n\\n\\n", 0, "0123456789abcd\\n\\n[truncated]"},
	{"\\377\\377\\377\\377\\377", "", 0, FFFD FFFD FFFD FFFD FFFD},
	{"\\377\\377\\377\\377\\377\\377", "", 0, FFFD FFFD FFFD FFFD FFFD "\\n[truncated]"},
};

static void cut_at_the_cap(void **state)
{
	(void)state;
	set_up_with(16, 20000);
	for (size_t i = 0; i < ROWS(cut_rows); i++) {
		struct outcome outcome;
		char command[256];
		snprintf(command, sizeof command, "printf '%s'; printf '%s' >&2; exit %d",
			cut_rows[i].out, cut_rows[i].err, cut_rows[i].status);
		start_shell(&outcome, command);
		wait_for_all();
		assert_message(&outcome, cut_rows[i].message);
	}
	tear_down();
}

static void large_output_on_both(void **state)
{
	(void)state;
	struct outcome outcome;
	set_up_with(4 << 20, 20000);
	start_shell(&outcome, "head -c 1000000 /dev/zero | tr '\\0' a >&2; "
			      "head -c 1000000 /dev/zero | tr '\\0' b; "
			      "head -c 1000000 /dev/zero | tr '\\0' c >&2");
	wait_for_all();
	assert_int_equal(strlen(outcome.message), 3000000);
	assert_int_equal(strspn(outcome.message, "b"), 1000000);
	assert_int_equal(strspn(outcome.message + 1000000, "a"), 1000000);
	assert_int_equal(strspn(outcome.message + 2000000, "c"), 1000000);
	free(outcome.message);
	tear_down();
}

static void endless_output_ends_by_the_time_limit(void **state)
{
	(void)state;
	struct outcome outcome;
	set_up_with(OUTPUT_MAX, 300);
	start_shell(&outcome, "yes; echo never");
	wait_for_all();
	assert_in_range(outcome.took_ms, 290, 10000);
	/* 64 bytes of "y\n", which is escaped */
	char want[256] = "";
	for (int i = 0; i < OUTPUT_MAX / 2; i++)
		strcat(want, "y\\n");
	strcat(want, "[truncated]\\n[timeout]");
	assert_message(&outcome, want);
	/* what was dropped took no memory */
	assert_true(store.fresh_bytes > 0);
	tear_down();
}

static bool exists(pid_t pid)
{
	/* A zombie that its parent has not reaped has ended, too. */
	char path[64], state = 0;
	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	FILE *file = fopen(path, "r");
	if (!file)
		return false;
	int got = fscanf(file, "%*d (%*[^)]) %c", &state);
	fclose(file);
	return got == 1 && state != 'Z';
}

static void wait_until_gone(pid_t pid)
{
	int64_t deadline_ns = now_ns() + 10 * NS_PER_S;
	while (exists(pid)) {
		assert_true(now_ns() < deadline_ns);
		nanosleep(&(struct timespec){.tv_nsec = 5 * NS_PER_MS}, NULL);
	}
}

static void timeout_ends_the_whole_group(void **state)
{
	(void)state;
	struct outcome outcome;
	set_up_with(OUTPUT_MAX, 200);
	start_shell(&outcome, "sleep 60 & echo $!; sleep 60");
	wait_for_all();
	pid_t child = atoi(outcome.message);
	assert_true(child > 1);
	assert_non_null(strstr(outcome.message, "\\n[timeout]"));
	assert_in_range(outcome.took_ms, 190, 10000);
	wait_until_gone(child);
	free(outcome.message);
	tear_down();
}

static void deaf_group_is_killed(void **state)
{
	(void)state;
	struct outcome leader, follower;
	set_up_with(OUTPUT_MAX, 200);
	start_shell(&leader, "trap '' TERM; echo $$; while :; do sleep 1; done");
	/* its leader ends at SIGTERM, and leaves one that does not and holds no pipe */
	start_shell(&follower, "(trap '' TERM; exec sleep 60 >/dev/null 2>&1) & echo $!; sleep 60");
	wait_for_all();
	assert_non_null(strstr(leader.message, "\\n[timeout]"));
	assert_non_null(strstr(follower.message, "\\n[timeout]"));
	assert_in_range(leader.took_ms, 690, 10000);
	wait_until_gone(atoi(leader.message));
	wait_until_gone(atoi(follower.message));
	free(leader.message);
	free(follower.message);
	tear_down();
}

static void background_child_keeps_the_pipe(void **state)
{
	(void)state;
	struct outcome outcome;
	set_up_with(OUTPUT_MAX, 20000);
	start_shell(&outcome, "sleep 60 & echo $!; exit 4");
	wait_for_all();
	pid_t child = atoi(outcome.message);
	assert_non_null(strstr(outcome.message, "\\n[exit 4]"));
	assert_in_range(outcome.took_ms, 100, 10000);
	assert_true(exists(child)); /* what was left running stays */
	kill(child, SIGKILL);
	free(outcome.message);
	tear_down();
}

static void output_closed_before_the_end(void **state)
{
	(void)state;
	struct outcome outcome;
	set_up_with(OUTPUT_MAX, 20000);
	start_shell(&outcome, "echo a; exec >&- 2>&-; sleep 0.2; exit 5");
	wait_for_all();
	assert_in_range(outcome.took_ms, 200, 10000);
	assert_message(&outcome, "a\\n[exit 5]");
	tear_down();
}

/* In the order in which they were asked for, each with its own output. */
static void many_first_in_first_out(void **state)
{
	(void)state;
	static struct outcome outcomes[TOOLS_MAX];
	set_up_with(OUTPUT_MAX, 20000);
	for (int i = 0; i < TOOLS_MAX; i++) {
		char number[16];
		snprintf(number, sizeof number, "%d", i);
		start(&outcomes[i], (const char *const[]){"/bin/echo", number, NULL});
	}
	for (int i = 0; i < TOOLS_MAX; i++) {
		assert_int_equal(outcomes[i].tool.pid, 0);
		assert_int_equal(tools_pump(&tools, 1), i + 1 < TOOLS_MAX);
		assert_true(outcomes[i].tool.pid > 0);
	}
	assert_false(tools_pump(&tools, 1));
	wait_for_all();
	for (int i = 0; i < TOOLS_MAX; i++) {
		char want[16];
		snprintf(want, sizeof want, "%d\\n", i);
		assert_message(&outcomes[i], want);
	}
	tear_down();
}

/* With and without a table of descriptors of its own, nothing but 0 to 2 is open in a tool. */
static void descriptors_do_not_leak(void **state)
{
	(void)state;
	struct outcome outcome;
	set_up_with(OUTPUT_MAX, 20000);
	int fds[20];
	for (int i = 0; i < 20; i++)
		fds[i] = open("/dev/null", O_RDONLY); /* as a careless library would */
	tools_hide_descriptors();
	for (int way = 0; way < 2; way++) {
		start_shell(&outcome, "ls /proc/$$/fd; :");
		wait_for_all();
		assert_message(&outcome, "0\\n1\\n2\\n");
		tools.private_files = false;
	}
	for (int i = 0; i < 20; i++)
		close(fds[i]);
	tear_down();
}

static void our_own_descriptors_are_whole_afterwards(void **state)
{
	(void)state;
	set_up_with(OUTPUT_MAX, 20000);
	int before = open("/dev/null", O_RDONLY);
	close(before);
	for (int i = 0; i < 10; i++) {
		struct outcome outcome;
		start(&outcome, (const char *const[]){"/bin/echo", "x", NULL});
		wait_for_all();
		assert_message(&outcome, "x\\n");
	}
	int after = open("/dev/null", O_RDONLY);
	assert_int_equal(after, before);
	close(after);
	tear_down();
}

/* Out of descriptors, tools wait for those that run; with none running, they fail. */
static void shortage_of_descriptors(void **state)
{
	(void)state;
	static struct outcome outcomes[8];
	set_up_with(OUTPUT_MAX, 20000);
	int lowest = open("/dev/null", O_RDONLY);
	close(lowest);
	struct rlimit few = {(rlim_t)lowest + 8, files.rlim_max};
	setrlimit(RLIMIT_NOFILE, &few);
	for (int i = 0; i < 8; i++)
		start(&outcomes[i], (const char *const[]){"/bin/echo", "x", NULL});
	wait_for_all();
	for (int i = 0; i < 8; i++)
		assert_message(&outcomes[i], "x\\n");

	struct rlimit none = {(rlim_t)lowest + 1, files.rlim_max};
	setrlimit(RLIMIT_NOFILE, &none);
	start(&outcomes[0], (const char *const[]){"/bin/echo", "x", NULL});
	wait_for_all();
	assert_message(&outcomes[0], "[exit 126]");
	setrlimit(RLIMIT_NOFILE, &files);
	tear_down();
}

static void the_limit_of_descriptors_is_as_it_was(void **state)
{
	(void)state;
	struct outcome outcome;
	char want[32];
	set_up_with(OUTPUT_MAX, 20000);
	struct rlimit raised = {files.rlim_max, files.rlim_max};
	setrlimit(RLIMIT_NOFILE, &raised);
	start_shell(&outcome, "ulimit -n");
	wait_for_all();
	snprintf(want, sizeof want, "%llu\\n", (unsigned long long)files.rlim_cur);
	assert_message(&outcome, want);
	setrlimit(RLIMIT_NOFILE, &files);
	tear_down();
}

static void ignored_signals_are_not_handed_on(void **state)
{
	(void)state;
	struct outcome outcome;
	signal(SIGINT, SIG_IGN);
	signal(SIGCHLD, SIG_IGN);
	set_up_with(OUTPUT_MAX, 20000);
	start_shell(&outcome, "grep SigIgn /proc/self/status | cut -f2; exit 1");
	wait_for_all();
	assert_message(&outcome, "0000000000000000\\n[exit 1]");
	signal(SIGINT, SIG_DFL);
	tear_down();
}

static void running_tools_are_killed_with_their_groups(void **state)
{
	(void)state;
	struct outcome outcome;
	struct error err;
	set_up_with(OUTPUT_MAX, 20000);
	start_shell(&outcome, "sleep 60 & echo $!; wait");
	tools_pump(&tools, 1);
	while (!outcome.tool.out.text.length)
		assert_int_equal(loop_once(loop, NS_PER_S, &err), 0);
	tools_kill(&tools);
	wait_for_all();
	wait_until_gone(atoi(outcome.message));
	assert_non_null(strstr(outcome.message, "[exit 137]"));
	free(outcome.message);
	tear_down();
}

static void tools_that_run_can_be_let_go(void **state)
{
	(void)state;
	struct outcome running, waiting;
	set_up_with(OUTPUT_MAX, 20000);
	start_shell(&running, "sleep 60");
	start_shell(&waiting, "sleep 60");
	tools_pump(&tools, 1);
	tools_kill(&tools);
	tool_release(&running.tool);
	tool_release(&waiting.tool);
	assert_int_equal(waitpid(running.tool.pid, NULL, 0), running.tool.pid);
	still_running = 0;
	tear_down();
}

/* As PID 1: orphans are reaped, tools' own statuses are not taken away. */
static void orphans_are_reaped(void **state)
{
	(void)state;
	struct outcome outcome;
	set_up_with(OUTPUT_MAX, 20000);
	tools.reap_orphans = true;
	pid_t orphan = fork();
	if (!orphan)
		_exit(0);
	siginfo_t info;
	assert_int_equal(waitid(P_PID, (id_t)orphan, &info, WEXITED | WNOWAIT), 0);
	start_shell(&outcome, "exit 9");
	wait_for_all();
	assert_message(&outcome, "[exit 9]");
	assert_int_equal(waitpid(orphan, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
	tear_down();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_at_a_time),
		cmocka_unit_test(all_at_once),
		cmocka_unit_test(cut_at_the_cap),
		cmocka_unit_test(large_output_on_both),
		cmocka_unit_test(endless_output_ends_by_the_time_limit),
		cmocka_unit_test(timeout_ends_the_whole_group),
		cmocka_unit_test(deaf_group_is_killed),
		cmocka_unit_test(background_child_keeps_the_pipe),
		cmocka_unit_test(output_closed_before_the_end),
		cmocka_unit_test(many_first_in_first_out),
		cmocka_unit_test(descriptors_do_not_leak),
		cmocka_unit_test(our_own_descriptors_are_whole_afterwards),
		cmocka_unit_test(shortage_of_descriptors),
		cmocka_unit_test(the_limit_of_descriptors_is_as_it_was),
		cmocka_unit_test(ignored_signals_are_not_handed_on),
		cmocka_unit_test(running_tools_are_killed_with_their_groups),
		cmocka_unit_test(tools_that_run_can_be_let_go),
		cmocka_unit_test(orphans_are_reaped),
	};
	return cmocka_run_group_tests_name("agent-c tool", tests, NULL, NULL);
}
