#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

static char folder[] = "/tmp/test_file.XXXXXX";
static int dir_fd = -1;

static int make_folder(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	dir_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dir_fd < 0 ? -1 : 0;
}

static int remove_folder(void **state)
{
	(void)state;
	static const char *const names[] = {"a", "fifo", "link.tmp", "sub/b"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		unlinkat(dir_fd, names[i], 0);
	unlinkat(dir_fd, "sub", AT_REMOVEDIR);
	close(dir_fd);
	return rmdir(folder); /* fails when a temporary file was left */
}

static void assert_content(const char *name, const char *bytes, size_t length)
{
	struct error err;
	auto_buf struct buf buf;
	assert_int_equal(file_read(dir_fd, name, 1 << 20, &buf, &err), 0);
	assert_int_equal(buf.length, length);
	if (length)
		assert_memory_equal(buf.data, bytes, length);
}

static void a_file_is_replaced_whole(void **state)
{
	(void)state;
	struct error err;
	assert_int_equal(file_write(dir_fd, "a", "old", 3, &err), 0);
	struct file_writer writer;
	assert_int_equal(file_writer_open(&writer, dir_fd, "a", &err), 0);
	fwrite("n\0w", 1, 3, writer.stream);
	fflush(writer.stream);
	assert_content("a", "old", 3);
	assert_int_equal(file_writer_commit(&writer, &err), 0);
	assert_content("a", "n\0w", 3);
	assert_int_equal(file_write(dir_fd, "a", "", 0, &err), 0);
	assert_content("a", "", 0);
}

static void an_abort_leaves_what_was_there(void **state)
{
	(void)state;
	struct error err;
	assert_int_equal(file_write(dir_fd, "a", "old", 3, &err), 0);
	struct file_writer writer;
	assert_int_equal(file_writer_open(&writer, dir_fd, "a", &err), 0);
	fwrite("new", 1, 3, writer.stream);
	file_writer_abort(&writer);
	file_writer_abort(&writer);
	assert_content("a", "old", 3);
	assert_int_equal(faccessat(dir_fd, "a.tmp", F_OK, 0), -1);
}

static void folders_below_work(void **state)
{
	(void)state;
	struct error err;
	assert_int_equal(mkdirat(dir_fd, "sub", 0755), 0);
	assert_int_equal(file_write(dir_fd, "sub/b", "x", 1, &err), 0);
	assert_content("sub/b", "x", 1);
}

static void failures_say_what_and_why(void **state)
{
	(void)state;
	struct error err;
	auto_buf struct buf missing;
	assert_int_equal(file_read(dir_fd, "none", 10, &missing, &err), -1);
	assert_int_equal(err.code, ENOENT);
	assert_string_equal(err.text, "cannot open 'none': No such file or directory");

	assert_int_equal(file_write(dir_fd, "a", "12345", 5, &err), 0);
	auto_buf struct buf large;
	assert_int_equal(file_read(dir_fd, "a", 4, &large, &err), -1);
	assert_string_equal(err.text, "a: must be at most 4 bytes");
	auto_buf struct buf exact;
	assert_int_equal(file_read(dir_fd, "a", 5, &exact, &err), 0);

	assert_int_equal(mkfifoat(dir_fd, "fifo", 0600), 0);
	auto_buf struct buf fifo;
	assert_int_equal(file_read(dir_fd, "fifo", 4, &fifo, &err), -1);
	assert_string_equal(err.text, "fifo: must be a regular file");

	assert_int_equal(file_write(dir_fd, "none/x", "1", 1, &err), -1);
	assert_string_equal(err.text, "cannot create 'none/x.tmp': No such file or directory");
}

static void a_link_in_the_way_is_not_followed(void **state)
{
	(void)state;
	struct error err;
	assert_int_equal(file_write(dir_fd, "a", "kept", 4, &err), 0);
	assert_int_equal(symlinkat("a", dir_fd, "link.tmp"), 0);
	assert_int_equal(file_write(dir_fd, "link", "evil", 4, &err), -1);
	assert_content("a", "kept", 4);
}

static void a_full_device_is_reported(void **state)
{
	(void)state;
	struct error err;
	struct file_writer writer;
	assert_int_equal(file_writer_open(&writer, dir_fd, "a", &err), 0);
	int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
	assert_int_equal(dup2(full, writer.fd), writer.fd);
	close(full);
	/* more than the stream's buffer: the write that fails is not the last */
	for (int i = 0; i < 10000; i++)
		fwrite("0123456789", 1, 10, writer.stream);
	assert_int_equal(file_writer_commit(&writer, &err), -1);
	assert_string_equal(err.text, "cannot write 'a': No space left on device");
	assert_int_equal(err.code, ENOSPC);
	assert_int_equal(faccessat(dir_fd, "a.tmp", F_OK, 0), -1);
}

/* As where a disk has room for a part only. */
static void a_part_that_is_written_is_no_end(void **state)
{
	(void)state;
	struct error err;
	struct rlimit before, low = {.rlim_cur = 10000};
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	low.rlim_max = before.rlim_max;
	signal(SIGXFSZ, SIG_IGN);
	static const char bytes[20000];
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
	int result = file_write(dir_fd, "part", bytes, sizeof bytes, &err);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	signal(SIGXFSZ, SIG_DFL);
	assert_int_equal(result, -1);
	assert_string_equal(err.text, "cannot write 'part': File too large");
	assert_int_equal(faccessat(dir_fd, "part.tmp", F_OK, 0), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_is_replaced_whole),
		cmocka_unit_test(an_abort_leaves_what_was_there),
		cmocka_unit_test(folders_below_work),
		cmocka_unit_test(failures_say_what_and_why),
		cmocka_unit_test(a_link_in_the_way_is_not_followed),
		cmocka_unit_test(a_full_device_is_reported),
		cmocka_unit_test(a_part_that_is_written_is_no_end),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
