/* folder.h: results stay whole whatever happens. */
#include "collector/folder.h"

#include "common/error.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char base[64];

static int set_up(void **state)
{
	(void)state;
	snprintf(base, sizeof base, "/tmp/test-folder-XXXXXX");
	return mkdtemp(base) ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	pid_t pid = fork();
	if (pid == 0) {
		execlp("rm", "rm", "-rf", base, (char *)NULL);
		_exit(127);
	}
	return waitpid(pid, NULL, 0) == pid ? 0 : -1;
}

static char *below(const char *name)
{
	static char path[256];
	snprintf(path, sizeof path, "%s/%s", base, name);
	return path;
}

static size_t read_file(const char *path, char *text, size_t size)
{
	FILE *file = fopen(path, "r");
	assert_non_null(file);
	size_t length = fread(text, 1, size - 1, file);
	text[length] = '\0';
	fclose(file);
	return length;
}

static void append(struct folder *folder, int number)
{
	struct error err;
	json_t *record = json_pack("{s:i}", "run", number);
	if (folder_append_run(folder, record, &err))
		fail_msg("%s", err.text);
	json_decref(record);
}

static void a_folder_is_made_named_or_by_time(void **state)
{
	(void)state;
	struct folder folder;
	struct error err;
	char text[64];
	assert_int_equal(folder_make(&folder, below("named"), "plan", &err), 0);
	assert_string_equal(folder.path, below("named"));
	append(&folder, 1);
	append(&folder, 2);
	folder_close(&folder);
	read_file(below("named/runs.jsonl"), text, sizeof text);
	assert_string_equal(text, "{\"run\":1}\n{\"run\":2}\n");

	/* a folder that is there holds folders named by plan and time; two of one second differ */
	struct folder first, second;
	assert_int_equal(folder_make(&first, base, "plan", &err), 0);
	assert_int_equal(folder_make(&second, base, "plan", &err), 0);
	assert_memory_equal(first.path, below("plan-20"), strlen(below("plan-20")));
	assert_string_not_equal(first.path, second.path);
	char *path = strdup(first.path);
	/* nothing was recorded: nothing is left */
	json_t *plan = json_object();
	assert_int_equal(folder_write_json(&first, "plan.json", plan, &err), 0);
	json_decref(plan);
	folder_close(&first);
	folder_close(&second);
	assert_int_equal(access(path, F_OK), -1);
	free(path);

	assert_int_equal(folder_make(&folder, below("no/where"), "plan", &err), -1);
	assert_non_null(strstr(err.text, "--out chooses another"));
	assert_int_equal(folder_make(&folder, "/proc/self", "plan", &err), -1);
}

static void put(const char *name, const char *text)
{
	FILE *file = fopen(below(name), "w");
	fputs(text, file);
	fclose(file);
}

static void a_torn_line_is_cut_off(void **state)
{
	(void)state;
	static const struct {
		const char *before, *after;
	} rows[] = {
		{"{\"run\":1}\n{\"ru", "{\"run\":1}\n{\"run\":9}\n"},
		{"{\"run\":1}\n", "{\"run\":1}\n{\"run\":9}\n"},
		{"{\"ru", "{\"run\":9}\n"},
		{"", "{\"run\":9}\n"},
	};
	mkdir(below("torn"), 0700);
	put("torn/plan.json", "{}");
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct folder folder;
		struct error err;
		char text[64];
		put("torn/runs.jsonl", rows[i].before);
		assert_int_equal(folder_open(&folder, below("torn"), &err), 0);
		append(&folder, 9);
		folder_close(&folder);
		read_file(below("torn/runs.jsonl"), text, sizeof text);
		assert_string_equal(text, rows[i].after);
	}
	/* a torn line longer than what is read at a time */
	static char long_line[10000];
	memset(long_line, 'x', sizeof long_line - 1);
	long_line[0] = '{';
	long_line[1] = '}';
	long_line[2] = '\n';
	put("torn/runs.jsonl", long_line);
	struct folder folder, other;
	struct error err;
	char text[64];
	assert_int_equal(folder_open(&folder, below("torn"), &err), 0);
	assert_int_equal(read_file(below("torn/runs.jsonl"), text, sizeof text), 3);

	/* one collector at a time */
	assert_int_equal(folder_open(&other, below("torn"), &err), -1);
	assert_non_null(strstr(err.text, "another collector is writing these results"));
	folder_close(&folder);
	assert_int_equal(folder_open(&other, below("nothing"), &err), -1);
	mkdir(below("empty"), 0700);
	assert_int_equal(folder_open(&other, below("empty"), &err), -1);
	assert_non_null(strstr(err.text, "no results to go on with"));

	/* a log that would keep a run waiting, or swallow it, is refused before the first one */
	mkdir(below("fifo"), 0700);
	put("fifo/plan.json", "{}");
	assert_int_equal(mkfifo(below("fifo/runs.jsonl"), 0600), 0);
	assert_int_equal(folder_open(&other, below("fifo"), &err), -1);
	assert_non_null(strstr(err.text, "fifo: 'runs.jsonl' must be a regular file"));
}

static void a_full_disk_leaves_the_log_whole(void **state)
{
	(void)state;
	struct folder folder;
	struct error err;
	char text[64];
	assert_int_equal(folder_make(&folder, below("full"), "plan", &err), 0);
	append(&folder, 1);
	signal(SIGXFSZ, SIG_IGN);
	struct rlimit limit, old;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	limit = old;
	limit.rlim_cur = 15; /* the second line does not fit */
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	json_t *record = json_pack("{s:i}", "run", 2);
	int result = folder_append_run(&folder, record, &err);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	json_decref(record);
	assert_int_equal(result, -1);
	assert_non_null(strstr(err.text, "cannot write 'runs.jsonl': File too large"));
	append(&folder, 3);
	folder_close(&folder);
	read_file(below("full/runs.jsonl"), text, sizeof text);
	assert_string_equal(text, "{\"run\":1}\n{\"run\":3}\n");
}

static void roots_results_belong_to_the_folders_owner(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	struct folder folder;
	struct error err;
	struct stat status;
	mkdir(below("theirs"), 0755);
	assert_int_equal(chown(below("theirs"), 1234, 1235), 0);
	assert_int_equal(folder_make(&folder, below("theirs"), "plan", &err), 0);
	json_t *plan = json_object();
	assert_int_equal(folder_write_json(&folder, "plan.json", plan, &err), 0);
	json_decref(plan);
	append(&folder, 1);
	static const char *const names[] = {".", "runs.jsonl", "plan.json"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		assert_int_equal(fstatat(folder.fd, names[i], &status, 0), 0);
		assert_int_equal(status.st_uid, 1234);
		assert_int_equal(status.st_gid, 1235);
	}
	folder_close(&folder);
}

/* ---- progress */

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_folder_is_made_named_or_by_time),
		cmocka_unit_test(a_torn_line_is_cut_off),
		cmocka_unit_test(a_full_disk_leaves_the_log_whole),
		cmocka_unit_test(roots_results_belong_to_the_folders_owner),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
