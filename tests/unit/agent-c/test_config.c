#include "agent/c/config.h"

#include "common/error.h"
#include "tests/unit/agent-c/fixture.h"

#include <stdio.h>
#include <unistd.h>

static char prompt_path[] = "/tmp/test_config_XXXXXX";

static void set_good(void)
{
	clearenv();
	setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1", 1);
	setenv("OPENAI_API_KEY", "sk-key", 1);
	setenv("OPENAI_MODEL", "m", 1);
	setenv("AGENT_SYSTEM_PROMPT_FILE", prompt_path, 1);
	setenv("AGENT_TASK", "task", 1);
}

static int make_prompt(void **state)
{
	(void)state;
	int fd = mkstemp(prompt_path);
	bool good = fd >= 0 && write(fd, "pro\0mpt", 7) == 7;
	close(fd);
	return good ? 0 : -1;
}

static int remove_prompt(void **state)
{
	(void)state;
	return unlink(prompt_path);
}

static void defaults(void **state)
{
	(void)state;
	struct config config;
	struct error err;
	set_good();
	setenv("AGENT_SESSIONS", "", 1);
	setenv("AGENT_REPORT", "", 1);
	assert_int_equal(config_load(&config, &err), 0);
	assert_string_equal(config.url, "http://127.0.0.1:1/v1/chat/completions");
	assert_string_equal(config.api_key, "sk-key");
	assert_int_equal(config.system_prompt.length, 7);
	assert_memory_equal(config.system_prompt.data, "pro\0mpt", 7);
	assert_int_equal(config.sessions, 1);
	assert_int_equal(config.tool_timeout_ms, 60000);
	assert_int_equal(config.tool_output_max, 65536);
	assert_int_equal(config.idle_timeout_ms, 60000);
	assert_int_equal(config.max_retries, 4);
	assert_null(config.ca_file);
	assert_false(config.report);
	config_release(&config);
}

struct row {
	const char *name, *value; /* value NULL: unset */
	bool good;
};

static const struct row rows[] = {
	{"OPENAI_BASE_URL", NULL, false},
	{"OPENAI_BASE_URL", "", false},
	{"OPENAI_BASE_URL", "localhost", false},
	{"OPENAI_BASE_URL", "ftp://host/v1", false},
	{"OPENAI_BASE_URL", "http://", false},
	{"OPENAI_BASE_URL", "http://host:99999/v1", false},
	{"OPENAI_BASE_URL", "http://host/v1?x=1", false},
	{"OPENAI_BASE_URL", "http://host/v1#x", false},
	{"OPENAI_BASE_URL", "http://host/v 1", false},
	{"OPENAI_BASE_URL", "http://host/v1/", true},
	{"OPENAI_BASE_URL", "https://host", true},
	{"OPENAI_BASE_URL", "http://[::1]:8080/v1", true},
	{"OPENAI_API_KEY", NULL, false},
	{"OPENAI_API_KEY", "a\nb", false},
	{"OPENAI_API_KEY", "a b", false},
	{"OPENAI_API_KEY", "\u00e9", false},
	{"OPENAI_MODEL", NULL, false},
	{"OPENAI_MODEL", "\u00e9 \"x\"", true},
	{"AGENT_TASK", NULL, false},
	{"AGENT_TASK", "", false},
	{"AGENT_SYSTEM_PROMPT_FILE", NULL, false},
	{"AGENT_SYSTEM_PROMPT_FILE", "/nonexistent", false},
	{"AGENT_SYSTEM_PROMPT_FILE", "/", false},
	{"AGENT_SESSIONS", "0", false},
	{"AGENT_SESSIONS", "10000", true},
	{"AGENT_SESSIONS", "10001", false},
	{"AGENT_SESSIONS", "1x", false},
	{"AGENT_SESSIONS", "many", false},
	{"AGENT_TOOL_TIMEOUT_MS", "0", false},
	{"AGENT_TOOL_TIMEOUT_MS", "86400000", true},
	{"AGENT_TOOL_TIMEOUT_MS", "86400001", false},
	{"AGENT_TOOL_OUTPUT_MAX", "15", false},
	{"AGENT_TOOL_OUTPUT_MAX", "16", true},
	{"AGENT_TOOL_OUTPUT_MAX", "16777216", true},
	{"AGENT_TOOL_OUTPUT_MAX", "16777217", false},
	{"AGENT_IDLE_TIMEOUT_MS", "0", false},
	{"AGENT_IDLE_TIMEOUT_MS", "1", true},
	{"AGENT_IDLE_TIMEOUT_MS", "-1", false},
	{"AGENT_MAX_RETRIES", "0", true},
	{"AGENT_MAX_RETRIES", "100", true},
	{"AGENT_MAX_RETRIES", "101", false},
	{"AGENT_CA_FILE", "/nonexistent", false},
	{"AGENT_CA_FILE", "/dev/null", false},
	{"AGENT_REPORT", "0", true},
	{"AGENT_REPORT", "1", true},
	{"AGENT_REPORT", "yes", false},
	{"AGENT_CONTRACT", "1", true},
	{"AGENT_CONTRACT", "2", false},
};

static void each_variable_is_checked_and_named(void **state)
{
	(void)state;
	for (size_t i = 0; i < ROWS(rows); i++) {
		struct config config;
		struct error err = {0};
		set_good();
		if (rows[i].value)
			setenv(rows[i].name, rows[i].value, 1);
		else
			unsetenv(rows[i].name);
		int result = config_load(&config, &err);
		config_release(&config);
		if (result != (rows[i].good ? 0 : -1))
			fail_msg("%s=%s: %s", rows[i].name, rows[i].value, err.text);
		if (result && strncmp(err.text, rows[i].name, strlen(rows[i].name)))
			fail_msg("'%s' does not begin with %s", err.text, rows[i].name);
	}
}

static void ca_file_must_hold_a_certificate(void **state)
{
	(void)state;
	struct config config;
	struct error err;
	set_good();
	setenv("AGENT_CA_FILE", prompt_path, 1);
	assert_int_equal(config_load(&config, &err), -1);
	config_release(&config);
	assert_non_null(strstr(err.text, "AGENT_CA_FILE: '/tmp/test_config_"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults),
		cmocka_unit_test(each_variable_is_checked_and_named),
		cmocka_unit_test(ca_file_must_hold_a_certificate),
	};
	return cmocka_run_group_tests_name("agent-c config", tests, make_prompt, remove_prompt);
}
