#include "agent/c/names.h"

#include "agent/c/target.h"
#include "common/error.h"
#include "tests/unit/agent-c/fixture.h"
#include "tests/unit/agent-c/resolver.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>

static int look_up(
	struct names *names, const char *url, const struct addrinfo **addresses, struct error *err)
{
	struct target target;
	assert_int_equal(target_init(&target, url, err), 0);
	int result = names_look_up(names, &target, addresses, err);
	target_release(&target);
	return result;
}

static void check_address(const char *url, int family, const char *text, int port)
{
	struct names names = {0};
	struct error err;
	const struct addrinfo *address;
	char seen[INET6_ADDRSTRLEN];
	assert_int_equal(look_up(&names, url, &address, &err), 0);
	assert_int_equal(address_count(address), 1);
	assert_int_equal(address->ai_family, family);
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)address->ai_addr;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address->ai_addr;
	bool is_v6 = family == AF_INET6;
	inet_ntop(family, is_v6 ? (const void *)&v6->sin6_addr : &v4->sin_addr, seen, sizeof seen);
	assert_string_equal(seen, text);
	assert_int_equal(ntohs(is_v6 ? v6->sin6_port : v4->sin_port), port);
	assert_ptr_equal(address_number(address, 0), address);
	assert_null(address_number(address, 1));
	assert_null(address_number(address, 7));
	names_release(&names);
}

static void test_literals(void **state)
{
	(void)state;
	check_address("http://127.0.0.1:8080/", AF_INET, "127.0.0.1", 8080);
	check_address("http://[::1]/", AF_INET6, "::1", 80);
}

static void test_each_name_once(void **state)
{
	(void)state;
	static const struct known_name known[] = {
		{"a.test", {"127.0.0.2", "127.0.0.3", "::1"}}, {"b.test", {"127.0.0.4"}}, {0}};
	struct names names = {0};
	struct error err;
	const struct addrinfo *a, *again, *b;
	known_names = known;
	look_ups = 0;
	assert_int_equal(look_up(&names, "http://a.test/x", &a, &err), 0);
	assert_int_equal(look_up(&names, "http://b.test/", &b, &err), 0);
	assert_int_equal(look_up(&names, "http://A.test:80/y", &again, &err), 0);
	assert_ptr_equal(a, again);
	assert_int_equal(look_ups, 2);
	assert_int_equal(address_count(a), 3);
	assert_int_equal(address_number(a, 2)->ai_family, AF_INET6);
	assert_null(address_number(a, 3));
	assert_int_equal(look_up(&names, "http://a.test:81/", &a, &err), 0);
	assert_int_equal(look_ups, 3);
	names_release(&names);
	names_release(&names);
}

static void test_many(void **state)
{
	(void)state;
	enum { NAMES = 100 };
	static char texts[NAMES][32];
	static struct known_name known[NAMES + 1];
	struct names names = {0};
	struct error err;
	const struct addrinfo *address;
	for (int i = 0; i < NAMES; i++) {
		snprintf(texts[i], sizeof texts[i], "n%d.test", i);
		known[i] = (struct known_name){texts[i], {"127.0.0.1"}};
	}
	known_names = known;
	look_ups = 0;
	/* What is asked for again and again stays known, however many others there are. */
	for (int i = 1; i < NAMES; i++) {
		char url[64];
		snprintf(url, sizeof url, "http://n%d.test/", i);
		assert_int_equal(look_up(&names, "http://n0.test/", &address, &err), 0);
		assert_int_equal(look_up(&names, url, &address, &err), 0);
	}
	assert_int_equal(look_ups, NAMES);
	/* The last ones are known as well, the first ones are not any more. */
	assert_int_equal(look_up(&names, "http://n90.test/", &address, &err), 0);
	assert_int_equal(look_ups, NAMES);
	assert_int_equal(look_up(&names, "http://n1.test/", &address, &err), 0);
	assert_int_equal(look_ups, NAMES + 1);
	names_release(&names);
}

static void test_unknown(void **state)
{
	(void)state;
	static const struct known_name none[] = {{0}};
	struct names names = {0};
	struct error err;
	const struct addrinfo *address = NULL;
	known_names = none;
	look_ups = 0;
	/* Again only after a while. */
	for (int i = 0; i < 3; i++) {
		assert_int_equal(look_up(&names, "http://no.test/", &address, &err), -1);
		assert_non_null(strstr(err.text, "cannot look up 'no.test': "));
		assert_null(address);
	}
	assert_int_equal(look_ups, 1);
	names_release(&names);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_literals),
		cmocka_unit_test(test_each_name_once),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_unknown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
