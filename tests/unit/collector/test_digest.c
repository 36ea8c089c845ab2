#include "collector/digest.h"
#include "common/error.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

/* FIPS 180-2 and sha256sum; the base64 by openssl dgst -binary | base64. */
static void digests_of_known_texts(void **state)
{
	(void)state;
	static const struct {
		const char *text, *hex, *base64;
	} rows[] = {
		{"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
			"47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="},
		{"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
			"ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char hex[DIGEST_HEX], base64[DIGEST_BASE64];
		digest_bytes(rows[i].text, strlen(rows[i].text), hex);
		digest_base64(rows[i].text, strlen(rows[i].text), base64);
		assert_string_equal(hex, rows[i].hex);
		assert_string_equal(base64, rows[i].base64);
	}
}

/* A file of `length` bytes 'a', one of them, if any, a 'b'; its time is the given second. */
static int make_file(size_t length, long other, long second)
{
	char path[] = "/tmp/digest-XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(unlink(path), 0);
	char *bytes = malloc(length + 1);
	assert_non_null(bytes);
	memset(bytes, 'a', length);
	if (other >= 0)
		bytes[other] = 'b';
	assert_int_equal(write(fd, bytes, length), (ssize_t)length);
	free(bytes);
	const struct timespec times[] = {{second, 0}, {second, 0}};
	assert_int_equal(futimens(fd, times), 0);
	return fd;
}

static void digest_of(int fd, char hex[DIGEST_HEX])
{
	struct digest_files alone = DIGEST_FILES_EMPTY;
	struct error err;
	assert_int_equal(digest_file(&alone, fd, &err), 0);
	memcpy(hex, alone.hex, DIGEST_HEX);
	digest_files_release(&alone);
}

/* Whatever file came before, a file's digest is that of its own bytes. */
static void digests_of_files(void **state)
{
	(void)state;
	static const struct {
		size_t length;
		long other, second;
	} rows[] = {{200000, -1, 1}, {200000, -1, 1}, {200000, 199999, 1}, {200000, 0, 1},
		{200000, 65536, 1}, {200000, 65536, 2}, {199999, 65536, 2}, {65536, -1, 2},
		{65536, 65535, 2}, {131072, 65535, 2}, {0, -1, 2}, {0, -1, 2}, {1, 0, 2},
		{1, -1, 2}};
	auto_digest_files struct digest_files files = DIGEST_FILES_EMPTY;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		int fd = make_file(rows[i].length, rows[i].other, rows[i].second);
		char hex[DIGEST_HEX];
		struct error err;
		digest_of(fd, hex);
		assert_int_equal(digest_file(&files, fd, &err), 0);
		assert_string_equal(files.hex, hex);
		assert_int_equal(digest_file(&files, fd, &err), 0);
		assert_string_equal(files.hex, hex);
		close(fd);
	}
	/* sha256sum of 200,000 a */
	int fd = make_file(200000, -1, 1);
	assert_int_equal(digest_file(&files, fd, &(struct error){0}), 0);
	assert_string_equal(
		files.hex, "2287d207f24a941ff3b56c04c8a25ad56b63e3023207b3bb5b4ac0c9869d74be");
	close(fd);
}

/* A second file with the same bytes is told by them: the digest that was there is kept. */
static void the_same_bytes_are_not_digested_again(void **state)
{
	(void)state;
	auto_digest_files struct digest_files files = DIGEST_FILES_EMPTY;
	struct error err;
	int first = make_file(100000, 7, 1), second = make_file(100000, 7, 1);
	assert_int_equal(digest_file(&files, first, &err), 0);
	files.hex[0] = 'x';
	assert_int_equal(digest_file(&files, second, &err), 0);
	assert_int_equal(files.hex[0], 'x');
	close(first);
	close(second);
}

static void a_file_that_cannot_be_read(void **state)
{
	(void)state;
	auto_digest_files struct digest_files files = DIGEST_FILES_EMPTY;
	struct error err;
	int fd = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(digest_file(&files, fd, &err), -1);
	assert_string_equal(err.text, "cannot read a file for its digest: Is a directory");
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(digests_of_known_texts),
		cmocka_unit_test(digests_of_files),
		cmocka_unit_test(the_same_bytes_are_not_digested_again),
		cmocka_unit_test(a_file_that_cannot_be_read),
	};
	return cmocka_run_group_tests_name("digest", tests, NULL, NULL);
}
