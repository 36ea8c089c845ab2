/* machine.h: lists of CPUs, how they are shared out, what the machine did. */
#include "collector/machine.h"

#include "common/error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void lists_of_cpus(void **state)
{
	(void)state;
	static const struct {
		const char *text, *again; /* NULL: refused */
	} rows[] = {
		{"0", "0"},
		{"0-3", "0-3"},
		{"1,0", "0-1"},
		{"0-2,5,7-8", "0-2,5,7-8"},
		{"1023", "1023"},
		{"", ""},
		{"x", NULL},
		{"1-", NULL},
		{"-1", NULL},
		{"3-1", NULL},
		{"1,,2", NULL},
		{"1 2", NULL},
		{"1024", NULL},
		{"0-99999999999999999999", NULL},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		cpu_set_t cpus;
		struct error err;
		char text[256];
		assert_int_equal(cpus_parse(rows[i].text, &cpus, &err), rows[i].again ? 0 : -1);
		if (!rows[i].again)
			continue;
		cpus_format(&cpus, text, sizeof text);
		assert_string_equal(text, rows[i].again);
	}
	cpu_set_t cpus;
	struct error err;
	char small[7];
	assert_int_equal(cpus_parse("0,2,4,6,8", &cpus, &err), 0);
	cpus_format(&cpus, small, sizeof small);
	assert_string_equal(small, "0,2,4");
}

/* Folders like /sys/devices/system/cpu, with the threads of each core. */
static char folder[64];

static int make_folder(void **state)
{
	(void)state;
	snprintf(folder, sizeof folder, "/tmp/test-machine-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	(void)state;
	pid_t pid = fork();
	if (pid == 0) {
		execlp("rm", "rm", "-rf", folder, (char *)NULL);
		_exit(127);
	}
	return waitpid(pid, NULL, 0) == pid ? 0 : -1;
}

static void put(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

static void put_siblings(size_t cpu, const char *list)
{
	char path[256];
	snprintf(path, sizeof path, "%s/cpu%zu", folder, cpu);
	mkdir(path, 0700);
	snprintf(path, sizeof path, "%s/cpu%zu/topology", folder, cpu);
	mkdir(path, 0700);
	snprintf(path, sizeof path, "%s/cpu%zu/topology/thread_siblings_list", folder, cpu);
	put(path, list);
}

static void shares_cpus_out(void **state)
{
	(void)state;
	static const struct {
		const char *all;
		const char *siblings[8]; /* of CPU 0, 1, …; NULL: the kernel does not tell */
		const char *instrument, *contender;
	} rows[] = {
		{"0-1", {"0\n", "1\n"}, "0", "1"},
		{"0-1", {NULL}, "0", "1"},
		/* one core of two threads: split all the same */
		{"0-1", {"0-1\n", "0-1\n"}, "0", "1"},
		/* threads of a core stay together */
		{"0-3", {"0,2\n", "1,3\n", "0,2\n", "1,3\n"}, "0,2", "1,3"},
		{"0-2", {"0\n", "1\n", "2\n"}, "0", "1-2"},
		/* from four cores on, two for the instrument */
		{"0-3", {"0\n", "1\n", "2\n", "3\n"}, "0-1", "2-3"},
		{"0-7", {"0,4\n", "1,5\n", "2,6\n", "3,7\n", "0,4\n", "1,5\n", "2,6\n", "3,7\n"},
			"0-1,4-5", "2-3,6-7"},
		/* a thread that we may not use is nobody's */
		{"1-3", {"0,2\n", "1,3\n", "0,2\n", "1,3\n"}, "1,3", "2"},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		cpu_set_t all, instrument, contender;
		struct error err;
		char text[64];
		for (size_t cpu = 0; cpu < 8; cpu++)
			put_siblings(cpu, rows[i].siblings[cpu] ? rows[i].siblings[cpu] : "");
		assert_int_equal(cpus_parse(rows[i].all, &all, &err), 0);
		assert_int_equal(cpus_split(folder, &all, &instrument, &contender, &err), 0);
		cpus_format(&instrument, text, sizeof text);
		assert_string_equal(text, rows[i].instrument);
		cpus_format(&contender, text, sizeof text);
		assert_string_equal(text, rows[i].contender);
	}
	cpu_set_t one, instrument, contender;
	struct error err;
	assert_int_equal(cpus_parse("3", &one, &err), 0);
	assert_int_equal(cpus_split(folder, &one, &instrument, &contender, &err), -1);
	assert_non_null(strstr(err.text, "placement to \"shared\""));
}

static void reads_times(void **state)
{
	(void)state;
	char path[256];
	struct machine_times times;
	struct error err;
	cpu_set_t cpus;
	int64_t tick_usec = 1000000 / sysconf(_SC_CLK_TCK);
	snprintf(path, sizeof path, "%s/stat", folder);
	put(path, "cpu  100 0 100 1000 5 0 0 7 0 0\ncpu0 1 2 3 400 5 6 7 8 9 10\n"
		  "cpu1 10 20 30 400 5 60 70 80 0 0\ncpu2 1000 0 0 0 0 0 0 0 0 0\nintr 5\n");
	assert_int_equal(cpus_parse("0-1", &cpus, &err), 0);
	assert_int_equal(machine_times(path, &cpus, &times, &err), 0);
	assert_int_equal(times.steal_usec, 7 * tick_usec);
	assert_int_equal(times.busy_usec, (19 + 190) * tick_usec);
	put(path, "intr 5\n");
	assert_int_equal(machine_times(path, &cpus, &times, &err), -1);
	assert_int_equal(machine_times("/nonexistent", &cpus, &times, &err), -1);
	assert_int_equal(machine_times("/proc/stat", &cpus, &times, &err), 0);
}

static void describes_this_machine(void **state)
{
	(void)state;
	char id[17], again[17];
	json_t *machine = machine_describe("");
	assert_true(json_integer_value(json_object_get(machine, "cpus_online")) >= 1);
	assert_true(json_integer_value(json_object_get(machine, "memory_bytes")) > 0);
	assert_true(json_is_boolean(json_object_get(machine, "emulated")));
	machine_id(machine, id);
	assert_int_equal(strlen(id), 16);
	/* what may change from one boot to the next is not in it */
	json_object_set_new(machine, "governor", json_string("other"));
	machine_id(machine, again);
	assert_string_equal(id, again);
	json_object_set_new(machine, "kernel", json_string("other"));
	machine_id(machine, again);
	assert_string_not_equal(id, again);
	json_decref(machine);
}

static void recognises_emulation(void **state)
{
	(void)state;
	static const struct {
		const char *cpuinfo;
		bool emulated;
	} rows[] = {
		{"processor\t: 0\nmodel name\t: QEMU TCG CPU version 2.5+\n", true},
		{"processor\t: 0\nmodel name\t: QEMU Virtual CPU version 2.5+\n", false},
		{"processor\t: 0\nmodel name\t: AMD EPYC 7R13 Processor\n", false},
		{"processor\t: 0\nCPU implementer\t: 0x00\nCPU part\t: 0x051\n", true},
		{"processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n", false},
		{"", false},
	};
	char path[256];
	snprintf(path, sizeof path, "%s/proc", folder);
	mkdir(path, 0700);
	snprintf(path, sizeof path, "%s/proc/cpuinfo", folder);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		put(path, rows[i].cpuinfo);
		json_t *machine = machine_describe(folder);
		assert_int_equal(
			json_is_true(json_object_get(machine, "emulated")), rows[i].emulated);
		json_decref(machine);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_of_cpus),
		cmocka_unit_test(shares_cpus_out),
		cmocka_unit_test(reads_times),
		cmocka_unit_test(describes_this_machine),
		cmocka_unit_test(recognises_emulation),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
