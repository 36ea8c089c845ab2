/* collector: plays plans, measures contenders from their cgroups, writes results and reports. */
#include "collector/check.h"
#include "collector/doctor.h"
#include "collector/escape.h"
#include "collector/local.h"
#include "collector/play.h"
#include "collector/schema.h"
#include "collector/summary.h"
#include "collector/terminal.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/descriptors.h"
#include "common/error.h"
#include "common/loop.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>

enum { EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_NOT_OK, EXIT_SIGNAL = 128 };

static int fail(const struct error *err, int status)
{
	fprintf(stderr, "collector: %s\n", err->text);
	return status;
}

/* ---- signals end the current run; the loop sees them */

static struct {
	struct source source;
	bool stop;
	int number;
} interrupt = {.source = {.fd = -1}};

static void signal_ready(struct source *source, uint32_t events)
{
	struct signalfd_siginfo info;
	(void)events;
	while (read(source->fd, &info, sizeof info) == sizeof info) {
		interrupt.stop = true;
		interrupt.number = (int)info.ssi_signo;
	}
}

static int watch_signals(struct loop *loop, struct error *err)
{
	sigset_t mask;
	sigemptyset(&mask);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGHUP);
	sigprocmask(SIG_BLOCK, &mask, NULL);
	/* A contender that is gone is told by the write's own error. */
	signal(SIGPIPE, SIG_IGN);
	/* Beyond a limit of file sizes (ulimit -f) likewise: what was measured is summarised. */
	signal(SIGXFSZ, SIG_IGN);
	int fd = signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
	if (fd < 0)
		return error_set(err, errno, "cannot make a signalfd");
	interrupt.source.ready = signal_ready;
	return loop_add(loop, &interrupt.source, fd, EPOLLIN, err);
}

/* ---- options that commands share */

enum { HELP = 1, JSON, QUIET, CGROUP_PARENT, CGROUP_ROOT, OUT, OWN_OPTIONS, OVERRIDES = 100 };

static const struct option shared_options[] = {{"help", no_argument, NULL, HELP},
	{"json", no_argument, NULL, JSON},
	{"cgroup-parent", required_argument, NULL, CGROUP_PARENT},
	{"cgroup-root", required_argument, NULL, CGROUP_ROOT},
	{"out", required_argument, NULL, OUT}};

/* Options of a command: its own, the shared ones, and those that override a plan; free(). */
static struct option *all_options(const struct option *own, size_t own_count)
{
	size_t shared = sizeof shared_options / sizeof *shared_options;
	struct option *all = xcalloc(own_count + shared + override_count + 1, sizeof *all);
	memcpy(all, own, own_count * sizeof *own);
	memcpy(all + own_count, shared_options, sizeof shared_options);
	for (size_t i = 0; i < override_count; i++)
		all[own_count + shared + i] = (struct option){
			override_names[i].option, required_argument, NULL, OVERRIDES + (int)i};
	return all;
}

/* A shell's unset variable is no path: -1, which has been said. */
static int take_path(const char **path, const char *option)
{
	*path = optarg;
	if (*optarg)
		return 0;
	fprintf(stderr, "collector: --%s: must not be empty\n", option);
	return -1;
}

static void print_json(const json_t *value)
{
	auto_free char *text = json_dumps(value, JSON_INDENT(1) | JSON_REAL_PRECISION(12));
	if (!text)
		die_oom();
	puts(text);
}

static int usage_error(const char *text)
{
	fprintf(stderr, "collector: %s\n", text);
	return EXIT_USAGE;
}

/* ---- run */

static void run_usage(FILE *out)
{
	fputs("usage: collector run PLAN [options]\n"
	      "       collector run [PLAN] --resume DIR [options]\n"
	      "Play a plan and write its results. Mock and launchers are started here, unless\n"
	      "--listen says that they are containers. The doctor looks first (collector doctor).\n"
	      "  --out DIR              results folder, if it is not there yet; else the folder "
	      "in\n"
	      "                         which NAME-UTC is made (default: results)\n"
	      "  --resume DIR           go on with the results in DIR; a PLAN must be theirs\n"
	      "  --dry-run              print order, number of runs, time and disk, and run "
	      "nothing\n"
	      "  --json                 print summary.json (of a dry run the same as JSON) at the\n"
	      "                         end, instead of the table\n"
	      "  --quiet                no progress, no warnings\n"
	      "  --listen SOCKET        launchers of containers connect here\n"
	      "  --mock-control SOCKET  control socket of the mock's container\n"
	      "  --image-sizes FILE     sizes of the containers' images (scripts/image-sizes.sh)\n"
	      "  --cgroup-parent PATH   work below this cgroup\n"
	      "  --cgroup-root DIR      where cgroups are mounted (default: /sys/fs/cgroup)\n",
		out);
	overrides_usage(out);
	fputs("Lists are separated by commas. NO_COLOR takes colours away.\n"
	      "exit status: 0 all measured and ok, 1 failed, 2 bad usage or input, 3 some runs\n"
	      "not ok or not valid, 129, 130 or 143 interrupted\n",
		out);
}

/* Returns -1 to go on, or the exit status: all is said then. */
static int read_run_options(int argc, char **argv, struct play_options *options)
{
	enum { RESUME = OWN_OPTIONS, DRY_RUN, LISTEN, MOCK_CONTROL, IMAGE_SIZES };
	static const struct option own[] = {{"resume", required_argument, NULL, RESUME},
		{"dry-run", no_argument, NULL, DRY_RUN}, {"quiet", no_argument, NULL, QUIET},
		{"listen", required_argument, NULL, LISTEN},
		{"mock-control", required_argument, NULL, MOCK_CONTROL},
		{"image-sizes", required_argument, NULL, IMAGE_SIZES}};
	auto_free struct option *names = all_options(own, sizeof own / sizeof *own);
	overrides_from_environment(&options->overrides);
	int option, place = 0;
	while ((option = getopt_long(argc, argv, "", names, &place)) >= 0) {
		const char **path = NULL;
		switch (option) {
		case OUT:
			path = &options->out;
			break;
		case RESUME: /* empty: none, as compose gives it */
			options->resume = *optarg ? optarg : NULL;
			break;
		case DRY_RUN:
			options->dry_run = true;
			break;
		case JSON:
			options->json = true;
			break;
		case QUIET:
			options->progress = options->site.progress = NULL;
			break;
		case LISTEN:
			path = &options->site.listen;
			break;
		case MOCK_CONTROL:
			path = &options->site.mock_control;
			break;
		case IMAGE_SIZES:
			path = &options->site.image_sizes;
			break;
		case CGROUP_PARENT:
			path = &options->site.cgroup_parent;
			break;
		case CGROUP_ROOT:
			path = &options->site.cgroup_root;
			break;
		case HELP:
			run_usage(stdout);
			return EXIT_OK;
		default:
			if (option < OVERRIDES)
				return EXIT_USAGE;
			overrides_set(&options->overrides, (size_t)(option - OVERRIDES), optarg);
		}
		if (path && take_path(path, names[place].name))
			return EXIT_USAGE;
	}
	return -1;
}

static int run(int argc, char **argv)
{
	struct play_options options = {
		.site = {.cgroup_root = "/sys/fs/cgroup",
			.stop = &interrupt.stop,
			.progress = stderr},
		.progress = stderr,
		.table = stdout,
	};
	int status = read_run_options(argc, argv, &options);
	if (status >= 0)
		return status;
	struct error err;
	bool has_plan = optind + 1 == argc;
	if (!has_plan && (optind != argc || !options.resume))
		return usage_error("run: needs one PLAN, or --resume DIR (collector run --help)");
	const struct override_name *given = has_plan ? NULL : overrides_first(&options.overrides);
	if (given) {
		fprintf(stderr,
			"collector: run: --resume goes on with the plan of its folder as it is: "
			"leave out what would change it, --%s or the variable %s\n",
			given->option, given->variable);
		return EXIT_USAGE;
	}
	if (!options.site.listen != !options.site.mock_control)
		return usage_error("run: --listen and --mock-control go together");
	options.plan_path = has_plan ? argv[optind] : NULL;
	bool bad_input = false;
	struct loop *loop = loop_new(&err);
	int result =
		loop && !watch_signals(loop, &err) ? play(loop, &options, &bad_input, &err) : -1;
	if (loop)
		loop_remove(loop, &interrupt.source);
	loop_free(loop);
	if (result < 0)
		fail(&err, 0);
	if (interrupt.number)
		return EXIT_SIGNAL + interrupt.number;
	if (result < 0)
		return bad_input ? EXIT_USAGE : EXIT_FAILED;
	return result == PLAY_OK ? EXIT_OK : EXIT_NOT_OK;
}

/* ---- doctor */

static const int64_t DOCTOR_WATCH_NS = NS_PER_S;

static void doctor_usage(FILE *out)
{
	fputs("usage: collector doctor [PLAN] [options]\n"
	      "Say whether this machine is fit to measure on, and whether all is there that PLAN\n"
	      "needs (without one: 100 sessions). Every run looks at this first.\n"
	      "  --json                 [{id, status: ok, warn or fail, found, remedy}, …]\n"
	      "  --containers           contenders are in containers (as of docker compose)\n"
	      "  --out DIR              where results shall go (default: results)\n"
	      "  --cgroup-parent PATH   work below this cgroup\n"
	      "  --cgroup-root DIR      where cgroups are mounted (default: /sys/fs/cgroup)\n",
		out);
	overrides_usage(out);
	fputs("exit status: 0 nothing in the way (ok or warn), 1 something is (fail), 2 bad usage\n"
	      "or input\n",
		out);
}

/* Docker's socket: where the environment says, else this machine's, else our engine's. */
static char *engine_socket(void)
{
	static const char *const usual[] = {
		"/var/run/docker.sock", "/run/turnmeter-engine/docker.sock"};
	const char *host = getenv("DOCKER_HOST");
	if (host && !strncmp(host, "unix://", 7))
		return xstrdup(host + 7);
	for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
		if (!access(usual[i], R_OK | W_OK))
			return xstrdup(usual[i]);
	return xstrdup(usual[0]);
}

static int examine(int argc, char **argv)
{
	enum { CONTAINERS = OWN_OPTIONS };
	static const struct option own[] = {{"containers", no_argument, NULL, CONTAINERS}};
	auto_free struct option *names = all_options(own, sizeof own / sizeof *own);
	struct doctor doctor = {.root = "",
		.cgroup_root = "/sys/fs/cgroup",
		.results = "results",
		.in_advance = true};
	struct plan_overrides overrides;
	bool json = false;
	overrides_from_environment(&overrides);
	int option, place = 0;
	while ((option = getopt_long(argc, argv, "", names, &place)) >= 0) {
		const char **path = NULL;
		switch (option) {
		case OUT:
			path = &doctor.results;
			break;
		case JSON:
			json = true;
			break;
		case CONTAINERS:
			doctor.containers = true;
			break;
		case CGROUP_PARENT:
			path = &doctor.cgroup_parent;
			break;
		case CGROUP_ROOT:
			path = &doctor.cgroup_root;
			break;
		case HELP:
			doctor_usage(stdout);
			return EXIT_OK;
		default:
			if (option < OVERRIDES)
				return EXIT_USAGE;
			overrides_set(&overrides, (size_t)(option - OVERRIDES), optarg);
		}
		if (path && take_path(path, names[place].name))
			return EXIT_USAGE;
	}
	if (optind + 1 < argc)
		return usage_error("doctor: takes one PLAN or none (collector doctor --help)");
	struct error err;
	struct plan *plan = NULL;
	if (optind < argc && !(plan = plan_read_file(argv[optind], &overrides, &err)))
		return fail(&err, EXIT_USAGE);
	auto_free char *prefix = local_prefix(&err);
	if (!prefix) {
		plan_free(plan);
		return fail(&err, EXIT_FAILED);
	}
	auto_free char *engine = engine_socket();
	doctor.plan = plan;
	doctor.prefix = prefix;
	doctor.engine = engine;
	doctor_look(&doctor, DOCTOR_WATCH_NS);
	json_auto_t *findings = doctor_examine(&doctor);
	doctor_release(&doctor);
	plan_free(plan);
	if (json) {
		print_json(findings);
	} else {
		auto_buf struct buf text;
		buf_init(&text, 1 << 20);
		doctor_text(findings, terminal_has_colour(stdout), &text);
		fputs(text.data, stdout);
	}
	return doctor_count(findings, "fail") ? EXIT_FAILED : EXIT_OK;
}

/* ---- check */

static int check(int argc, char **argv)
{
	int status = EXIT_OK;
	if (argc > 1 && !strcmp(argv[1], "--help")) {
		puts("usage: collector check FILE...\n"
		     "Say whether plans, manifests and scenarios can be used, and whether "
		     "summaries "
		     "and\n"
		     "runs.jsonl are what they must be; exit status 2 if not.");
		return EXIT_OK;
	}
	if (argc < 2) {
		fputs("collector: check: needs a FILE (collector check --help)\n", stderr);
		return EXIT_USAGE;
	}
	for (int i = 1; i < argc; i++) {
		struct error err;
		auto_free char *words = check_file(argv[i], &err);
		if (!words) {
			status = fail(&err, EXIT_USAGE);
			continue;
		}
		auto_buf struct buf line;
		buf_init(&line, 1 << 16);
		escape_plain(&line, argv[i]);
		buf_add_text(&line, ": ");
		escape_plain(&line, words);
		puts(line.data);
	}
	return status;
}

/* ---- schema */

static int schema(int argc, char **argv)
{
	bool help = argc == 2 && !strcmp(argv[1], "--help");
	json_auto_t *made = argc == 2 && !help ? schema_of(argv[1]) : NULL;
	auto_buf struct buf names;
	buf_init(&names, 1000);
	for (size_t i = 0; schema_names[i]; i++)
		buf_addf(&names, "%s%s", i ? ", " : "", schema_names[i]);
	if (help) {
		printf("usage: collector schema NAME\n"
		       "Print the JSON Schema of a kind of file, as it stands in configs/schema/:\n"
		       "%s.\n",
			names.data);
		return EXIT_OK;
	}
	if (!made) {
		fprintf(stderr, "collector: schema: needs one NAME of %s\n", names.data);
		return EXIT_USAGE;
	}
	print_json(made);
	return EXIT_OK;
}

/* ---- report */

static int report(int argc, char **argv)
{
	static const struct option names[] = {{"help", no_argument, NULL, HELP},
		{"json", no_argument, NULL, JSON}, {"quiet", no_argument, NULL, QUIET}, {0}};
	bool json = false, quiet = false;
	int option;
	while ((option = getopt_long(argc, argv, "", names, NULL)) >= 0) {
		switch (option) {
		case JSON:
			json = true;
			break;
		case QUIET:
			quiet = true;
			break;
		case HELP:
			puts("usage: collector report DIR [--json | --quiet]\n"
			     "Make summary.json, summary.csv, summary.md and report.html of a "
			     "results "
			     "folder\n"
			     "again from plan.json, environment.json and runs.jsonl, and print the "
			     "table (or\n"
			     "summary.json, or nothing).");
			return EXIT_OK;
		default:
			return EXIT_USAGE;
		}
	}
	if (optind + 1 != argc)
		return usage_error("report: needs one results folder (collector report --help)");
	const char *path = argv[optind];
	struct error err;
	json_auto_t *summary = NULL;
	auto_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) {
		error_set(&err, errno, "cannot open the results folder '%s'", path);
		return fail(&err, EXIT_USAGE);
	}
	if (report_write(fd, path, &summary, &err))
		return fail(&err, EXIT_FAILED);
	if (json) {
		print_json(summary);
	} else if (!quiet) {
		auto_free char *table = summary_terminal(
			summary, terminal_has_colour(stdout), terminal_width(stdout));
		fputs(table, stdout);
	}
	return EXIT_OK;
}

/* ---- */

static void usage(FILE *out)
{
	fputs("usage: collector COMMAND ...\n"
	      "  run PLAN      play a plan and write its results\n"
	      "  doctor        is this machine fit, and is all there that a plan needs?\n"
	      "  check FILE    is it a plan, manifest or scenario that can be used?\n"
	      "  schema NAME   print the JSON Schema of a kind of file\n"
	      "  report DIR    make the reports of a results folder again\n"
	      "COMMAND --help tells more; --version tells the version\n",
		out);
}

/* Whoever reads what was printed must not take a part of it for all. */
static int finish(int status)
{
	if (!fflush(stdout) && !ferror(stdout))
		return status;
	fputs("collector: cannot write all of it to stdout\n", stderr);
	return status == EXIT_OK || status == EXIT_NOT_OK ? EXIT_FAILED : status;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*function)(int argc, char **argv);
	} commands[] = {{"run", run}, {"doctor", examine}, {"check", check}, {"schema", schema},
		{"report", report}};
	static char program[] = "collector";
	const char *name = argc > 1 ? argv[1] : "";
	struct error err;
	if (descriptors_open_standard(&err)) {
		fprintf(stderr, "collector: %s\n", err.text);
		return EXIT_FAILURE;
	}
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
		if (strcmp(name, commands[i].name))
			continue;
		if (curl_global_init(CURL_GLOBAL_DEFAULT)) {
			fputs("collector: cannot start libcurl\n", stderr);
			return EXIT_FAILED;
		}
		/* getopt begins its messages with it */
		argv[1] = argv[0] = program;
		int status = commands[i].function(argc - 1, argv + 1);
		curl_global_cleanup();
		return finish(status);
	}
	if (!strcmp(name, "--help") || !strcmp(name, "-h")) {
		usage(stdout);
		return finish(EXIT_OK);
	}
	if (!strcmp(name, "--version")) {
		puts("collector " TURNMETER_VERSION);
		return finish(EXIT_OK);
	}
	usage(stderr);
	return EXIT_USAGE;
}
