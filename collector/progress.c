#include "collector/progress.h"

#include "collector/terminal.h"
#include "common/clock.h"
#include "common/json.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

/* Beside its schedule a run needs to start, to be read and to be cleaned up. */
static const double RUN_OVERHEAD_S = 0.5;

void progress_begin(struct progress *progress, FILE *out, int64_t total, double planned_s)
{
	*progress = (struct progress){.out = out,
		.terminal = out && isatty(fileno(out)),
		.colour = out && terminal_has_colour(out),
		.width = out ? terminal_width(out) : SIZE_MAX,
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

/* Of the run in progress, which `left_s` holds whole; a run that takes too long adds nothing. */
static double done_of_run(const struct progress *progress, double scale)
{
	if (!progress->begun_ns || progress->run_warm_up)
		return 0;
	double spent_s = (double)(now_ns() - progress->begun_ns) / 1e9;
	double whole_s = progress->run_planned_s * scale;
	return spent_s < whole_s ? spent_s : whole_s;
}

double progress_left_s(const struct progress *progress)
{
	double scale = progress->planned_s > 0 ? progress->spent_s / progress->planned_s : 1;
	return progress->left_s * scale - done_of_run(progress, scale);
}

/* "  2 not ok"; nothing where there are none. */
static size_t format_count(int64_t count, const char *what, char *out, size_t size)
{
	*out = '\0';
	return count ? (size_t)snprintf(out, size, "  %" PRId64 " %s", count, what) : 0;
}

/*
 * One line, however narrow the terminal is: counts, failures and time are shown whole, of what is
 * being played as much as there is room for. A line that wrapped could not be taken back.
 */
static void print_state(const struct progress *progress)
{
	char left[64], place[64], not_ok[64], invalid[64];
	progress_format_time(progress_left_s(progress), left, sizeof left);
	int used = snprintf(place, sizeof place, "%" PRId64 "/%" PRId64 "  ", progress->finished,
		progress->total);
	/* The last column stays free: terminals differ in what they make of a full line. */
	size_t taken = (size_t)used + strlen(left) + strlen("   left") + 1 +
		       format_count(progress->not_ok, "not ok", not_ok, sizeof not_ok) +
		       format_count(progress->invalid, "not valid", invalid, sizeof invalid);
	size_t room = progress->width > taken ? progress->width - taken : 0;
	json_auto_t *shown = json_text(progress->run_what, room);
	bool red = progress->colour && *not_ok;
	fprintf(progress->out, "\r\033[K%s%s%s%s%s%s  %s left", place, json_string_value(shown),
		red ? "\033[31m" : "", not_ok, red ? "\033[0m" : "", invalid, left);
	fflush(progress->out);
}

void progress_run(struct progress *progress, const char *what, double planned_s, bool warm_up)
{
	progress->begun_ns = now_ns();
	progress->run_planned_s = planned_s + RUN_OVERHEAD_S;
	progress->run_warm_up = warm_up;
	snprintf(progress->run_what, sizeof progress->run_what, "%s", what);
	progress_tick(progress);
}

void progress_tick(const struct progress *progress)
{
	if (progress->out && progress->terminal && progress->begun_ns)
		print_state(progress);
}

void progress_more(struct progress *progress, double planned_s)
{
	progress->total++;
	progress->left_s += planned_s + RUN_OVERHEAD_S;
}

void progress_ran(struct progress *progress, const char *result, bool ok, bool valid)
{
	double spent_s = (double)(now_ns() - progress->begun_ns) / 1e9;
	progress->begun_ns = 0;
	progress->spent_s += spent_s;
	progress->planned_s += progress->run_planned_s;
	if (progress->run_warm_up)
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
		progress->terminal ? "\r\033[K" : "", progress->finished, progress->total,
		progress->run_what, result, spent_s);
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
