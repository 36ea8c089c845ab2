#include "agent/c/target.h"

#include "common/error.h"
#include "tests/unit/agent-c/fixture.h"

static const struct row {
	const char *base, *url; /* base NULL: url is absolute */
	bool tls;
	const char *host, *port, *authority, *path;
} rows[] = {
	{NULL, "http://127.0.0.1:8080/v1/x", false, "127.0.0.1", "8080", "127.0.0.1:8080", "/v1/x"},
	{NULL, "http://127.0.0.1/v1?a=b&c", false, "127.0.0.1", "80", "127.0.0.1", "/v1?a=b&c"},
	{NULL, "http://[::1]:9/x", false, "::1", "9", "[::1]:9", "/x"},
	{NULL, "http://[::ffff:1.2.3.4]/x", false, "::ffff:1.2.3.4", "80", "[::ffff:1.2.3.4]",
		"/x"},
	{NULL, "https://10.1.2.3/x", true, "10.1.2.3", "443", "10.1.2.3", "/x"},
	{NULL, "HTTPS://A-b.example:8443", true, "A-b.example", "8443", "A-b.example:8443", "/"},
	{NULL, "http://localhost:/x", false, "localhost", "80", "localhost", "/x"},
	{NULL, "http://a:65535?q", false, "a", "65535", "a:65535", "/?q"},
	{NULL, "http://a/x?y#z", false, "a", "80", "a", "/x?y"},
	{NULL, "http://a#z", false, "a", "80", "a", "/"},
	/* where answers redirect to */
	{"http://h:8/v1/x", "/y?z", false, "h", "8", "h:8", "/y?z"},
	{"http://h:8/v1/x?a/b", "y", false, "h", "8", "h:8", "/v1/y"},
	{"http://h:8/v1/x?a", "?b", false, "h", "8", "h:8", "/v1/x?b"},
	{"http://h:8/v1/x", "y:1/z", false, NULL, NULL, NULL, NULL},
	{"http://h:8/v1/x", "./y:1", false, "h", "8", "h:8", "/v1/y:1"},
	{"http://h:8/v1/x?y", "", false, "h", "8", "h:8", "/v1/x?y"},
	{"http://h:8/v1/x?y", "#z", false, "h", "8", "h:8", "/v1/x?y"},
	/* RFC 3986, 5.4: from http://a/b/c/d;p?q */
	{"http://a/b/c/d;p?q", "g", false, "a", "80", "a", "/b/c/g"},
	{"http://a/b/c/d;p?q", "./g", false, "a", "80", "a", "/b/c/g"},
	{"http://a/b/c/d;p?q", "g/", false, "a", "80", "a", "/b/c/g/"},
	{"http://a/b/c/d;p?q", "/g", false, "a", "80", "a", "/g"},
	{"http://a/b/c/d;p?q", "?y", false, "a", "80", "a", "/b/c/d;p?y"},
	{"http://a/b/c/d;p?q", "g?y", false, "a", "80", "a", "/b/c/g?y"},
	{"http://a/b/c/d;p?q", ";x", false, "a", "80", "a", "/b/c/;x"},
	{"http://a/b/c/d;p?q", "g;x?y#s", false, "a", "80", "a", "/b/c/g;x?y"},
	{"http://a/b/c/d;p?q", ".", false, "a", "80", "a", "/b/c/"},
	{"http://a/b/c/d;p?q", "./", false, "a", "80", "a", "/b/c/"},
	{"http://a/b/c/d;p?q", "..", false, "a", "80", "a", "/b/"},
	{"http://a/b/c/d;p?q", "../", false, "a", "80", "a", "/b/"},
	{"http://a/b/c/d;p?q", "../g", false, "a", "80", "a", "/b/g"},
	{"http://a/b/c/d;p?q", "../..", false, "a", "80", "a", "/"},
	{"http://a/b/c/d;p?q", "../../g", false, "a", "80", "a", "/g"},
	{"http://a/b/c/d;p?q", "../../../g", false, "a", "80", "a", "/g"},
	{"http://a/b/c/d;p?q", "../../../../g", false, "a", "80", "a", "/g"},
	{"http://a/b/c/d;p?q", "/./g", false, "a", "80", "a", "/g"},
	{"http://a/b/c/d;p?q", "/../g", false, "a", "80", "a", "/g"},
	{"http://a/b/c/d;p?q", "g.", false, "a", "80", "a", "/b/c/g."},
	{"http://a/b/c/d;p?q", ".g", false, "a", "80", "a", "/b/c/.g"},
	{"http://a/b/c/d;p?q", "g..", false, "a", "80", "a", "/b/c/g.."},
	{"http://a/b/c/d;p?q", "..g", false, "a", "80", "a", "/b/c/..g"},
	{"http://a/b/c/d;p?q", "./../g", false, "a", "80", "a", "/b/g"},
	{"http://a/b/c/d;p?q", "./g/.", false, "a", "80", "a", "/b/c/g/"},
	{"http://a/b/c/d;p?q", "g/./h", false, "a", "80", "a", "/b/c/g/h"},
	{"http://a/b/c/d;p?q", "g/../h", false, "a", "80", "a", "/b/c/h"},
	{"http://a/b/c/d;p?q", "g;x=1/../y", false, "a", "80", "a", "/b/c/y"},
	{"http://a/b/c/d;p?q", "g?y/./x", false, "a", "80", "a", "/b/c/g?y/./x"},
	{"http://a/b/c/d;p?q", "g?y/../x", false, "a", "80", "a", "/b/c/g?y/../x"},
	{"http://a/b/c/d;p?q", "g#s/../x", false, "a", "80", "a", "/b/c/g"},
	{"http://a/b/c/d;p?q", "..?y", false, "a", "80", "a", "/b/?y"},
	{"http://a/b/c/d;p?q", "g//../h", false, "a", "80", "a", "/b/c/g/h"},
	{"http://a/b/c/d;p?q", "http://b/x/../y/./z", false, "b", "80", "b", "/y/z"},
	{NULL, "http://a/v1/../v2/x?y/../z", false, "a", "80", "a", "/v2/x?y/../z"},
	{"http://h:8", "y", false, "h", "8", "h:8", "/y"},
	{"https://[::1]:8/v1/x", "/y", true, "::1", "8", "[::1]:8", "/y"},
	{"http://h:8/v1/x", "//[::2]/y", false, "::2", "80", "[::2]", "/y"},
	{"https://h:8/v1/x", "//b", true, "b", "443", "b", "/"},
	{"http://h:8/v1/x", "https://b/y", true, "b", "443", "b", "/y"},
	{"http://h:8/v1/x", "/a b\xc3\xa9#f", false, "h", "8", "h:8", "/a%20b%C3%A9"},
	/* none */
	{NULL, "", false, NULL, NULL, NULL, NULL},
	{NULL, "127.0.0.1:8080/v1", false, NULL, NULL, NULL, NULL},
	{NULL, "ftp://a/x", false, NULL, NULL, NULL, NULL},
	{NULL, "http:/a/x", false, NULL, NULL, NULL, NULL},
	{NULL, "http://", false, NULL, NULL, NULL, NULL},
	{NULL, "http:///x", false, NULL, NULL, NULL, NULL},
	{NULL, "http://:80/x", false, NULL, NULL, NULL, NULL},
	{NULL, "http://a b/", false, NULL, NULL, NULL, NULL},
	{NULL, "http://a/b c", false, NULL, NULL, NULL, NULL},
	{NULL, "http://a/b\r\nX: y", false, NULL, NULL, NULL, NULL},
	{NULL, "http://a\r\nX: y/", false, NULL, NULL, NULL, NULL},
	{NULL, "http://user:secret@a/x", false, NULL, NULL, NULL, NULL},
	{NULL, "http://user@a/x", false, NULL, NULL, NULL, NULL},
	{NULL, "http://a:0/", false, NULL, NULL, NULL, NULL},
	{NULL, "http://a:65536/", false, NULL, NULL, NULL, NULL},
	{NULL, "http://a:99999999999999999999/", false, NULL, NULL, NULL, NULL},
	{NULL, "http://a:8x/", false, NULL, NULL, NULL, NULL},
	{NULL, "http://a:-8/", false, NULL, NULL, NULL, NULL},
	{NULL, "http://::1/", false, NULL, NULL, NULL, NULL},
	{NULL, "http://[::1/", false, NULL, NULL, NULL, NULL},
	{NULL, "http://[]/", false, NULL, NULL, NULL, NULL},
	{NULL, "http://[::1]x/", false, NULL, NULL, NULL, NULL},
	{NULL, "http://[fe80::1%25eth0]/", false, NULL, NULL, NULL, NULL},
	{"http://h:8/v1/x", "mailto:a", false, NULL, NULL, NULL, NULL},
	{"http://h:8/v1/x", "//", false, NULL, NULL, NULL, NULL},
};

static int take(const struct row *row, struct target *target, struct error *err)
{
	struct target base;
	if (!row->base)
		return target_init(target, row->url, err);
	assert_int_equal(target_init(&base, row->base, err), 0);
	int result = target_init_relative(target, &base, row->url, err);
	target_release(&base);
	return result;
}

static void test_taken_apart(void **state)
{
	(void)state;
	for (size_t i = 0; i < ROWS(rows); i++) {
		const struct row *row = &rows[i];
		struct target target;
		struct error err = {0};
		int result = take(row, &target, &err);
		if (!row->host) {
			assert_int_equal(result, -1);
			assert_non_null(strstr(err.text, "no http:// or https:// address: '"));
			continue;
		}
		assert_string_equal(err.text, "");
		assert_int_equal(result, 0);
		assert_int_equal(target.tls, row->tls);
		assert_string_equal(target.host, row->host);
		assert_string_equal(target.port, row->port);
		assert_string_equal(target.authority, row->authority);
		assert_string_equal(target.path, row->path);
		target_release(&target);
	}
}

static void test_same_origin(void **state)
{
	(void)state;
	static const struct {
		const char *url;
		bool same;
	} others[] = {{"http://a.example:80/y?z", true}, {"HTTP://A.EXAMPLE/", true},
		{"https://a.example:80/", false}, {"http://a.example:8/", false},
		{"http://a.example:800/", false}, {"http://b.example/", false}};
	struct target target, other;
	struct error err;
	assert_int_equal(target_init(&target, "http://a.example/x", &err), 0);
	for (size_t i = 0; i < ROWS(others); i++) {
		assert_int_equal(target_init(&other, others[i].url, &err), 0);
		assert_int_equal(target_is_same_origin(&target, &other), others[i].same);
		target_release(&other);
	}
	target_release(&target);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_taken_apart),
		cmocka_unit_test(test_same_origin),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
