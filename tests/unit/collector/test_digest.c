#include "collector/digest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(digests_of_known_texts),
	};
	return cmocka_run_group_tests_name("digest", tests, NULL, NULL);
}
