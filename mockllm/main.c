#include "common/cleanup.h"
#include "common/clock.h"
#include "common/descriptors.h"
#include "common/error.h"
#include "common/number.h"
#include "mockllm/api.h"
#include "mockllm/chat.h"
#include "mockllm/mock.h"
#include "mockllm/stamps.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

/* Sleeping and waking take about as long. */
static const int64_t SPIN_NS = 25000;

enum { EXIT_USAGE = 2, WORKERS_MAX = 64 };

static const char usage[] =
	"usage: mockllm --port N --control PATH --tool PATH [--scenarios DIR] [--workers N]\n"
	"\n"
	"Plays an LLM behind OpenAI's chat completions on an exact schedule, checks what it is "
	"sent\n"
	"and keeps a ledger of it. docs/mock.md says how.\n"
	"\n"
	"  --port N          TCP port on 127.0.0.1 (and ::1) for agents; 0: any free one\n"
	"  --control PATH    Unix socket of the control API\n"
	"  --tool PATH       the suite's tool, as agents see it\n"
	"  --scenarios DIR   load every scenario file of this directory\n"
	"  --workers N       threads that check requests, 1 to 64 (1)\n"
	"  --help            this text\n"
	"  --version         the version\n";

struct options {
	int64_t port;
	const char *control, *tool, *scenarios;
	int64_t workers;
};

/* 0: go on; 1: done, exit 0; -1: *err. */
static int read_options(int argc, char **argv, struct options *out, struct error *err)
{
	enum { PORT, CONTROL, TOOL, SCENARIOS, WORKERS, HELP, VERSION };
	static const struct option known[] = {
		{"port", required_argument, NULL, PORT},
		{"control", required_argument, NULL, CONTROL},
		{"tool", required_argument, NULL, TOOL},
		{"scenarios", required_argument, NULL, SCENARIOS},
		{"workers", required_argument, NULL, WORKERS},
		{"help", no_argument, NULL, HELP},
		{"version", no_argument, NULL, VERSION},
		{0},
	};
	*out = (struct options){.port = -1, .workers = 1};
	opterr = 0;
	int option, failed = 0;
	while (!failed && (option = getopt_long(argc, argv, ":", known, NULL)) >= 0) {
		switch (option) {
		case PORT:
			failed = number_parse(optarg, "--port", 0, 65535, &out->port, err);
			break;
		case CONTROL:
			out->control = optarg;
			break;
		case TOOL:
			out->tool = optarg;
			break;
		case SCENARIOS:
			out->scenarios = optarg;
			break;
		case WORKERS:
			failed = number_parse(
				optarg, "--workers", 1, WORKERS_MAX, &out->workers, err);
			break;
		case HELP:
			fputs(usage, stdout);
			return 1;
		case VERSION:
			puts("mockllm " TURNMETER_VERSION);
			return 1;
		case ':':
			failed = error_set(err, 0, "%s: a value is missing", argv[optind - 1]);
			break;
		default:
			failed = error_set(err, 0, "%s: no such option", argv[optind - 1]);
		}
	}
	if (failed)
		return -1;
	if (optind < argc)
		return error_set(err, 0, "'%s': no argument is expected", argv[optind]);
	if (out->port < 0 || !out->control || !out->tool)
		return error_set(err, 0, "--port, --control and --tool must be given");
	return 0;
}

/* An agent's working directory is another: the path that goes into tool calls is absolute. */
static char *find_tool(const char *path, struct error *err)
{
	auto_free char *absolute = realpath(path, NULL);
	struct stat status;
	if (!absolute || stat(absolute, &status) || access(absolute, X_OK)) {
		error_set(err, errno,
			"cannot use the tool '%s' (build it with make, or give its path with "
			"--tool)",
			path);
		return NULL;
	}
	if (!S_ISREG(status.st_mode)) {
		error_set(err, 0, "cannot use the tool '%s': it is no program", path);
		return NULL;
	}
	json_auto_t *text = json_string(absolute);
	if (!text) {
		error_set(err, 0, "cannot use the tool '%s': its path must be UTF-8", path);
		return NULL;
	}
	return steal_ptr(absolute);
}

static void raise_descriptor_limit(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == limit.rlim_max)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

/*
 * Bodies come and go by the thousand: kept by malloc, their pages need not be faulted in again on
 * the thread that keeps the schedule.
 */
static void tune_memory(void)
{
	mallopt(M_MMAP_THRESHOLD, 16 << 20);
	mallopt(M_TRIM_THRESHOLD, 256 << 20);
}

struct program {
	struct mock mock;
	char *tool;
	char tool_socket[32];
	struct stamps *stamps;
	struct source signals;
	bool stopping;
};

static void handle_signals(struct source *source, uint32_t events)
{
	(void)events;
	struct program *program = container_of(source, struct program, signals);
	struct signalfd_siginfo info;
	if (read(source->fd, &info, sizeof info) == (ssize_t)sizeof info)
		program->stopping = true;
}

static int watch_signals(struct program *program, const sigset_t *signals, struct error *err)
{
	program->signals = (struct source){.fd = -1, .ready = handle_signals};
	auto_close int fd = signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return error_set(err, errno, "cannot create a signalfd");
	if (loop_add(program->mock.loop, &program->signals, fd, EPOLLIN, err))
		return -1;
	(void)steal_fd(&fd);
	return 0;
}

static void handle_chat(void *context, struct request *request, int fd)
{
	struct program *program = context;
	/* The stamps of the calls that led to this request were sent before it. */
	stamps_drain(program->stamps);
	chat_begin(&program->mock, request, fd);
}

static void handle_plain(void *context, const struct request *request, struct reply *reply)
{
	struct program *program = context;
	stamps_drain(program->stamps);
	if (request->peer->is_control)
		control_handle(&program->mock, request, reply);
	else
		api_handle(&program->mock, request, reply);
}

/* The worker threads inherit the blocked signals, so this comes after blocking them. */
static int start(struct program *program, const struct options *options, struct error *err)
{
	static const struct server_handler handler = {handle_chat, handle_plain, api_refusal};
	struct mock *mock = &program->mock;
	program->tool = find_tool(options->tool, err);
	if (!program->tool)
		return -1;
	mock->loop = loop_new(err);
	if (!mock->loop)
		return -1;
	loop_spin(mock->loop, SPIN_NS);
	mock->catalog.tool_path = program->tool;
	mock->catalog.tool_socket = program->tool_socket;
	mock->server = server_new(mock->loop, &handler, program, err);
	if (!mock->server)
		return -1;
	mock->port = server_listen_tcp(mock->server, (int)options->port, err);
	if (mock->port < 0)
		return -1;
	/* A port is one mock's at a time, so its name is too; always as long, so are the calls. */
	snprintf(program->tool_socket, sizeof program->tool_socket, "turnmeter-%05d", mock->port);
	if (options->scenarios && catalog_read(&mock->catalog, options->scenarios, err))
		return -1;
	program->stamps = stamps_new(mock, program->tool_socket, err);
	if (!program->stamps)
		return -1;
	chat_setup(mock);
	mock->workers = workers_new(mock->loop, (size_t)options->workers, &chat_worker_setup, err);
	if (!mock->workers)
		return -1;
	return server_listen_unix(mock->server, options->control, err);
}

static int run_loop(struct program *program, struct error *err)
{
	struct mock *mock = &program->mock;
	while (!program->stopping) {
		if (loop_once(mock->loop, -1, err))
			return -1;
		if (mock->run)
			histogram_add(&mock->run->loop, now_ns() - loop_batch_ns(mock->loop));
	}
	return 0;
}

static void stop(struct program *program)
{
	struct mock *mock = &program->mock;
	if (mock->server)
		chat_cut(mock, NULL);
	workers_free(mock->workers);
	mock->workers = NULL;
	chat_release(mock);
	run_drop(mock->run);
	stamps_free(program->stamps);
	server_free(mock->server);
	catalog_release(&mock->catalog);
	if (program->signals.fd >= 0) {
		int fd = program->signals.fd;
		loop_remove(mock->loop, &program->signals);
		close(fd);
	}
	loop_free(mock->loop);
	free(program->tool);
}

static int play(const struct options *options, struct error *err)
{
	sigset_t signals;
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);
	prctl(PR_SET_TIMERSLACK, 1UL);
	raise_descriptor_limit();
	tune_memory();

	struct program *program = xcalloc(1, sizeof *program);
	program->signals.fd = -1;
	int result = start(program, options, err);
	if (!result)
		result = watch_signals(program, &signals, err);
	if (!result) {
		json_auto_t *line = json_pack("{s:s, s:i, s:s}", "event", "listening", "port",
			program->mock.port, "control", options->control);
		auto_free char *text = line ? json_dumps(line, JSON_COMPACT) : NULL;
		puts(text ? text : "{\"event\":\"listening\"}");
		fflush(stdout);
		result = run_loop(program, err);
	}
	stop(program);
	free(program);
	return result;
}

int main(int argc, char **argv)
{
	struct options options;
	struct error err;
	if (descriptors_open_standard(&err)) {
		fprintf(stderr, "mockllm: %s\n", err.text);
		return EXIT_FAILURE;
	}
	int chosen = read_options(argc, argv, &options, &err);
	if (chosen > 0)
		return EXIT_SUCCESS;
	if (chosen < 0) {
		fprintf(stderr, "mockllm: %s (mockllm --help lists the options)\n", err.text);
		return EXIT_USAGE;
	}
	if (play(&options, &err)) {
		fprintf(stderr, "mockllm: %s\n", err.text);
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}
