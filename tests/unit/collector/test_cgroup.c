/* cgroup.h, cgroup_limits.h and cgroup_figures.h, over trees of files that stand in for
 * /sys/fs/cgroup, and for real where that can be.
 */
#include "collector/cgroup_figures.h"
#include "collector/cgroup_limits.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#define FIXTURES "tests/fixtures/cgroup/"

static const char V1_TEXT[] = "12:memory:/docker/abc/turnmeter-launcher\n"
			      "5:cpu,cpuacct:/docker/abc/turnmeter-launcher\n"
			      "4:cpuset:/docker/abc\n1:name=systemd:/docker/abc\n0::/\n";
static const char V2_TEXT[] = "0::/docker/abc/turnmeter-launcher\n";

struct tree {
	struct cgroup_fs fs;
	struct cgroup container, leaf;
};

static void open_tree(struct tree *tree, const char *name, const char *text)
{
	struct error err;
	char path[256];
	bool in_run_leaf = true;
	snprintf(path, sizeof path, FIXTURES "%s", name);
	assert_int_equal(cgroup_fs_open(&tree->fs, path, &err), 0);
	assert_int_equal(
		cgroup_open_text(&tree->container, &tree->fs, text, &in_run_leaf, &err), 0);
	assert_false(in_run_leaf);
	assert_int_equal(cgroup_make(&tree->leaf, &tree->container, "turnmeter-run-1", &err), 0);
}

static void close_tree(struct tree *tree)
{
	cgroup_close(&tree->leaf);
	cgroup_close(&tree->container);
	cgroup_fs_close(&tree->fs);
}

static void reads_v2(void **state)
{
	(void)state;
	struct tree tree;
	struct error err;
	open_tree(&tree, "v2", V2_TEXT);
	assert_int_equal(cgroup_backend_of(&tree.leaf), CGROUP_V2);
	assert_true(cgroup_can_kill(&tree.leaf));
	assert_int_equal(cgroup_count(&tree.leaf, &err), 2);

	int64_t number;
	assert_int_equal(cgroup_get_peak(&tree.leaf, &number, &err), 0);
	assert_int_equal(number, 51380224);
	struct memory_sample sample;
	assert_int_equal(cgroup_get_memory(&tree.leaf, &sample, &err), 0);
	assert_int_equal(sample.total_bytes, 44871680);
	assert_int_equal(sample.anon_bytes, 30425088);
	assert_int_equal(sample.file_bytes, 12288000);
	assert_int_equal(sample.kernel_bytes, 2101248);
	assert_int_equal(sample.sock_bytes, 40960);
	assert_int_equal(sample.shmem_bytes, 8192);
	assert_true(sample.at_ns <= now_ns() && sample.at_ns > now_ns() - NS_PER_S);

	struct cgroup_cpu cpu;
	assert_int_equal(cgroup_get_cpu(&tree.leaf, &cpu, &err), 0);
	assert_int_equal(cpu.usage_usec, 1250000);
	assert_int_equal(cpu.user_usec, 1000000);
	assert_int_equal(cpu.system_usec, 250000);
	struct cgroup_events events;
	assert_int_equal(cgroup_get_events(&tree.leaf, &events, &err), 0);
	assert_int_equal(events.oom, 1);
	assert_int_equal(events.oom_kill, 3);
	assert_int_equal(cgroup_get_refaults(&tree.leaf, &number, &err), 0);
	assert_int_equal(number, 7);
	assert_int_equal(cgroup_get_swap(&tree.leaf, &number, &err), 0);
	assert_int_equal(number, 8192);
	struct cgroup_throttling throttling;
	assert_int_equal(cgroup_get_throttling(&tree.container, &throttling, &err), 0);
	assert_int_equal(throttling.nr_throttled, 7);
	assert_int_equal(throttling.throttled_usec, 81234);
	assert_int_equal(cgroup_get_pressure(&tree.leaf, "cpu", &number, &err), 0);
	assert_int_equal(number, 4242);
	assert_int_equal(cgroup_get_pressure(&tree.leaf, "memory", &number, &err), 0);
	assert_int_equal(number, 17);
	close_tree(&tree);
}

static void reads_v2_without_peak(void **state)
{
	(void)state;
	struct tree tree;
	struct error err;
	open_tree(&tree, "v2-no-peak", V2_TEXT);
	assert_int_equal(cgroup_backend_of(&tree.leaf), CGROUP_V2_SAMPLED);
	assert_false(cgroup_can_kill(&tree.leaf));
	int64_t number = 5;
	assert_int_equal(cgroup_get_peak(&tree.leaf, &number, &err), -1);
	assert_string_equal(err.text, "cannot open 'memory.peak': No such file or directory");
	assert_int_equal(number, 5);
	/* no line "kernel": the sum of its parts; one kind of refaults; of swap, what came back */
	struct memory_sample sample;
	assert_int_equal(cgroup_get_memory(&tree.leaf, &sample, &err), 0);
	assert_int_equal(sample.kernel_bytes, 180224 + 573440 + 1440 + 1300000);
	assert_int_equal(cgroup_get_refaults(&tree.leaf, &number, &err), 0);
	assert_int_equal(number, 9);
	assert_int_equal(cgroup_get_swap(&tree.leaf, &number, &err), 0);
	assert_int_equal(number, 3 * sysconf(_SC_PAGESIZE));
	close_tree(&tree);
}

static void reads_v1(void **state)
{
	(void)state;
	struct tree tree;
	struct error err;
	open_tree(&tree, "v1", V1_TEXT);
	/* memory, cpuset, and one mount for cpu and cpuacct */
	assert_int_equal(tree.fs.count, 3);
	assert_int_equal(tree.fs.of[CGROUP_CPU], tree.fs.of[CGROUP_CPUACCT]);
	assert_int_equal(cgroup_backend_of(&tree.leaf), CGROUP_V1);
	assert_int_equal(cgroup_count(&tree.leaf, &err), 2);

	int64_t number;
	assert_int_equal(cgroup_get_peak(&tree.leaf, &number, &err), 0);
	assert_int_equal(number, 42377216);
	struct memory_sample sample;
	assert_int_equal(cgroup_get_memory(&tree.leaf, &sample, &err), 0);
	assert_int_equal(sample.total_bytes, 31748096);
	assert_int_equal(sample.anon_bytes, 30425088);
	assert_int_equal(sample.file_bytes, 405504);
	assert_int_equal(sample.kernel_bytes, 1126400);
	assert_int_equal(sample.sock_bytes, 4096);
	struct cgroup_cpu cpu;
	assert_int_equal(cgroup_get_cpu(&tree.leaf, &cpu, &err), 0);
	assert_int_equal(cpu.usage_usec, 1250000);
	assert_int_equal(cpu.user_usec, 937500);
	assert_int_equal(cpu.system_usec, 312500);
	struct cgroup_events events;
	assert_int_equal(cgroup_get_events(&tree.leaf, &events, &err), 0);
	assert_true(events.oom == FACT_MISSING);
	assert_int_equal(events.oom_kill, 2);
	assert_int_equal(cgroup_get_swap(&tree.leaf, &number, &err), 0);
	assert_int_equal(number, 12288);
	struct cgroup_throttling throttling;
	assert_int_equal(cgroup_get_throttling(&tree.container, &throttling, &err), 0);
	assert_int_equal(throttling.throttled_usec, 81234);
	assert_int_equal(cgroup_get_pressure(&tree.leaf, "cpu", &number, &err), -1);
	assert_string_equal(err.text, "cgroup v1 has no pressure files");
	close_tree(&tree);
}

/* Controllers, accounting of swap and pressure files may be missing: so are their figures, no
 * others. */
static void reads_v2_without_the_rest(void **state)
{
	(void)state;
	struct tree tree;
	struct error err;
	open_tree(&tree, "v2-bare", V2_TEXT);
	assert_int_equal(cgroup_backend_of(&tree.leaf), CGROUP_V2);
	assert_true(cgroup_has(&tree.container, CGROUP_MEMORY));
	assert_false(cgroup_has(&tree.container, CGROUP_CPU));
	assert_false(cgroup_has(&tree.container, CGROUP_CPUSET));

	int64_t number = 5;
	assert_int_equal(cgroup_get_peak(&tree.leaf, &number, &err), 0);
	assert_int_equal(number, 51380224);
	struct cgroup_cpu cpu;
	assert_int_equal(cgroup_get_cpu(&tree.leaf, &cpu, &err), 0);
	assert_int_equal(cpu.usage_usec, 1250000);
	struct cgroup_limits limits;
	assert_int_equal(cgroup_get_limits(&tree.container, &limits, &err), 0);
	assert_int_equal(limits.memory_bytes, 268435456);
	assert_true(limits.swap_bytes == FACT_MISSING);
	assert_true(limits.cpu_quota == 0);
	assert_string_equal(limits.cpus, "");

	number = 5;
	struct cgroup_throttling throttling;
	assert_int_equal(cgroup_get_throttling(&tree.container, &throttling, &err), -1);
	assert_non_null(strstr(err.text, "nr_throttled"));
	assert_int_equal(cgroup_get_swap(&tree.leaf, &number, &err), -1);
	assert_non_null(strstr(err.text, "memory.swap.current"));
	assert_int_equal(cgroup_get_pressure(&tree.leaf, "io", &number, &err), -1);
	assert_non_null(strstr(err.text, "io.pressure"));
	assert_int_equal(cgroup_get_refaults(&tree.leaf, &number, &err), -1);
	assert_string_equal(err.text, "'memory.stat' does not count refaults");
	assert_int_equal(number, 5);
	close_tree(&tree);
}

static void reads_v1_without_the_rest(void **state)
{
	(void)state;
	struct tree tree;
	struct error err;
	open_tree(&tree, "v1-bare",
		"12:memory:/docker/abc/turnmeter-launcher\n5:cpuacct:/docker/abc\n");
	assert_int_equal(tree.fs.count, 2);
	assert_false(cgroup_has(&tree.container, CGROUP_CPU));
	assert_false(cgroup_has(&tree.container, CGROUP_CPUSET));

	/* user and system time by ticks, where that is all there is */
	struct cgroup_cpu cpu;
	assert_int_equal(cgroup_get_cpu(&tree.leaf, &cpu, &err), 0);
	assert_int_equal(cpu.user_usec + cpu.system_usec, cpu.usage_usec);
	assert_true(cpu.user_usec > 0 && cpu.system_usec > 0);
	struct memory_sample sample;
	assert_int_equal(cgroup_get_memory(&tree.leaf, &sample, &err), 0);
	assert_int_equal(sample.anon_bytes, 30425088);
	assert_true(sample.kernel_bytes == FACT_MISSING && sample.sock_bytes == FACT_MISSING);
	struct cgroup_limits limits;
	assert_int_equal(cgroup_get_limits(&tree.container, &limits, &err), 0);
	assert_int_equal(limits.memory_bytes, 268435456);
	assert_true(limits.swap_bytes == FACT_MISSING);
	assert_true(limits.cpu_quota == 0);
	assert_string_equal(limits.cpus, "");

	int64_t number = 5;
	struct cgroup_throttling throttling;
	assert_int_equal(cgroup_get_throttling(&tree.container, &throttling, &err), -1);
	assert_string_equal(err.text, "no cpu controller");
	assert_int_equal(cgroup_get_swap(&tree.leaf, &number, &err), -1);
	assert_int_equal(number, 5);
	limits = (struct cgroup_limits){FACT_MISSING, FACT_MISSING, 0.5, ""};
	assert_int_equal(cgroup_set_limits(&tree.container, &limits, &err), -1);
	assert_string_equal(err.text, "cannot set a CPU quota: no cpu controller");
	close_tree(&tree);
}

static void reads_limits_with_those_above(void **state)
{
	(void)state;
	static const struct {
		const char *tree, *text;
		int64_t memory_bytes;
	} rows[] = {
		/* the group above allows less */
		{"v2", V2_TEXT, 134217728},
		{"v2-no-peak", V2_TEXT, 134217728},
		{"v1", V1_TEXT, 268435456},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct tree tree;
		struct error err;
		struct cgroup_limits limits;
		open_tree(&tree, rows[i].tree, rows[i].text);
		assert_int_equal(cgroup_get_limits(&tree.container, &limits, &err), 0);
		assert_int_equal(limits.memory_bytes, rows[i].memory_bytes);
		assert_int_equal(limits.swap_bytes, 0);
		assert_true(limits.cpu_quota == 1.5);
		assert_string_equal(limits.cpus, "1");
		close_tree(&tree);
	}
	struct cgroup_fs fs;
	struct cgroup top;
	struct error err;
	struct cgroup_limits limits;
	assert_int_equal(cgroup_fs_open(&fs, FIXTURES "v1", &err), 0);
	assert_int_equal(cgroup_open_path(&top, &fs, "/docker", &err), 0);
	assert_int_equal(cgroup_get_limits(&top, &limits, &err), 0);
	assert_true(limits.memory_bytes == FACT_MISSING && limits.swap_bytes == FACT_MISSING);
	assert_true(limits.cpu_quota == 0);
	cgroup_close(&top);
	cgroup_fs_close(&fs);
}

/* The processes of a container of Podman's are a group below the one with the limits and the
 * counts. */
static void reads_the_group_above_podmans(void **state)
{
	(void)state;
	struct cgroup_fs fs;
	struct cgroup container;
	struct error err;
	struct cgroup_limits limits;
	struct cgroup_throttling throttling;
	struct cgroup_events events;
	assert_int_equal(cgroup_fs_open(&fs, FIXTURES "v2", &err), 0);
	assert_int_equal(cgroup_open_text(&container, &fs,
				 "0::/machine.slice/libpod-abc.scope/container\n", NULL, &err),
		0);
	assert_int_equal(cgroup_get_limits(&container, &limits, &err), 0);
	assert_int_equal(limits.memory_bytes, 536870912);
	assert_true(limits.cpu_quota == 0.5);
	assert_int_equal(cgroup_get_throttling(&container, &throttling, &err), 0);
	assert_int_equal(throttling.nr_throttled, 5);
	assert_int_equal(throttling.throttled_usec, 4711);
	assert_int_equal(cgroup_get_events(&container, &events, &err), 0);
	assert_int_equal(events.oom, 2);
	assert_int_equal(events.oom_kill, 1);
	cgroup_close(&container);
	cgroup_fs_close(&fs);
}

static void finds_the_group_of_a_process(void **state)
{
	(void)state;
	static const struct {
		const char *tree, *text;
		const char *path; /* NULL: an error */
		bool in_run_leaf;
		const char *message;
	} rows[] = {
		{"v2", "0::/docker/abc\n", "/docker/abc", false, NULL},
		{"v2", "0::/docker/abc/turnmeter-launcher\n", "/docker/abc", false, NULL},
		{"v2", "0::/docker/abc/turnmeter-run-1\n", "/docker/abc", true, NULL},
		{"v2", "0::/turnmeter-launcher\n", "/", false, NULL},
		/* Podman: the limits are above the group of the processes */
		{"v2", "0::/machine.slice/libpod-abc.scope/container\n",
			"/machine.slice/libpod-abc.scope", false, NULL},
		{"v2", "0::/machine.slice/libpod-abc.scope/turnmeter-launcher\n",
			"/machine.slice/libpod-abc.scope", false, NULL},
		{"v2", "0::/machine.slice/libpod-abc.scope/turnmeter-run-1\n",
			"/machine.slice/libpod-abc.scope", true, NULL},
		{"v2", "0::/docker/abc/container\n", NULL, false,
			"cannot open cgroup '/docker/abc/container': No such file or directory"},
		{"v2", "0::/container\n", NULL, false,
			"cannot open cgroup '/container': No such file or directory"},
		{"v2", "0::/\n", "/", false, NULL},
		{"v2", "0::/../abc\n", NULL, false,
			"cgroup '/../abc' is outside of this namespace: the collector's container "
			"needs 'cgroup: host'"},
		{"v2", "0::/docker/gone\n", NULL, false,
			"cannot open cgroup '/docker/gone': No such file or directory"},
		{"v2", "3:memory:/docker/abc\n", NULL, false,
			"the process is in no cgroup of the hierarchy"},
		{"v2", "", NULL, false, "the process is in no cgroup of the hierarchy"},
		{"v2", "nonsense\n\n::\n", NULL, false,
			"the process is in no cgroup of the hierarchy"},
		{"v1", V1_TEXT, "/docker/abc", false, NULL},
		{"v1", "3:memory:/docker/abc\n", NULL, false,
			"the process is in no cgroup of the hierarchy"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct cgroup_fs fs;
		struct cgroup group = CGROUP_EMPTY;
		struct error err;
		bool in_run_leaf = false;
		char path[256];
		snprintf(path, sizeof path, FIXTURES "%s", rows[i].tree);
		assert_int_equal(cgroup_fs_open(&fs, path, &err), 0);
		int result = cgroup_open_text(&group, &fs, rows[i].text, &in_run_leaf, &err);
		assert_int_equal(result, rows[i].path ? 0 : -1);
		if (rows[i].path) {
			assert_string_equal(group.paths[0], rows[i].path);
			assert_int_equal(in_run_leaf, rows[i].in_run_leaf);
		} else {
			assert_string_equal(err.text, rows[i].message);
		}
		cgroup_close(&group);
		cgroup_fs_close(&fs);
	}
}

static void knows_what_is_within(void **state)
{
	(void)state;
	static const struct {
		const char *inner, *outer;
		bool within;
	} rows[] = {{"/docker/abc", "/docker/abc", true}, {"/docker/abc", "/docker", true},
		{"/docker", "/docker/abc", false}, {"/docker", "/", true}, {"/", "/docker", false},
		{"/", "/", true}};
	struct cgroup_fs fs;
	struct error err;
	assert_int_equal(cgroup_fs_open(&fs, FIXTURES "v2", &err), 0);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct cgroup inner, outer;
		assert_int_equal(cgroup_open_path(&inner, &fs, rows[i].inner, &err), 0);
		assert_int_equal(cgroup_open_path(&outer, &fs, rows[i].outer, &err), 0);
		assert_int_equal(cgroup_is_within(&inner, &outer), rows[i].within);
		cgroup_close(&inner);
		cgroup_close(&outer);
	}
	cgroup_fs_close(&fs);
}

/* ---- writing, to a copy of a tree */

static char scratch[64];

static int make_scratch(void **state)
{
	(void)state;
	snprintf(scratch, sizeof scratch, "/tmp/test-cgroup-XXXXXX");
	return mkdtemp(scratch) ? 0 : -1;
}

static void run_program(const char *const argv[])
{
	pid_t pid = fork();
	if (pid == 0) {
		execvp(argv[0], (char *const *)argv);
		_exit(127);
	}
	int status;
	assert_true(waitpid(pid, &status, 0) == pid && status == 0);
}

static int remove_scratch(void **state)
{
	(void)state;
	run_program((const char *const[]){"rm", "-rf", scratch, NULL});
	return 0;
}

static void copy_tree(const char *name)
{
	char from[256];
	snprintf(from, sizeof from, FIXTURES "%s", name);
	run_program((const char *const[]){"cp", "-a", from, scratch, NULL});
}

static char *file_text(const char *path)
{
	static char text[256];
	char whole[512];
	snprintf(whole, sizeof whole, "%s/%s", scratch, path);
	FILE *file = fopen(whole, "r");
	if (!file)
		return NULL;
	size_t length = fread(text, 1, sizeof text - 1, file);
	fclose(file);
	text[length] = '\0';
	return text;
}

static void open_copy(struct cgroup_fs *fs, struct cgroup *container, const char *name)
{
	struct error err;
	char path[256];
	copy_tree(name);
	snprintf(path, sizeof path, "%s/%s", scratch, name);
	assert_int_equal(cgroup_fs_open(fs, path, &err), 0);
	assert_int_equal(cgroup_open_path(container, fs, "/docker/abc", &err), 0);
}

static void writes_v2_limits(void **state)
{
	(void)state;
	struct cgroup_fs fs;
	struct cgroup container;
	struct error err;
	open_copy(&fs, &container, "v2");
	struct cgroup_limits limits = {64 << 20, FACT_MISSING, 0.5, "2-3"};
	assert_int_equal(cgroup_set_limits(&container, &limits, &err), 0);
	/* a cgroup file is replaced by what is written; a plain one keeps its rest */
	assert_memory_equal(file_text("v2/docker/abc/memory.max"), "67108864", 8);
	assert_memory_equal(file_text("v2/docker/abc/memory.swap.max"), "0", 1);
	assert_memory_equal(file_text("v2/docker/abc/cpu.max"), "50000 100000", 12);
	assert_memory_equal(file_text("v2/docker/abc/cpuset.cpus"), "2-3", 3);
	cgroup_close(&container);
	cgroup_fs_close(&fs);
}

static void writes_v1_limits(void **state)
{
	(void)state;
	struct cgroup_fs fs;
	struct cgroup container;
	struct error err;
	open_copy(&fs, &container, "v1");
	struct cgroup_limits limits = {64 << 20, FACT_MISSING, 0.5, "0"};
	assert_int_equal(cgroup_set_limits(&container, &limits, &err), 0);
	assert_memory_equal(file_text("v1/memory/docker/abc/memory.limit_in_bytes"), "67108864", 8);
	assert_memory_equal(
		file_text("v1/memory/docker/abc/memory.memsw.limit_in_bytes"), "67108864", 8);
	assert_memory_equal(file_text("v1/cpu/docker/abc/cpu.cfs_quota_us"), "50000", 5);
	assert_memory_equal(file_text("v1/cpuset/docker/abc/cpuset.cpus"), "0", 1);
	cgroup_close(&container);
	cgroup_fs_close(&fs);
}

static void refuses_what_is_not_there(void **state)
{
	(void)state;
	struct cgroup_fs fs;
	struct cgroup container;
	struct error err;
	assert_int_equal(cgroup_fs_open(&fs, scratch, &err), -1);
	assert_non_null(strstr(err.text, "neither cgroup v2 nor the v1 controller 'memory'"));
	assert_non_null(strstr(err.text, "mount -t cgroup2"));
	assert_int_equal(cgroup_fs_open(&fs, "/nonexistent", &err), -1);
	open_copy(&fs, &container, "v2");
	char path[256];
	snprintf(path, sizeof path, "%s/v2/docker/abc/cgroup.controllers", scratch);
	FILE *file = fopen(path, "w");
	fputs("cpuset cpu pids\n", file);
	fclose(file);
	assert_int_equal(cgroup_enable(&container, &err), -1);
	assert_non_null(strstr(err.text, "no controller 'memory'"));
	assert_non_null(strstr(err.text, "cgroup_enable=memory"));
	cgroup_close(&container);
	cgroup_fs_close(&fs);
}

/* ---- for real: a group below our own */

struct real {
	struct cgroup_fs fs;
	struct cgroup own, parent, group;
	char name[64];
};

static bool open_real(struct real *real)
{
	struct error err;
	*real = (struct real){.own = CGROUP_EMPTY, .parent = CGROUP_EMPTY, .group = CGROUP_EMPTY};
	if (cgroup_fs_open(&real->fs, "/sys/fs/cgroup", &err))
		return false;
	snprintf(real->name, sizeof real->name, "test-cgroup-%d", (int)getpid());
	if (!cgroup_open_pid(&real->own, &real->fs, getpid(), NULL, &err) &&
		!cgroup_open_parent(&real->parent, &real->own, &err) &&
		!cgroup_enable_path(&real->parent, &err) &&
		!cgroup_make(&real->group, &real->parent, real->name, &err))
		return true;
	cgroup_close(&real->parent);
	cgroup_close(&real->own);
	cgroup_fs_close(&real->fs);
	return false;
}

static void close_real(struct real *real)
{
	struct error err;
	assert_int_equal(cgroup_remove(&real->parent, real->name, &err), 0);
	/* gone already is no error */
	assert_int_equal(cgroup_remove(&real->parent, real->name, &err), 0);
	cgroup_close(&real->group);
	cgroup_close(&real->parent);
	cgroup_close(&real->own);
	cgroup_fs_close(&real->fs);
}

/* A child that waits for a byte, touches some memory, and waits to be killed. */
static pid_t start_eater(int *go, int *touched)
{
	int in[2], out[2];
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	pid_t pid = fork();
	if (pid == 0) {
		char byte;
		if (read(in[0], &byte, 1) != 1)
			_exit(1);
		volatile char *memory = malloc(16 << 20);
		for (size_t i = 0; i < 16 << 20; i += 512)
			memory[i] = 1;
		if (write(out[1], "", 1) == 1)
			for (;;)
				pause();
		_exit(1);
	}
	close(in[0]);
	close(out[1]);
	*go = in[1];
	*touched = out[0];
	return pid;
}

static void measures_and_kills_for_real(void **state)
{
	(void)state;
	struct real real;
	struct error err;
	if (!open_real(&real))
		skip();
	assert_int_equal(cgroup_adopt(&real.group, &err), 0);
	struct cgroup leaf;
	char name[64];
	assert_int_equal(cgroup_make_leaf(&leaf, &real.group, name, &err), 0);
	struct cgroup_limits limits = {64 << 20, FACT_MISSING, 0, ""}, found;
	assert_int_equal(cgroup_set_limits(&leaf, &limits, &err), 0);
	assert_int_equal(cgroup_get_limits(&leaf, &found, &err), 0);
	assert_int_equal(found.memory_bytes, 64 << 20);

	int go, touched;
	pid_t pid = start_eater(&go, &touched);
	assert_int_equal(cgroup_attach(&leaf, pid, &err), 0);
	assert_int_equal(cgroup_count(&leaf, &err), 1);
	assert_int_equal(write(go, "", 1), 1);
	char byte;
	assert_int_equal(read(touched, &byte, 1), 1);
	int64_t peak = 0;
	struct memory_sample sample;
	struct cgroup_cpu cpu;
	if (cgroup_backend_of(&leaf) != CGROUP_V2_SAMPLED) {
		assert_int_equal(cgroup_get_peak(&leaf, &peak, &err), 0);
		assert_true(peak >= 16 << 20 && peak <= 64 << 20);
	}
	assert_int_equal(cgroup_get_memory(&leaf, &sample, &err), 0);
	assert_true(sample.total_bytes >= 16 << 20);
	assert_int_equal(cgroup_get_cpu(&leaf, &cpu, &err), 0);
	assert_true(cpu.usage_usec > 0);
	assert_int_equal(cgroup_kill(&leaf, &err), 0);
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_int_equal(cgroup_wait_empty(&leaf, 5 * NS_PER_S, &err), 0);
	assert_int_equal(cgroup_attach(&leaf, pid, &err), -1);
	assert_int_equal(err.code, ESRCH);
	cgroup_close(&leaf);
	assert_int_equal(cgroup_remove(&real.group, name, &err), 0);
	close(go);
	close(touched);
	close_real(&real);
}

static bool nobody_is_stale(const char *rest)
{
	(void)rest;
	return false;
}

static void sweeps_what_a_killed_collector_left(void **state)
{
	(void)state;
	struct real real;
	struct error err;
	if (!open_real(&real))
		skip();
	assert_int_equal(cgroup_adopt(&real.group, &err), 0);
	struct cgroup leaf;
	char name[64];
	assert_int_equal(cgroup_make_leaf(&leaf, &real.group, name, &err), 0);
	int go, touched;
	pid_t pid = start_eater(&go, &touched);
	assert_int_equal(cgroup_attach(&leaf, pid, &err), 0);
	cgroup_close(&leaf);
	cgroup_sweep(&real.group, "turnmeter-run-", nobody_is_stale);
	assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
	/* reaps it, so that its group can go */
	signal(SIGCHLD, SIG_IGN);
	assert_int_equal(cgroup_adopt(&real.group, &err), 0);
	signal(SIGCHLD, SIG_DFL);
	assert_int_equal(kill(pid, 0), -1);
	struct cgroup again;
	assert_int_equal(cgroup_make_leaf(&again, &real.group, name, &err), 0);
	assert_int_equal(cgroup_count(&again, &err), 0);
	cgroup_close(&again);
	close(go);
	close(touched);
	close_real(&real);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_v2),
		cmocka_unit_test(reads_v2_without_peak),
		cmocka_unit_test(reads_v1),
		cmocka_unit_test(reads_v2_without_the_rest),
		cmocka_unit_test(reads_v1_without_the_rest),
		cmocka_unit_test(reads_limits_with_those_above),
		cmocka_unit_test(reads_the_group_above_podmans),
		cmocka_unit_test(finds_the_group_of_a_process),
		cmocka_unit_test(knows_what_is_within),
		cmocka_unit_test_setup_teardown(writes_v2_limits, make_scratch, remove_scratch),
		cmocka_unit_test_setup_teardown(writes_v1_limits, make_scratch, remove_scratch),
		cmocka_unit_test_setup_teardown(
			refuses_what_is_not_there, make_scratch, remove_scratch),
		cmocka_unit_test(measures_and_kills_for_real),
		cmocka_unit_test(sweeps_what_a_killed_collector_left),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
