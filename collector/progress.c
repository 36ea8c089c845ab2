#include "collector/progress.h"

#include "common/clock.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

/* Beside its schedule a run needs to start, to be read and to be cleaned up. */
static const double RUN_OVERHEAD_S = 0.5;

void progress_begin(struct progress *progress, FILE *out, int64_t total, double planned_s)
{
	*progress = (struct progress){.out = out,
		.terminal = out && isatty(fileno(out)),
		.total = total,
		.left_s = planned_s + RUN_OVERHEAD_S * (double)total};
}

void progress_format_time(double seconds, char *out, size_t size)
{
	int64_t s = (int64_t)(seconds + 0.5);
	if (s < 60)
		snprintf(out, size, "%" PRId64 " s", s);
	else if (s < 3600)
		snprintf(out, size, "%" PRId64 " min %02" PRId64 " s", s / 60, s % 60);
	else
		snprintf(out, size, "%" PRId64 " h %02" PRId64 " min", s / 3600, s % 3600 / 60);
}

double progress_left_s(const struct progress *progress)
{
	double scale = progress->planned_s > 0 ? progress->spent_s / progress->planned_s : 1;
	return progress->left_s * scale;
}

static void print_state(const struct progress *progress, const char *what)
{
	char left[64];
	progress_format_time(progress_left_s(progress), left, sizeof left);
	fprintf(progress->out, "\r\033[K%" PRId64 "/%" PRId64 "  %s", progress->finished,
		progress->total, what);
	if (progress->not_ok)
		fprintf(progress->out, "  %" PRId64 " not ok", progress->not_ok);
	if (progress->invalid)
		fprintf(progress->out, "  %" PRId64 " not valid", progress->invalid);
	fprintf(progress->out, "  %s left", left);
	fflush(progress->out);
}

void progress_run(struct progress *progress, const char *what, double planned_s)
{
	progress->begun_ns = now_ns();
	progress->run_planned_s = planned_s + RUN_OVERHEAD_S;
	if (progress->out && progress->terminal)
		print_state(progress, what);
}

void progress_more(struct progress *progress, double planned_s)
{
	progress->total++;
	progress->left_s += planned_s + RUN_OVERHEAD_S;
}

void progress_ran(struct progress *progress, const char *what, const char *result, bool ok,
	bool valid, bool warm_up)
{
	double spent_s = (double)(now_ns() - progress->begun_ns) / 1e9;
	progress->spent_s += spent_s;
	progress->planned_s += progress->run_planned_s;
	if (warm_up)
		return;
	progress->left_s -= progress->run_planned_s;
	if (progress->left_s < 0)
		progress->left_s = 0;
	progress->finished++;
	progress->not_ok += !ok;
	progress->invalid += !valid;
	if (!progress->out)
		return;
	if (progress->terminal && ok && valid)
		return;
	char left[64];
	progress_format_time(progress_left_s(progress), left, sizeof left);
	fprintf(progress->out, "%s%" PRId64 "/%" PRId64 "  %s: %s (%.1f s)",
		progress->terminal ? "\r\033[K" : "", progress->finished, progress->total, what,
		result, spent_s);
	fprintf(progress->out, progress->terminal ? "\n" : ", %s left\n", left);
	fflush(progress->out);
}

void progress_end(struct progress *progress)
{
	if (progress->out && progress->terminal) {
		fputs("\r\033[K", progress->out);
		fflush(progress->out);
	}
}
