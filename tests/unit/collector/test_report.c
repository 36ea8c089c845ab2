#include "collector/report.h"

#include "collector/digest.h"
#include "collector/summary.h"
#include "common/buf.h"
#include "tests/unit/collector/results_fixture.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static json_t *mixed;

static int read_mixed(void **state)
{
	(void)state;
	struct error err;
	int fd = kept_folder("mixed");
	mixed = summary_make(fd, "mixed", &err);
	close(fd);
	return mixed ? 0 : -1;
}

static int drop_mixed(void **state)
{
	(void)state;
	json_decref(mixed);
	return 0;
}

static char *made(void (*make)(const json_t *summary, struct buf *out), const json_t *summary)
{
	struct buf out;
	buf_init(&out, 1 << 28);
	make(summary, &out);
	assert_non_null(out.data);
	assert_int_equal(strlen(out.data), out.length);
	return out.data;
}

static size_t occurrences(const char *text, const char *what)
{
	size_t count = 0;
	while ((text = strstr(text, what)) != NULL) {
		count++;
		text += strlen(what);
	}
	return count;
}

/* Cells of one CSV record (RFC 4180); returns what follows, NULL at the end. */
static const char *next_record(const char *at, char cells[64][512], size_t *count)
{
	if (!*at)
		return NULL;
	*count = 0;
	size_t length = 0;
	bool quoted = false;
	for (;; at++) {
		if (quoted && at[0] == '"' && at[1] == '"') {
			cells[*count][length++] = '"';
			at++;
		} else if (*at == '"') {
			quoted = !quoted;
		} else if (!quoted && (*at == ',' || !strncmp(at, "\r\n", 2))) {
			cells[(*count)++][length] = '\0';
			length = 0;
			if (*at == '\r')
				return at + 2;
		} else {
			assert_true(*at && *at != '\r' && *at != '\n');
			cells[*count][length++] = *at;
		}
		assert_true(*count < 64 && length < 512);
	}
}

static void csv_has_a_row_for_each_cell_and_figure(void **state)
{
	(void)state;
	auto_free char *csv = made(report_csv, mixed);
	static char cells[64][512], titles[64][512];
	size_t columns = 0, count = 0, rows = 0, memory = 0;
	const char *at = next_record(csv, titles, &columns);
	assert_int_equal(columns, 27);
	assert_string_equal(titles[15], "figure");
	assert_string_equal(titles[17], "median");
	while ((at = next_record(at, cells, &count)) != NULL) {
		rows++;
		assert_int_equal(count, columns);
		for (size_t i = 0; i < count; i++) {
			/* a spreadsheet would run these; numbers may begin with a minus */
			char first = cells[i][0];
			assert_true(!strchr("=+@", first) || !first);
			assert_true(first != '-' || isdigit((unsigned char)cells[i][1]));
		}
		if (!strcmp(cells[2], "c") && !strcmp(cells[1], "3") &&
			!strcmp(cells[15], "memory_peak_bytes")) {
			memory++;
			assert_string_equal(cells[9], "536870912");
			assert_string_equal(cells[10], ""); /* no quota: empty, not 0 */
			assert_string_equal(cells[16], "bytes");
			assert_string_equal(cells[17], "3688448");
			assert_string_equal(cells[20], "0.9921875");
		}
	}
	assert_int_equal(memory, 1);
	const json_t *list = json_object_get(mixed, "cells");
	size_t figures = json_object_size(json_object_get(json_array_get(list, 0), "figures"));
	assert_int_equal(rows, json_array_size(list) * figures);
	assert_non_null(strstr(csv, ",'=cmd|' /C calc'!A0,"));
}

static void markdown_tables_are_whole_and_hold_no_markup_from_outside(void **state)
{
	(void)state;
	auto_free char *text = made(report_markdown, mixed);
	assert_null(strchr(text, '\033'));
	assert_non_null(strstr(text, "\\<script\\>alert(1)\\</script\\>"));
	assert_non_null(strstr(text, "every kind of outcome \\| \\<b\\>and\\</b\\> hostile names"));
	/* no tag, and in each table as many bars in a row as in the one above */
	size_t bars_above = 0;
	for (char *line = text; *line;) {
		char *end = strchr(line, '\n');
		assert_non_null(end);
		size_t bars = 0;
		for (char *c = line; c < end; c++) {
			bool escaped = c > line && c[-1] == '\\';
			assert_true(*c != '<' || escaped);
			bars += *c == '|' && !escaped;
		}
		if (*line != '|')
			bars = 0;
		assert_true(!bars || !bars_above || bars == bars_above);
		bars_above = bars;
		line = end + 1;
	}
	assert_non_null(
		strstr(text, "| supported | C needs at most half of Node's memory | 0.125 |"));
	assert_non_null(strstr(text, "run 13, bun × 1: late_self: the mock was late"));
}

static void what_is_shipped_and_believed_is_a_table_of_what_is_known(void **state)
{
	(void)state;
	json_auto_t *summary = json_deep_copy(mixed);
	json_object_set_new(summary, "environment",
		json_pack("{s:{s:{s:i, s:{s:i, s:i}, s:n}, s:{s:n, s:n, s:{s:i, s:n, s:i}}}}",
			"contenders", "c", "artifact_bytes", 660 << 10, "image_bytes", "compressed",
			30 << 20, "unpacked", 79 << 20, "beliefs", "node", "artifact_bytes",
			"image_bytes", "beliefs", "cpus", 1, "heap_limit_bytes", "threads", 7));
	auto_free char *text = made(report_markdown, summary);
	assert_non_null(strstr(text, "## What is shipped, and what contenders believe"));
	/* columns of which nothing is known are left out */
	static const char *const rows[] = {
		"| contender                     | files, MiB | image, compressed | unpacked | "
		"believed CPUs | threads "
		"|",
		"| c                             |      0.645 |              30.0 |     79.0 |     "
		"        – |       – "
		"|",
		"| node                          |          – |                 – |        – |     "
		"        1 |       7 "
		"|",
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		assert_non_null(strstr(text, rows[i]));
}

static void the_terminal_table(void **state)
{
	(void)state;
	auto_free char *plain = summary_terminal(mixed, false, SIZE_MAX);
	assert_null(strchr(plain, '\033')); /* the fixture holds some */
	assert_non_null(strstr(plain, "?[31m<b>expected</b> |a| got `b`"));
	assert_non_null(
		strstr(plain, "c                                 3        –      –      2.48   "
			      "best    3.52   best      1.04   best   873    102  8/8\n"));
	assert_non_null(
		strstr(plain, "node                       3  quick     wrong        1  52"));
	auto_free char *colour = summary_terminal(mixed, true, SIZE_MAX);
	assert_non_null(strstr(colour, "\033[31m7/8\033[0m"));
	/* nothing but our own colours: bold, red, green and the end of each */
	assert_int_equal(occurrences(colour, "\033"),
		occurrences(colour, "\033[1m") + occurrences(colour, "\033[31m") +
			occurrences(colour, "\033[32m") + occurrences(colour, "\033[0m"));
	assert_int_equal(occurrences(colour, "\033["), 2 * occurrences(colour, "\033[0m"));
}

/* More is better, nobody is compared by a ratio, and at the limit it may be fewer. */
static void sessions_per_gib_and_per_core(void **state)
{
	(void)state;
	json_auto_t *summary = json_deep_copy(mixed);
	json_t *cells = json_object_get(summary, "cells"), *cell;
	size_t i;
	json_array_foreach(cells, i, cell)
	{
		const char *name = json_string_value(json_object_get(cell, "contender"));
		json_t *figures = json_object_get(cell, "figures");
		if (!strcmp(name, "node"))
			json_object_set_new(json_object_get(figures, "memory_peak_bytes"),
				"at_least", json_true());
	}
	auto_free char *text = made(report_markdown, summary);
	static const char *const rows[] = {
		"/GiB | /core |  ok |",
		"\n| sessions_per_gib     |        1 | c                             |    407 |    "
		" "
		"[405, 409] | per GiB  |    8 |      – |             – |\n",
		"\n| sessions_per_gib     |        1 | node                          | ≤ 50.8 |   "
		"[50.6, 51.1] | per GiB  |    8 |      – |             – |\n",
		"\n| sessions_per_gib     |        1 | \\<script\\>alert(1)\\</script\\> |    409 "
		"|        "
		"408–409 | per GiB  |    2 |   best |             – |\n",
		"\n| sessions_per_core    |        1 | c                             |    102 |    "
		"[98.8, 106] | per core |    8 |   best |             – |\n",
		"\n| sessions_per_core    |        1 | node                          |   25.5 |   "
		"[24.7, 26.4] | per core |    8 |      – |             – |\n",
	};
	for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
		if (!strstr(text, rows[k]))
			print_error("not there: %s\n", rows[k]);
		assert_non_null(strstr(text, rows[k]));
	}
}

/* On a terminal of this width no row of the main tables is wider, and what went is said. */
static void the_main_table_fits_its_terminal(void **state)
{
	(void)state;
	static const struct {
		size_t width;
		const char *head;
		bool said;
	} rows[] = {
		{SIZE_MAX,
			"sessions  startup      ×  overhead      ×  memory      ×  CPU/turn      × "
			" "
			"/GiB  /core   ok\n",
			false},
		{118,
			"sessions  startup      ×  overhead      ×  memory      ×  CPU/turn      × "
			" "
			"/GiB  /core   ok\n",
			false},
		{117,
			"sessions  startup      ×  overhead      ×  memory      ×  CPU/turn      × "
			"  ok\n",
			true},
		{80, "sessions  startup  overhead  memory  CPU/turn   ok\n", true},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		auto_free char *text = summary_terminal(mixed, false, rows[i].width);
		if (!strstr(text, rows[i].head))
			print_error("%zu: %s\n", rows[i].width, text);
		assert_non_null(strstr(text, rows[i].head));
		assert_int_equal(
			strstr(text, "no room for are in summary.md") != NULL, rows[i].said);
	}
}

/* "2/2" does not tell that there should have been more. */
static void runs_that_are_missing_are_told(void **state)
{
	(void)state;
	json_auto_t *summary = json_deep_copy(mixed);
	auto_free char *markdown = made(report_markdown, summary);
	auto_free char *plain = summary_terminal(summary, false, SIZE_MAX);
	static const char told[] = "\n2 of the 8 cells have fewer valid runs than the 8 planned.\n";
	assert_non_null(strstr(markdown, told));
	assert_non_null(strstr(plain, told));
	json_object_set_new(json_object_get(summary, "plan"), "repetitions", json_integer(1));
	auto_free char *enough = made(report_markdown, summary);
	assert_null(strstr(enough, "fewer valid runs"));
}

/* What was found before the first run, and what came when the plan was gone on with. */
static void warnings_say_when(void **state)
{
	(void)state;
	json_auto_t *summary = json_deep_copy(mixed);
	json_object_set_new(summary, "warnings",
		json_pack("[{s:s, s:s, s:s}, {s:s, s:s, s:s, s:i}]", "id", "turbo", "status",
			"warn", "found", "on", "id", "swap", "status", "warn", "found", "2 GiB",
			"first_run", 41));
	auto_free char *markdown = made(report_markdown, summary);
	auto_free char *plain = summary_terminal(summary, false, SIZE_MAX);
	assert_non_null(strstr(markdown, "\n- turbo: on\n- swap: 2 GiB (when the plan was gone on "
					 "with, before run 41)\n"));
	assert_non_null(strstr(plain, "\nWarnings of the doctor\n  turbo: on\n  swap: 2 GiB (when "
				      "the plan was gone on with, before run 41)\n"));
}

/* The page less what stands in its elements style and script: those are ours, or data. */
static char *markup(const char *page)
{
	struct buf out;
	buf_init(&out, 1 << 28);
	static const struct {
		const char *open, *close;
	} cut[] = {{"<style>", "</style>"}, {"<script", "</script>"}};
	while (*page) {
		size_t plain = strlen(page), k = 0;
		for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
			const char *open = strstr(page, cut[i].open);
			if (open && (size_t)(open - page) < plain) {
				plain = (size_t)(open - page);
				k = i;
			}
		}
		buf_add(&out, page, plain);
		page += plain;
		if (!*page)
			break;
		const char *begin = strchr(page, '>') + 1, *end = strstr(begin, cut[k].close);
		assert_non_null(end);
		buf_add(&out, page, (size_t)(begin - page));
		page = end;
		buf_add(&out, page, strlen(cut[k].close));
		page += strlen(cut[k].close);
	}
	return out.data;
}

static void the_page_stands_alone_and_text_stays_text(void **state)
{
	(void)state;
	auto_free char *page = made(report_html, mixed);
	assert_non_null(strstr(page, "Content-Security-Policy\" content=\"default-src 'none';"));
	/* data, Plot and ours; an end within one of them would be one more */
	assert_int_equal(occurrences(page, "</script>"), 3);
	assert_int_equal(occurrences(page, "<!--"), 0);
	auto_free char *plain = markup(page);
	assert_null(strstr(plain, "{{"));
	assert_int_equal(occurrences(plain, "<script"), 3);
	assert_int_equal(occurrences(plain, "<img"), 0);
	assert_int_equal(occurrences(plain, "src="), occurrences(plain, "img src=x"));
	assert_int_equal(occurrences(plain, "href="), 0);
	assert_null(strstr(plain, "http:"));
	assert_null(strstr(plain, "https:"));
	assert_non_null(strstr(plain, "&lt;script&gt;alert(1)&lt;/"));
	assert_non_null(strstr(plain, "?[31m&lt;b&gt;expected&lt;/b&gt;"));
	for (const char *at = page; *at; at++)
		assert_true((unsigned char)*at >= ' ' || *at == '\n' || *at == '\t');
}

/* What a browser compares before it runs a script. */
static void only_our_scripts_may_run(void **state)
{
	(void)state;
	auto_free char *page = made(report_html, mixed);
	char *policy = strstr(page, "script-src");
	assert_non_null(policy);
	size_t length = strcspn(policy, ";");
	size_t scripts = 0;
	char *at = page;
	while ((at = strstr(at, "<script>")) != NULL) {
		at += strlen("<script>");
		size_t size = (size_t)(strstr(at, "</script>") - at);
		char digest[DIGEST_BASE64], source[80];
		digest_base64(at, size, digest);
		snprintf(source, sizeof source, "'sha256-%s'", digest);
		char *found = strstr(policy, source);
		assert_true(found && found < policy + length);
		scripts++;
	}
	assert_int_equal(scripts, 2);
	policy[length] = '\0';
	assert_int_equal(occurrences(policy, "'sha256-"), 2);
	assert_null(strstr(policy, "unsafe"));
}

static void the_page_carries_the_summary(void **state)
{
	(void)state;
	auto_free char *page = made(report_html, mixed);
	static const char open[] = "id=\"turnmeter-data\">";
	char *data = strstr(page, open);
	assert_non_null(data);
	data += sizeof open - 1;
	*strstr(data, "</script>") = '\0';
	json_auto_t *carried = json_loads(data, 0, NULL);
	assert_non_null(carried);
	/* the same as summary.json, which is printed with 12 digits as well */
	auto_free char *dump = json_dumps(mixed, JSON_REAL_PRECISION(12));
	json_auto_t *printed = json_loads(dump, 0, NULL);
	assert_true(json_equal(carried, printed));
}

/* Without a script there is the table of the terminal. */
static void the_page_has_words_without_a_script(void **state)
{
	(void)state;
	auto_free char *page = made(report_html, mixed);
	char *words = strstr(page, "<noscript>");
	assert_non_null(words);
	*strstr(words, "</noscript>") = '\0';
	static const char *const parts[] = {
		("\nc                                 3        –      –      2.48   best    3.52   "
		 "best      1.04   best   873    102  8/8\n"),
		"supported  C needs at most half of Node&#39;s memory",
		"late_self: the mock was late by its own doing, p99 812 us, bound 500 us",
		"?[31m&lt;b&gt;expected&lt;/b&gt;",
	};
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		if (!strstr(words, parts[i]))
			print_error("not in the words: %s\n", parts[i]);
		assert_non_null(strstr(words, parts[i]));
	}
}

/* Elements that have an end must be nested rightly. */
static void the_page_is_well_formed(void **state)
{
	(void)state;
	auto_free char *whole = made(report_html, mixed);
	auto_free char *page = markup(whole);
	static const char *const void_elements[] = {"meta", "!DOCTYPE"};
	char stack[64][32];
	size_t depth = 0;
	for (const char *at = strchr(page, '<'); at; at = strchr(at + 1, '<')) {
		char name[32];
		bool closes = at[1] == '/';
		size_t length = strcspn(at + 1 + closes, " >\n/");
		assert_true(length < sizeof name);
		snprintf(name, sizeof name, "%.*s", (int)length, at + 1 + closes);
		const char *end = strchr(at, '>');
		assert_non_null(end);
		bool has_end = end[-1] != '/';
		for (size_t i = 0; i < sizeof void_elements / sizeof *void_elements; i++)
			has_end = has_end && strcmp(name, void_elements[i]);
		if (closes) {
			assert_true(depth > 0);
			assert_string_equal(stack[--depth], name);
		} else if (has_end) {
			assert_true(depth < 64);
			snprintf(stack[depth++], sizeof *stack, "%s", name);
		}
	}
	assert_int_equal(depth, 0);
}

static void nothing_measured_is_still_a_report(void **state)
{
	(void)state;
	struct folder folder = folder_make(NULL);
	json_auto_t *records = json_array();
	json_t *record = folder_record(&folder, 1, "c");
	json_object_set_new(record, "valid", json_false());
	json_array_append_new(records, record);
	folder_write_runs(&folder, records, "");
	struct error err;
	json_auto_t *summary = NULL;
	assert_int_equal(report_write(folder.fd, "x", &summary, &err), 0);
	static const char *const files[] = {
		"summary.json", "summary.csv", "summary.md", "report.html"};
	for (size_t i = 0; i < sizeof files / sizeof *files; i++)
		assert_int_equal(faccessat(folder.fd, files[i], R_OK, 0), 0);
	auto_free char *page = made(report_html, summary);
	assert_non_null(strstr(page, "0/0"));
	folder_remove(&folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(csv_has_a_row_for_each_cell_and_figure),
		cmocka_unit_test(markdown_tables_are_whole_and_hold_no_markup_from_outside),
		cmocka_unit_test(what_is_shipped_and_believed_is_a_table_of_what_is_known),
		cmocka_unit_test(the_terminal_table),
		cmocka_unit_test(sessions_per_gib_and_per_core),
		cmocka_unit_test(the_main_table_fits_its_terminal),
		cmocka_unit_test(runs_that_are_missing_are_told),
		cmocka_unit_test(warnings_say_when),
		cmocka_unit_test(the_page_stands_alone_and_text_stays_text),
		cmocka_unit_test(the_page_carries_the_summary),
		cmocka_unit_test(only_our_scripts_may_run),
		cmocka_unit_test(the_page_has_words_without_a_script),
		cmocka_unit_test(the_page_is_well_formed),
		cmocka_unit_test(nothing_measured_is_still_a_report),
	};
	return cmocka_run_group_tests_name("report", tests, read_mixed, drop_mixed);
}
