#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "collector/run_facts.h"
#include "collector/samples.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define HEADER                                                                                     \
	"session,turn,attempt,connection,headers_ns,read_ns,first_ns,end_before_ns,end_after_ns,"  \
	"late_self_us,late_peer_us,tool_calls,tool_demand_ns,tool_wall_ns,bytes_in,bytes_out,"     \
	"agent_turn_ns\n"

static char folder[] = "/tmp/test_samples.XXXXXX";
static int dir_fd = -1;

static int make_folder(void **state)
{
	(void)state;
	dir_fd = mkdtemp(folder) ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	return dir_fd < 0 ? -1 : 0;
}

static int remove_folder(void **state)
{
	(void)state;
	unlinkat(dir_fd, "1.csv", 0);
	close(dir_fd);
	return rmdir(folder);
}

static json_t *ledger(const char *rows)
{
	auto_free char *text = xasprintf(
		"{\"columns\":[\"session\",\"turn\",\"attempt\",\"connection\",\"headers_ns\","
		"\"read_ns\",\"first_ns\",\"end_before_ns\",\"end_after_ns\",\"late_self_us\","
		"\"late_peer_us\",\"tool_calls\",\"tool_demand_ns\",\"tool_wall_ns\",\"bytes_in\","
		"\"bytes_out\"],\"rows\":%s}",
		rows);
	json_t *value = json_loads(text, 0, NULL);
	assert_non_null(value);
	return value;
}

static void rows_are_ordered_relative_and_joined(void **state)
{
	(void)state;
	json_auto_t *from =
		ledger("[[2,1,1,7,1100,1200,1300,1400,1500,1,2,2,50,60,700,800],"
		       "[1,2,1,8,2000,2100,null,null,null,null,null,null,null,null,9,0],"
		       "[null,null,1,8,1,1,1,1,1,1,1,1,1,1,1,1],"
		       "[1,1,2,8,1050,1060,1070,1080,1090,0,0,1,5,6,7,8]]");
	json_auto_t *agent =
		json_loads("[{\"session\":\"s1\",\"turn\":1,\"attempt\":2,\"turn_ns\":77},"
			   "{\"session\":\"s1\",\"turn\":1,\"attempt\":2,\"turn_ns\":78},"
			   "{\"session\":\"s2\",\"turn\":1,\"attempt\":9,\"turn_ns\":5},"
			   "{\"session\":\"s2x\",\"turn\":1,\"attempt\":1,\"turn_ns\":5},"
			   "{\"session\":\"s1\",\"turn\":2,\"attempt\":1,\"turn_ns\":-1},"
			   "{\"session\":\"s1\",\"turn\":2,\"attempt\":1,\"turn_ns\":\"5\"},"
			   "{\"session\":null},[],\"s1\",null]",
			0, NULL);
	assert_non_null(agent);
	struct error err;
	struct samples auto_samples samples;
	assert_int_equal(samples_from_ledger(from, agent, 1000, &samples, &err), 0);
	assert_int_equal(samples.count, 3);
	assert_int_equal(samples.rows[0].session, 1);
	assert_int_equal(samples.rows[0].attempt, 2);
	assert_int_equal(samples.rows[0].headers_ns, 50);
	assert_int_equal(samples.rows[0].end_after_ns, 90);
	assert_int_equal(samples.rows[0].tool_demand_ns, 5);
	assert_int_equal(samples.rows[0].agent_turn_ns, 77);
	assert_int_equal(samples.rows[1].turn, 2);
	assert_true(samples.rows[1].first_ns == FACT_MISSING);
	assert_true(samples.rows[1].agent_turn_ns == FACT_MISSING);
	assert_int_equal(samples.rows[2].session, 2);
	assert_int_equal(samples.rows[2].bytes_out, 800);
	assert_true(samples.rows[2].agent_turn_ns == FACT_MISSING);
}

static void what_is_written_is_read(void **state)
{
	(void)state;
	json_auto_t *from =
		ledger("[[2,1,1,7,1100,1200,1300,1400,1500,1,2,2,50,60,700,800],"
		       "[1,2,1,8,900,2100,null,null,null,null,null,null,null,null,9,0]]");
	struct error err;
	struct samples auto_samples samples, auto_samples again;
	assert_int_equal(samples_from_ledger(from, NULL, 1000, &samples, &err), 0);
	struct file_writer writer;
	assert_int_equal(file_writer_open(&writer, dir_fd, "1.csv", &err), 0);
	samples_write(&samples, writer.stream);
	assert_int_equal(file_writer_commit(&writer, &err), 0);
	assert_int_equal(samples_read(dir_fd, "1.csv", &again, &err), 0);
	assert_int_equal(again.count, 2);
	assert_int_equal(again.rows[0].headers_ns, -100);
	assert_memory_equal(again.rows, samples.rows, 2 * sizeof *samples.rows);
}

static void bad_ledgers_are_refused(void **state)
{
	(void)state;
	static const struct {
		const char *text, *message;
	} rows[] = {
		{"{}", "ledger: columns and rows must be arrays"},
		{"{\"columns\":[\"session\"],\"rows\":[]}",
			"ledger: columns: 1 of the 16 known ones, must be all"},
	};
	struct error err;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		json_auto_t *value = json_loads(rows[i].text, 0, NULL);
		struct samples auto_samples samples = {NULL, 0};
		assert_int_equal(samples_from_ledger(value, NULL, 0, &samples, &err), -1);
		assert_string_equal(err.text, rows[i].message);
	}
	static const struct {
		const char *text, *message;
	} contents[] = {
		{"[[1,2]]", "ledger: rows[0]: must be an array of 16"},
		{"[[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,\"x\"]]",
			"ledger: rows[0]: bytes_out: must be an integer, is \"x\""},
		{"[[1,1,1,1,9223372036854775807,1,1,1,1,1,1,1,1,1,1,1]]",
			"ledger: rows[0]: headers_ns: must be an integer, is 9223372036854775807"},
	};
	for (size_t i = 0; i < sizeof contents / sizeof *contents; i++) {
		json_auto_t *value = ledger(contents[i].text);
		struct samples auto_samples samples = {NULL, 0};
		assert_int_equal(samples_from_ledger(value, NULL, 0, &samples, &err), -1);
		assert_string_equal(err.text, contents[i].message);
	}
}

static void bad_files_are_refused_with_their_line(void **state)
{
	(void)state;
	static const struct {
		const char *text, *message;
	} rows[] = {
		{"", "1.csv: is empty, must begin with the column names"},
		{"session,turn\n", "1.csv:1: column attempt is absent"},
		{"session,turn,session\n", "1.csv:1: column session stands twice"},
		{HEADER "1,1,1,,,,,,,,,,,,,\n", "1.csv:2: must have 17 cells"},
		{HEADER "1,1,1,,,,,,,,,,,,,,,\n", "1.csv:2: must have 17 cells"},
		{HEADER "1,1,1,,,,,,,,,,,,,,\n1,1,1,,,x,,,,,,,,,,,\n",
			"1.csv:3: read_ns: must be an integer or empty"},
		{HEADER "1,1,1,,,1x,,,,,,,,,,,\n", "1.csv:2: read_ns: must be an integer or empty"},
		{HEADER "1,1,1,,,-,,,,,,,,,,,\n", "1.csv:2: read_ns: must be an integer or empty"},
		{HEADER "1,1,1,,,9223372036854775808,,,,,,,,,,,\n",
			"1.csv:2: read_ns: must be an integer or empty"},
		{HEADER "1,,1,,,,,,,,,,,,,,\n", "1.csv:2: turn: must be at least 1"},
		{HEADER "0,1,1,,,,,,,,,,,,,,\n", "1.csv:2: session: must be at least 1"},
		{HEADER "1,1,1,,,,,,,,,,,,,,", "1.csv:2: must end in LF: the file was cut off"},
	};
	struct error err;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		assert_int_equal(
			file_write(dir_fd, "1.csv", rows[i].text, strlen(rows[i].text), &err), 0);
		struct samples auto_samples samples = {NULL, 0};
		assert_int_equal(samples_read(dir_fd, "1.csv", &samples, &err), -1);
		assert_string_equal(err.text, rows[i].message);
	}
	struct samples auto_samples samples = {NULL, 0};
	assert_int_equal(samples_read(dir_fd, "none.csv", &samples, &err), -1);
	assert_int_equal(err.code, ENOENT);
}

static void further_columns_and_any_order_are_fine(void **state)
{
	(void)state;
	static const char text[] =
		"more,turn,session,attempt,connection,headers_ns,read_ns,first_ns,end_before_ns,"
		"end_after_ns,late_self_us,late_peer_us,tool_calls,tool_demand_ns,tool_wall_ns,"
		"bytes_in,"
		"bytes_out,agent_turn_ns\nany text,3,4,1,,,,,,,,,,,,,,12\n";
	struct error err;
	assert_int_equal(file_write(dir_fd, "1.csv", text, sizeof text - 1, &err), 0);
	struct samples auto_samples samples;
	assert_int_equal(samples_read(dir_fd, "1.csv", &samples, &err), 0);
	assert_int_equal(samples.count, 1);
	assert_int_equal(samples.rows[0].turn, 3);
	assert_int_equal(samples.rows[0].session, 4);
	assert_int_equal(samples.rows[0].agent_turn_ns, 12);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_ordered_relative_and_joined),
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(bad_ledgers_are_refused),
		cmocka_unit_test(bad_files_are_refused_with_their_line),
		cmocka_unit_test(further_columns_and_any_order_are_fine),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
