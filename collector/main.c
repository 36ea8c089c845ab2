/* collector: plays plans, measures contenders from their cgroups, writes results and reports. */
#include "collector/check.h"
#include "collector/play.h"
#include "collector/summary.h"
#include "common/cleanup.h"
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
	int fd = signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
	if (fd < 0)
		return error_set(err, errno, "cannot make a signalfd");
	interrupt.source.ready = signal_ready;
	return loop_add(loop, &interrupt.source, fd, EPOLLIN, err);
}

/* ---- run */

static void run_usage(FILE *out)
{
	fputs("usage: collector run PLAN [options]\n"
	      "       collector run [PLAN] --resume DIR [options]\n"
	      "Play a plan and write its results. Mock and launchers are started here, unless\n"
	      "--listen says that they are containers.\n"
	      "  --out DIR              results folder, if it is not there yet; else the folder "
	      "in\n"
	      "                         which NAME-UTC is made (default: results)\n"
	      "  --resume DIR           go on with the results in DIR; a PLAN must be theirs\n"
	      "  --contenders LIST      instead of the plan's: names or manifest files\n"
	      "  --sessions LIST        instead of the plan's\n"
	      "  --scenarios LIST       instead of the plan's: names or files\n"
	      "  --repetitions N        instead of the plan's\n"
	      "                         (lists are separated by commas; the variables CONTENDERS,\n"
	      "                         SESSIONS, SCENARIOS and REPETITIONS do the same)\n"
	      "  --dry-run              print order, number of runs and time, and run nothing\n"
	      "  --quiet                no progress\n"
	      "  --listen SOCKET        launchers of containers connect here\n"
	      "  --mock-control SOCKET  control socket of the mock's container\n"
	      "  --cgroup-parent PATH   work below this cgroup\n"
	      "  --cgroup-root DIR      where cgroups are mounted (default: /sys/fs/cgroup)\n"
	      "exit status: 0 all measured and ok, 1 failed, 2 bad usage or input, 3 some runs "
	      "not\n"
	      "ok or not valid, 130 or 143 interrupted\n",
		out);
}

static int run(int argc, char **argv)
{
	enum {
		OUT = 1,
		RESUME,
		CONTENDERS,
		SESSIONS,
		SCENARIOS,
		REPETITIONS,
		DRY_RUN,
		QUIET,
		LISTEN,
		MOCK_CONTROL,
		CGROUP_PARENT,
		CGROUP_ROOT,
		HELP
	};
	static const struct option names[] = {{"out", required_argument, NULL, OUT},
		{"resume", required_argument, NULL, RESUME},
		{"contenders", required_argument, NULL, CONTENDERS},
		{"sessions", required_argument, NULL, SESSIONS},
		{"scenarios", required_argument, NULL, SCENARIOS},
		{"repetitions", required_argument, NULL, REPETITIONS},
		{"dry-run", no_argument, NULL, DRY_RUN}, {"quiet", no_argument, NULL, QUIET},
		{"listen", required_argument, NULL, LISTEN},
		{"mock-control", required_argument, NULL, MOCK_CONTROL},
		{"cgroup-parent", required_argument, NULL, CGROUP_PARENT},
		{"cgroup-root", required_argument, NULL, CGROUP_ROOT},
		{"help", no_argument, NULL, HELP}, {0}};
	struct play_options options = {
		.overrides = {.contenders = getenv("CONTENDERS"),
			.sessions = getenv("SESSIONS"),
			.scenarios = getenv("SCENARIOS"),
			.repetitions = getenv("REPETITIONS")},
		.site = {.cgroup_root = "/sys/fs/cgroup", .stop = &interrupt.stop},
		.progress = stderr,
		.table = stdout,
	};
	int option;
	while ((option = getopt_long(argc, argv, "", names, NULL)) >= 0) {
		switch (option) {
		case OUT:
			options.out = optarg;
			break;
		case RESUME:
			options.resume = optarg;
			break;
		case CONTENDERS:
			options.overrides.contenders = optarg;
			break;
		case SESSIONS:
			options.overrides.sessions = optarg;
			break;
		case SCENARIOS:
			options.overrides.scenarios = optarg;
			break;
		case REPETITIONS:
			options.overrides.repetitions = optarg;
			break;
		case DRY_RUN:
			options.dry_run = true;
			break;
		case QUIET:
			options.progress = NULL;
			break;
		case LISTEN:
			options.site.listen = optarg;
			break;
		case MOCK_CONTROL:
			options.site.mock_control = optarg;
			break;
		case CGROUP_PARENT:
			options.site.cgroup_parent = optarg;
			break;
		case CGROUP_ROOT:
			options.site.cgroup_root = optarg;
			break;
		case HELP:
			run_usage(stdout);
			return EXIT_OK;
		default:
			return EXIT_USAGE;
		}
	}
	struct error err;
	bool has_plan = optind + 1 == argc;
	if (!has_plan && (optind != argc || !options.resume)) {
		error_set(&err, 0, "run: needs one PLAN, or --resume DIR (collector run --help)");
		return fail(&err, EXIT_USAGE);
	}
	if (!options.site.listen != !options.site.mock_control) {
		error_set(&err, 0, "run: --listen and --mock-control go together");
		return fail(&err, EXIT_USAGE);
	}
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

/* ---- check */

static int check(int argc, char **argv)
{
	int status = EXIT_OK;
	if (argc > 1 && !strcmp(argv[1], "--help")) {
		puts("usage: collector check FILE...\n"
		     "Say whether plans, manifests and scenarios can be used; exit status 2 if "
		     "not.");
		return EXIT_OK;
	}
	if (argc < 2) {
		fputs("collector: check: needs a FILE (collector check --help)\n", stderr);
		return EXIT_USAGE;
	}
	for (int i = 1; i < argc; i++) {
		struct error err;
		auto_free char *words = check_file(argv[i], &err);
		if (words)
			printf("%s: %s\n", argv[i], words);
		else
			status = fail(&err, EXIT_USAGE);
	}
	return status;
}

/* ---- report */

static int report(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "--help")) {
		puts("usage: collector report DIR\n"
		     "Make summary.json, summary.csv, summary.md and report.html of a results "
		     "folder\n"
		     "again from plan.json, environment.json and runs.jsonl.");
		return EXIT_OK;
	}
	if (argc != 2) {
		fputs("collector: report: needs one results folder (collector report --help)\n",
			stderr);
		return EXIT_USAGE;
	}
	struct error err;
	json_auto_t *summary = NULL;
	auto_close int fd = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) {
		error_set(&err, errno, "cannot open the results folder '%s'", argv[1]);
		return fail(&err, EXIT_USAGE);
	}
	if (report_write(fd, argv[1], &summary, &err))
		return fail(&err, EXIT_FAILED);
	auto_free char *table = summary_terminal(summary, isatty(1));
	fputs(table, stdout);
	return EXIT_OK;
}

/* ---- */

static void usage(FILE *out)
{
	fputs("usage: collector COMMAND ...\n"
	      "  run PLAN      play a plan and write its results\n"
	      "  check FILE    is it a plan, manifest or scenario that can be used?\n"
	      "  report DIR    make the reports of a results folder again\n"
	      "COMMAND --help tells more; --version tells the version\n",
		out);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*function)(int argc, char **argv);
	} commands[] = {{"run", run}, {"check", check}, {"report", report}};
	const char *name = argc > 1 ? argv[1] : "";
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
		if (strcmp(name, commands[i].name))
			continue;
		if (curl_global_init(CURL_GLOBAL_DEFAULT)) {
			fputs("collector: cannot start libcurl\n", stderr);
			return EXIT_FAILED;
		}
		int status = commands[i].function(argc - 1, argv + 1);
		curl_global_cleanup();
		if (fflush(stdout)) {
			fprintf(stderr, "collector: cannot write to stdout: %s\n", strerror(errno));
			return EXIT_FAILED;
		}
		return status;
	}
	if (!strcmp(name, "--help") || !strcmp(name, "-h")) {
		usage(stdout);
		return EXIT_OK;
	}
	if (!strcmp(name, "--version")) {
		puts("collector " TURNMETER_VERSION);
		return EXIT_OK;
	}
	usage(stderr);
	return EXIT_USAGE;
}
