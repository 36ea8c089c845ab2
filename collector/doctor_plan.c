#include "collector/doctor_plan.h"

#include "collector/machine.h"
#include "collector/manifest.h"
#include "collector/plan.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/json.h"

#include <curl/curl.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
	/* of one session: a connection, and while a tool runs two pipes and a pidfd */
	DESCRIPTORS_A_SESSION = 4,
	DESCRIPTORS_BESIDE = 64,
	ENGINE_TIMEOUT_MS = 2000,
};

static const double MIB = 1024 * 1024, GIB = 1024.0 * 1024 * 1024;

static bool is_split(const struct doctor *doctor)
{
	return !doctor->plan || doctor->plan->split;
}

/* ---- CPUs */

static json_t *cpus(const struct doctor *doctor)
{
	char instrument[256], contender[256];
	cpus_format(&doctor->instrument, instrument, sizeof instrument);
	cpus_format(&doctor->contender, contender, sizeof contender);
	if (!is_split(doctor))
		return doctor_finding(DOCTOR_OK,
			xasprintf("all on CPUs %s, as the plan's placement says", contender), NULL);
	if (doctor->containers && CPU_EQUAL(&doctor->cpus, &doctor->contender))
		return doctor_finding(DOCTOR_FAIL,
			xasprintf("the collector may use all CPUs, %s: placement 'split' needs "
				  "some that are the contenders' alone",
				instrument),
			xstrdup("give mock and collector CPUs of their own "
				"(TURNMETER_CPUS_INSTRUMENT, as scripts/cpus.sh finds them)"));
	if (*doctor->split_problem.text || CPU_EQUAL(&doctor->instrument, &doctor->contender))
		return doctor_finding(DOCTOR_FAIL,
			xasprintf("placement 'split' needs two CPUs, there %s %s",
				CPU_COUNT(&doctor->cpus) == 1 ? "is"
							      : "are only those of the mock,",
				instrument),
			xstrdup("set the plan's placement to \"shared\""));
	if (CPU_COUNT(&doctor->contender) == 1)
		return doctor_finding(DOCTOR_WARN,
			xasprintf("one CPU (%s) for the contender, %s for mock and collector: "
				  "what is measured of contenders with several threads is that "
				  "of one CPU",
				contender, instrument),
			xstrdup("a machine with more CPUs, if that is what is asked"));
	return doctor_finding(DOCTOR_OK,
		xasprintf("%s for the contender, %s for mock and collector", contender, instrument),
		NULL);
}

/* ---- memory, descriptors, ports, disk */

static json_t *memory(const struct doctor *doctor)
{
	const json_t *bytes = json_object_get(doctor->machine, "memory_bytes");
	int64_t limit = doctor->plan ? doctor->plan->memory_bytes : FACT_MISSING;
	if (!json_is_integer(bytes))
		return NULL;
	double there = (double)json_integer_value(bytes);
	if (limit == FACT_MISSING)
		return doctor_finding(DOCTOR_OK, xasprintf("%.1f GiB", there / GIB), NULL);
	if ((double)limit <= there)
		return doctor_finding(DOCTOR_OK,
			xasprintf("%.1f GiB, the limit of a contender is %.1f", there / GIB,
				(double)limit / GIB),
			NULL);
	return doctor_finding(DOCTOR_WARN,
		xasprintf("%.1f GiB, and the limit of a contender is %.1f: the machine would run "
			  "out of memory before the contender does",
			there / GIB, (double)limit / GIB),
		xstrdup("a lower limits.memory_bytes (MEMORY=1g)"));
}

static json_t *descriptors(const struct doctor *doctor)
{
	int64_t sessions = doctor_sessions(doctor), most = doctor->descriptors;
	int64_t needed = sessions * DESCRIPTORS_A_SESSION + DESCRIPTORS_BESIDE;
	if (most < 0)
		return doctor_finding(DOCTOR_OK, xstrdup("no limit"), NULL);
	if (most >= needed)
		return doctor_finding(DOCTOR_OK, xasprintf("%" PRId64 " a process", most), NULL);
	return doctor_finding(most < sessions + DESCRIPTORS_BESIDE ? DOCTOR_FAIL : DOCTOR_WARN,
		xasprintf("%" PRId64 " open files a process, %" PRId64
			  " sessions may need %" PRId64,
			most, sessions, needed),
		xasprintf("ulimit -Hn %" PRId64 " (as root), in containers the engine's "
			  "default-ulimits, or fewer sessions",
			needed));
}

static json_t *ports(const struct doctor *doctor)
{
	auto_free char *path = xasprintf("%s/proc/sys/net/ipv4/ip_local_port_range", doctor->root);
	auto_fclose FILE *file = fopen(path, "re");
	char line[64];
	if (!file || !fgets(line, sizeof line, file))
		return NULL;
	char *end;
	long first = strtol(line, &end, 10), last = strtol(end, NULL, 10);
	int64_t sessions = doctor_sessions(doctor), there = last - first + 1;
	/* A connection that is closed keeps its port for a minute. */
	if (there >= 2 * sessions)
		return doctor_finding(DOCTOR_OK, xasprintf("%" PRId64 " for clients", there), NULL);
	return doctor_finding(there < sessions ? DOCTOR_FAIL : DOCTOR_WARN,
		xasprintf("%" PRId64 " ports for clients, %" PRId64
			  " sessions need one each, and one "
			  "more for each connection that they closed",
			there > 0 ? there : 0, sessions),
		xstrdup("sysctl -w net.ipv4.ip_local_port_range='1024 65535' (as root)"));
}

static json_t *disk(const struct doctor *doctor)
{
	int64_t needed = doctor->plan ? plan_results_bytes(doctor->plan) : 0;
	int64_t there = doctor->disk_free_bytes;
	if (there < 0)
		return NULL;
	if (there >= 2 * needed)
		return doctor_finding(DOCTOR_OK,
			xasprintf("%.1f GiB free for results", (double)there / GIB), NULL);
	return doctor_finding(there < needed ? DOCTOR_FAIL : DOCTOR_WARN,
		xasprintf("%.1f MiB free where results go ('%s'), the plan's take about %.1f",
			(double)there / MIB, doctor->results, (double)needed / MIB),
		xstrdup("free some, or choose another folder by --out"));
}

/* ---- programs */

/* The first of its command's files that is not there, as the manifest has it; NULL: all are. */
static const char *absent_file(
	const struct doctor *doctor, const struct plan_contender *who, char **path)
{
	for (size_t i = 0; who->manifest->command[i]; i++) {
		const char *text = who->manifest->command[i];
		if (!manifest_names_file(who->manifest, i))
			continue;
		auto_free char *expanded =
			manifest_expand(text, doctor->prefix, who->here ? who->here : "/");
		if (!access(expanded, F_OK))
			continue;
		*path = steal_ptr(expanded);
		return text;
	}
	return NULL;
}

static json_t *contenders(const struct doctor *doctor)
{
	if (!doctor->plan || doctor->containers)
		return NULL;
	auto_buf struct buf unbuilt;
	buf_init(&unbuilt, 800);
	size_t count = doctor->plan->contender_count;
	for (size_t i = 0; i < count; i++) {
		const struct plan_contender *who = &doctor->plan->contenders[i];
		auto_free char *path = NULL;
		const char *text = absent_file(doctor, who, &path);
		if (text && doctor->in_advance && manifest_is_built_here(text))
			buf_addf(&unbuilt, "%s%s", unbuilt.length ? ", " : "", who->manifest->name);
		else if (text)
			return doctor_finding(DOCTOR_FAIL,
				xasprintf("contender '%s': '%s' is absent", who->manifest->name,
					path),
				xstrdup(manifest_remedy(text)));
	}
	if (unbuilt.length)
		return doctor_finding(DOCTOR_WARN, xasprintf("not built yet: %s", unbuilt.data),
			xstrdup("'make bench' and 'make up' build what they play; before "
				"'collector run' do 'make', 'make runtimes' and 'make rust'"));
	return doctor_finding(DOCTOR_OK,
		xasprintf(
			"the programs of %zu contender%s are there", count, count == 1 ? "" : "s"),
		NULL);
}

/* ---- images, by the engine's socket */

static size_t drop_body(char *bytes, size_t size, size_t count, void *context)
{
	(void)bytes;
	(void)context;
	return size * count;
}

/* HTTP status of a GET; 0: the engine does not answer. */
static long ask_engine(const char *socket, const char *path)
{
	long status = 0;
	auto_free char *url = xasprintf("http://localhost%s", path);
	CURL *curl = curl_easy_init();
	if (!curl)
		return 0;
	curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, socket);
	curl_easy_setopt(curl, CURLOPT_URL, url);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)ENGINE_TIMEOUT_MS);
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, drop_body);
	if (!curl_easy_perform(curl))
		curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_cleanup(curl);
	return status;
}

static void note_absent(const char *engine, const char *image, struct buf *absent)
{
	auto_free char *path = xasprintf("/images/%s/json", image);
	if (ask_engine(engine, path) != 200)
		buf_addf(absent, "%s%s", absent->length ? ", " : "", image);
}

static json_t *images(const struct doctor *doctor)
{
	static const char *const of_suite[] = {"turnmeter-collector", "turnmeter-mockllm"};
	if (!doctor->engine || doctor->containers)
		return NULL;
	if (ask_engine(doctor->engine, "/_ping") != 200)
		return doctor_finding(DOCTOR_WARN,
			xasprintf("no Docker engine answers at '%s'", doctor->engine),
			xstrdup("'make up' as root starts one; 'make bench' needs none"));
	auto_buf struct buf absent;
	buf_init(&absent, 800);
	for (size_t i = 0; i < sizeof of_suite / sizeof *of_suite; i++)
		note_absent(doctor->engine, of_suite[i], &absent);
	for (size_t i = 0; doctor->plan && i < doctor->plan->contender_count; i++) {
		const char *image = doctor->plan->contenders[i].manifest->image;
		if (image)
			note_absent(doctor->engine, image, &absent);
	}
	if (!absent.length)
		return doctor_finding(DOCTOR_OK, xstrdup("all there"), NULL);
	return doctor_finding(DOCTOR_WARN, xasprintf("absent: %s", absent.data),
		xstrdup("'make up' builds them; 'make bench' needs none"));
}

const struct doctor_check doctor_plan_checks[] = {
	{"cpus", cpus},
	{"memory", memory},
	{"descriptors", descriptors},
	{"ports", ports},
	{"disk", disk},
	{"contenders", contenders},
	{"images", images},
};
const size_t doctor_plan_count = sizeof doctor_plan_checks / sizeof *doctor_plan_checks;
