#include "collector/survey.h"

#include "collector/digest.h"
#include "collector/contender.h"
#include "collector/launch.h"
#include "collector/limits.h"
#include "collector/machine.h"
#include "collector/manifest.h"
#include "collector/site.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/json.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

enum { SURVEY_SCHEMA = 1, DEPTH_MAX = 64 };

/* ---- files of contenders */

/* Sum of the regular files below a folder; -1 if a part of it cannot be read. Takes the fd. */
static int64_t folder_bytes(int fd, int depth)
{
	DIR *dir = fdopendir(fd);
	if (!dir || depth > DEPTH_MAX) {
		if (dir)
			closedir(dir);
		else
			close(fd);
		return -1;
	}
	int64_t sum = 0;
	struct dirent *entry;
	while (sum >= 0 && (entry = readdir(dir))) {
		struct stat status;
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		int64_t more = -1;
		if (!fstatat(dirfd(dir), entry->d_name, &status, AT_SYMLINK_NOFOLLOW)) {
			more = S_ISREG(status.st_mode) ? status.st_size : 0;
			int child =
				S_ISDIR(status.st_mode)
					? openat(dirfd(dir), entry->d_name,
						  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
					: -1;
			if (S_ISDIR(status.st_mode))
				more = child < 0 ? -1 : folder_bytes(child, depth + 1);
		}
		sum = more < 0 ? -1 : sum + more;
	}
	closedir(dir);
	return sum;
}

static int64_t shipped_bytes(struct launcher *launcher, const char *path)
{
	struct error ignored; /* becomes null */
	auto_close int fd = launcher_open(launcher, path, &ignored);
	struct stat status;
	if (fd < 0 || fstat(fd, &status))
		return -1;
	return S_ISDIR(status.st_mode) ? folder_bytes(steal_fd(&fd), 0) : status.st_size;
}

static json_t *describe_shipped(
	struct launcher *launcher, const struct manifest *manifest, json_t *contender)
{
	char **paths = manifest_expand_all(
		manifest->ship, launcher_prefix(launcher), launcher_here(launcher));
	json_t *files = json_array();
	int64_t sum = 0;
	for (size_t i = 0; paths[i]; i++) {
		int64_t bytes = shipped_bytes(launcher, paths[i]);
		json_t *file = json_pack("{s:s}", "path", manifest->ship[i]);
		json_set(file, "bytes", bytes < 0 ? json_null() : json_integer(bytes));
		json_array_append_new(files, file);
		sum = sum < 0 || bytes < 0 ? -1 : sum + bytes;
	}
	json_set(contender, "artifact_bytes",
		sum < 0 || !paths[0] ? json_null() : json_integer(sum));
	texts_free(paths);
	return files;
}

/* The program, and arguments that name files of the installed tree or of the manifest's folder. */
static int check_command(struct site *site, struct launcher *launcher,
	const struct manifest *manifest, struct digest_files *digests, json_t *contender,
	struct error *err)
{
	for (size_t i = 0; manifest->command[i]; i++) {
		const char *text = manifest->command[i];
		if (!manifest_names_file(manifest, i))
			continue;
		auto_free char *path =
			manifest_expand(text, launcher_prefix(launcher), launcher_here(launcher));
		struct error why;
		auto_close int fd = launcher_open(launcher, path, &why);
		if (fd < 0)
			return error_set(err, 0, "contender '%s': '%s' is absent: %s",
				manifest->name, path,
				site->local ? manifest_remedy(text)
					    : "build its image (make up does)");
		struct stat status;
		if (i || fstat(fd, &status))
			continue;
		if (!S_ISREG(status.st_mode) || !(status.st_mode & 0111))
			return error_set(
				err, 0, "contender '%s': '%s' is no program", manifest->name, path);
		json_set(contender, "executable", json_string(text));
		json_set(contender, "executable_bytes", json_integer(status.st_size));
		if (digest_file(digests, fd, err))
			return error_prefix(err, "contender '%s': '%s'", manifest->name, path);
		json_set(contender, "executable_sha256", json_string(digests->hex));
	}
	return 0;
}

static json_t *describe_limits(const struct place *place)
{
	json_t *limits = json_object();
	struct cgroup_limits found;
	struct error err;
	if (limits_in_force(&place->container, &place->container, place->launcher, &found, &err)) {
		json_set(limits, "unknown", json_text(err.text, 400));
		return limits;
	}
	json_set(limits, "memory_bytes",
		found.memory_bytes == FACT_MISSING ? json_null()
						   : json_integer(found.memory_bytes));
	json_set(limits, "swap_bytes",
		found.swap_bytes == FACT_MISSING ? json_null() : json_integer(found.swap_bytes));
	json_set(limits, "cpu_quota",
		found.cpu_quota > 0 ? json_real(found.cpu_quota) : json_null());
	json_set(limits, "cpus", json_string(found.cpus));
	return limits;
}

/* In a leaf with the limits of runs, and in the plan's track. */
static json_t *ask_beliefs(
	struct site *site, struct place *place, const struct manifest *manifest, struct error *err)
{
	struct cgroup leaf = CGROUP_EMPTY;
	char name[64] = "";
	struct cgroup_limits memory_only = {place->asked.memory_bytes, FACT_MISSING, 0, ""};
	json_t *beliefs = NULL;
	if (!cgroup_make_leaf(&leaf, &place->container, name, err) &&
		!cgroup_set_limits(&leaf, &memory_only, err))
		beliefs = contender_beliefs(
			site->loop, place->launcher, manifest, site->plan->track, &leaf, err);
	struct error ignored; /* what stays is removed as a stale leaf by the next collector */
	if (*name && !cgroup_wait_empty(&leaf, 5 * NS_PER_S, &ignored))
		cgroup_remove(&place->container, name, &ignored);
	cgroup_close(&leaf);
	return beliefs;
}

static json_t *describe_contender(
	struct site *site, size_t index, struct digest_files *digests, struct error *err)
{
	struct place *place = &site->places[index];
	const struct plan_contender *who = &site->plan->contenders[index];
	json_auto_t *contender = json_object();
	json_set(contender, "title", json_string(who->manifest->title));
	if (check_command(site, place->launcher, who->manifest, digests, contender, err))
		return NULL;
	json_set(contender, "files", describe_shipped(place->launcher, who->manifest, contender));
	json_set(contender, "limits", describe_limits(place));
	if (who->here)
		json_set(contender, "here", json_text(who->here, 4096));
	struct error why, why_not;
	auto_free char *version =
		*who->manifest->version
			? contender_version(site->loop, place->launcher, who->manifest, &why)
			: NULL;
	json_t *beliefs =
		*who->manifest->beliefs ? ask_beliefs(site, place, who->manifest, &why_not) : NULL;
	json_set(contender, "beliefs", beliefs ? beliefs : json_null());
	if (!beliefs)
		json_set(contender, "beliefs_missing",
			json_text(*who->manifest->beliefs
					  ? why_not.text
					  : "its manifest has no command that tells them",
				400));
	json_set(contender, "version", version ? json_string(version) : json_null());
	if (!version && *who->manifest->version)
		json_set(contender, "version_missing", json_text(why.text, 400));
	return json_incref(contender);
}

/* What scripts/image-sizes.sh has measured, for there is no engine here to ask. NULL with *err. */
static json_t *read_image_sizes(const struct site *site, struct error *err)
{
	const char *path = site->options->image_sizes;
	struct stat status;
	if (site->local)
		error_set(err, 0, "played without containers");
	else if (!path || stat(path, &status) || !S_ISREG(status.st_mode))
		error_set(err, 0, "images are measured by 'make up'");
	else
		return json_read_file(path, err);
	return NULL;
}

static void describe_base(json_t *environment, const json_t *sizes, const struct error *why)
{
	json_t *base = json_object_get(sizes, "base");
	json_set(environment, "base_image", base ? json_incref(base) : json_null());
	if (!base)
		json_set(environment, "base_image_missing",
			json_text(sizes ? "the base image was not measured" : why->text, 400));
}

static void describe_image(
	json_t *contender, const char *name, const json_t *sizes, const struct error *why)
{
	const json_t *image = json_object_get(json_object_get(sizes, "contenders"), name);
	static const char *const members[] = {"image", "image_bytes", "image_layers"};
	for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
		json_t *value = json_object_get(image, members[i]);
		json_set(contender, members[i], value ? json_incref(value) : json_null());
	}
	if (!json_object_get(image, "image_bytes"))
		json_set(contender, "image_bytes_missing",
			json_text(sizes ? "this image was not measured" : why->text, 400));
}

/* ---- all of it */

static json_t *describe_cpus(const cpu_set_t *cpus)
{
	char text[256];
	cpus_format(cpus, text, sizeof text);
	return json_string(text);
}

static json_t *describe_mock(const struct site *site)
{
	json_t *mock = json_object();
	static const char *const names[] = {"version", "libmicrohttpd"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		json_t *value = json_object_get(site->mock_health, names[i]);
		json_set(mock, names[i], value ? json_incref(value) : json_null());
	}
	return mock;
}

json_t *survey_make(struct site *site, struct error *err)
{
	json_auto_t *environment = json_object();
	char when[CLOCK_LABEL_MAX], id[17];
	clock_label(CLOCK_STAMP, when);
	json_t *machine = machine_describe("");
	machine_id(machine, id);
	json_set(environment, "schema", json_integer(SURVEY_SCHEMA));
	json_set(environment, "suite_version", json_string(TURNMETER_VERSION));
	json_set(environment, "started_at", json_string(when));
	json_set(environment, "mode", json_string(site->local ? "local" : "container"));
	json_set(environment, "machine_id", json_string(id));
	json_set(environment, "machine", machine);
	json_set(environment, "cgroup", json_string(site->fs.v2 ? "v2" : "v1"));
	json_set(environment, "mock", describe_mock(site));
	json_set(environment, "instrument_cpus", describe_cpus(&site->instrument));
	auto_digest_files struct digest_files digests = DIGEST_FILES_EMPTY;
	struct error why;
	json_auto_t *sizes = read_image_sizes(site, &why);
	describe_base(environment, sizes, &why);
	json_t *contenders = json_object();
	json_set(environment, "contenders", contenders);
	for (size_t i = 0; i < site->plan->contender_count; i++) {
		json_t *contender = describe_contender(site, i, &digests, err);
		if (!contender)
			return NULL;
		json_set(contender, "cpus", describe_cpus(&site->places[i].cpus));
		describe_image(contender, site->plan->contenders[i].manifest->name, sizes, &why);
		json_set(contenders, site->plan->contenders[i].manifest->name, contender);
	}
	return json_incref(environment);
}
