/* Results folders for tests: made in /tmp, or those kept in tests/fixtures/results. */
#ifndef TESTS_COLLECTOR_RESULTS_FIXTURE_H
#define TESTS_COLLECTOR_RESULTS_FIXTURE_H

#include "collector/digest.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"
#include "tests/unit/collector/run_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct folder {
	char path[32];
	int fd;
	char sha256[DIGEST_HEX];
};

/* A folder with a plan of c, node and the yardstick "bare"; `hypotheses` is taken, or NULL. */
static inline struct folder folder_make(json_t *hypotheses)
{
	struct folder out = {.path = "/tmp/test_results.XXXXXX"};
	if (!mkdtemp(out.path))
		abort();
	out.fd = open(out.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	json_auto_t *plan = json_pack("{s:s, s:[s,s,s], s:[s], s:[i,i], s:{s:{s:{s:b}}}}", "name",
		"test", "contenders", "c", "node", "bare", "scenarios", "quick", "sessions", 1, 2,
		"files", "contenders", "bare", "yardstick", 1);
	if (hypotheses)
		json_object_set_new(plan, "hypotheses", hypotheses);
	digest_json(plan, out.sha256);
	json_object_set_new(plan, "sha256", json_string(out.sha256));
	auto_free char *text = json_dumps(plan, 0);
	struct error err;
	if (file_write(out.fd, "plan.json", text, strlen(text), &err) ||
		file_write(out.fd, "environment.json", "{}", 2, &err))
		abort();
	return out;
}

static inline void folder_remove(struct folder *folder)
{
	static const char *const below[] = {"samples", "."};
	for (size_t i = 0; i < sizeof below / sizeof *below; i++) {
		int fd = openat(folder->fd, below[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		DIR *dir = fd < 0 ? NULL : fdopendir(fd);
		for (struct dirent *entry; dir && (entry = readdir(dir));)
			unlinkat(dirfd(dir), entry->d_name, 0);
		if (dir)
			closedir(dir);
	}
	unlinkat(folder->fd, "samples", AT_REMOVEDIR);
	close(folder->fd);
	rmdir(folder->path);
}

/* A good record of the plan: new reference. */
static inline json_t *folder_record(const struct folder *folder, int64_t run, const char *contender)
{
	struct run_identity identity = fixture_identity();
	identity.plan_sha256 = folder->sha256;
	identity.run = run;
	identity.block = 1;
	identity.contender = contender;
	struct run_facts facts = fixture_facts();
	json_t *record = record_make(&identity, &facts);
	fixture_release(&facts);
	return record;
}

/* Records as lines, then `rest` as it is. */
static inline void folder_write_runs(
	const struct folder *folder, const json_t *records, const char *rest)
{
	struct file_writer writer;
	struct error err;
	if (file_writer_open(&writer, folder->fd, "runs.jsonl", &err))
		abort();
	size_t i;
	const json_t *record;
	json_array_foreach(records, i, record)
	{
		auto_free char *line = json_dumps(record, RECORD_DUMP_FLAGS);
		fprintf(writer.stream, "%s\n", line);
	}
	fputs(rest, writer.stream);
	if (file_writer_commit(&writer, &err))
		abort();
}

static inline int kept_folder(const char *name)
{
	auto_free char *path = xasprintf("tests/fixtures/results/%s", name);
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Numbers by path, "a.b"; NAN if there is none. */
static inline double number_at(const json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name);
	return json_is_number(value) ? json_number_value(value) : NAN;
}

#endif
