/*
 * Results folders with anything in them: reading must end in a message or in reports that hold what
 * they promise. The first byte chooses: 'r' makes the rest a line of runs.jsonl, 's' a sample file;
 * anything else edits a right record, in pieces of member (1 byte), length (1) and the new value as
 * JSON, or as a text where it is none.
 */
#include "collector/report.h"
#include "collector/summary.h"
#include "common/buf.h"
#include "common/json.h"
#include "tests/unit/collector/results_fixture.h"

#include <stdint.h>
#include <sys/stat.h>

static struct folder folder;
static json_t *right; /* records of two contenders */

static void stop(void)
{
	json_decref(right);
	folder_remove(&folder);
}

static void start(void)
{
	folder = folder_make(NULL);
	atexit(stop);
	right = json_array();
	json_array_append_new(right, folder_record(&folder, 1, "c"));
	json_array_append_new(right, folder_record(&folder, 2, "node"));
	mkdirat(folder.fd, "samples", 0755);
	for (int64_t run = 1; run <= 2; run++) {
		struct run_identity identity = fixture_identity();
		identity.run = run;
		struct run_facts facts = fixture_facts();
		struct error err;
		if (record_write_samples(folder.fd, &identity, &facts, &err))
			abort();
		fixture_release(&facts);
	}
}

static void edit(json_t *record, const uint8_t *data, size_t size)
{
	while (size > 2) {
		size_t member = data[0] % json_object_size(record), length = data[1];
		length = length < size - 2 ? length : size - 2;
		void *at = json_object_iter(record);
		while (member--)
			at = json_object_iter_next(record, at);
		json_t *value = json_loadb((const char *)data + 2, length, JSON_DECODE_ANY, NULL);
		if (!value) {
			auto_free char *text = strndup((const char *)data + 2, length);
			value = json_text(text, length);
		}
		json_object_iter_set_new(record, at, value);
		data += length + 2;
		size -= length + 2;
	}
}

static void demand(bool holds)
{
	if (!holds)
		abort();
}

static size_t occurrences(const char *text, const char *what)
{
	size_t count = 0;
	for (; (text = strstr(text, what)) != NULL; text += strlen(what))
		count++;
	return count;
}

static void check_reports(const json_t *summary)
{
	struct buf page, csv, text;
	buf_init(&page, 1 << 28);
	buf_init(&csv, 1 << 28);
	buf_init(&text, 1 << 28);
	report_html(summary, &page);
	report_csv(summary, &csv);
	report_markdown(summary, &text);
	auto_free char *table = summary_terminal(summary, false, 80);
	demand(occurrences(page.data, "<script") == 1);
	demand(occurrences(page.data, "</script") == 1);
	demand(!strchr(page.data, '\033') && !strchr(table, '\033') && !strchr(text.data, '\033'));
	demand(!strstr(page.data, "nan\"") && !strstr(page.data, "inf\""));
	/* no cell of the spreadsheet begins with what would be run */
	for (const char *at = csv.data; (at = strpbrk(at, ",\n")) != NULL;) {
		at++;
		demand(!strchr("=+@", *at) || !*at);
	}
	buf_release(&page);
	buf_release(&csv);
	buf_release(&text);
}

static void write_file(const char *name, const void *bytes, size_t size)
{
	int fd = openat(folder.fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	demand(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
	close(fd);
}

static void write_records(const json_t *records, const uint8_t *rest, size_t size)
{
	struct buf log;
	buf_init(&log, 1 << 24);
	size_t i;
	const json_t *record;
	json_array_foreach(records, i, record)
	{
		auto_free char *line = json_dumps(record, RECORD_DUMP_FLAGS);
		buf_addf(&log, "%s\n", line);
	}
	buf_add(&log, rest, size);
	write_file("runs.jsonl", log.data, log.length);
	buf_release(&log);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!folder.fd)
		start();
	if (!size)
		return 0;
	json_auto_t *records = json_deep_copy(right);
	if (data[0] == 's')
		write_file("samples/2.csv", data + 1, size - 1);
	else if (data[0] != 'r')
		edit(json_array_get(records, 1), data + 1, size - 1);
	write_records(records, data + 1, data[0] == 'r' ? size - 1 : 0);
	struct error err = {0, ""};
	json_auto_t *summary = summary_make(folder.fd, "x", &err);
	demand((summary != NULL) != (err.text[0] != '\0'));
	if (summary)
		check_reports(summary);
	return 0;
}
