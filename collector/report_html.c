/*
 * report.html: the template with its {{places}} filled. The page draws itself from the summary that
 * it carries; what is made here is what must be there without a script, and what a browser may run.
 */
#include "collector/report.h"

#include "collector/digest.h"
#include "collector/escape.h"
#include "collector/summary_view.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/error.h"

#include <stdlib.h>
#include <string.h>

/*
 * The files are part of the program; the paths are the repository's, where the build runs. Hidden,
 * so that the names are reached directly: as entries of a table (GOT) they would all be the
 * section's start on aarch64.
 */
#define EMBED(name, files)                                                                         \
	__asm__(".pushsection .rodata\n" #name ":\n" files ".byte 0\n.popsection\n");              \
	extern const char name[] /* NOLINT(bugprone-macro-parentheses): a declarator */
#define PAGE_FILE(file) ".incbin \"collector/page/" file "\"\n"

#pragma GCC visibility push(hidden)
EMBED(page_template, PAGE_FILE("template.html"));
EMBED(page_style, PAGE_FILE("page.css"));
EMBED(page_plot, PAGE_FILE("plot.js"));
/* One a line, in the order in which they stand on one another. */
/* clang-format off */
EMBED(page_script,
	PAGE_FILE("statistics.js")
	PAGE_FILE("summary.js")
	PAGE_FILE("dom.js")
	PAGE_FILE("charts.js")
	PAGE_FILE("selection.js")
	PAGE_FILE("overview.js")
	PAGE_FILE("figures.js")
	PAGE_FILE("sections.js")
	PAGE_FILE("page.js"));
#pragma GCC visibility pop
/* clang-format on */

enum { WORDS_MAX = 1 << 28 };

struct page {
	const json_t *summary;
	struct buf *out;
};

static void add(const struct page *page, const char *html)
{
	if (buf_add_text(page->out, html))
		die_oom();
}

/* Nothing is loaded, and of scripts only the two that are ours run: by their digests. */
static void policy(const struct page *page)
{
	const char *const scripts[] = {page_plot, page_script};
	add(page, "default-src 'none'; script-src");
	for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
		char digest[DIGEST_BASE64];
		digest_base64(scripts[i], strlen(scripts[i]), digest);
		add(page, " 'sha256-");
		add(page, digest);
		add(page, "'");
	}
	add(page, "; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'");
}

static void title(const struct page *page)
{
	escape_html(page->out, view_text(json_object_get(page->summary, "plan"), "name"));
}

/* The table of the terminal: it is escaped line by line, since escaping makes spaces of breaks. */
static void words(const struct page *page)
{
	auto_buf struct buf text;
	buf_init(&text, WORDS_MAX);
	report_terminal(page->summary, false, SIZE_MAX, &text);
	char *rest = text.data;
	for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
		escape_html(page->out, line);
		add(page, "\n");
	}
}

static void version(const struct page *page)
{
	add(page, TURNMETER_VERSION);
}

static void style(const struct page *page)
{
	add(page, page_style);
}

static void plot(const struct page *page)
{
	add(page, page_plot);
}

static void script(const struct page *page)
{
	add(page, page_script);
}

/* No '<' can end the script element; everything beyond ASCII is \u-escaped. */
static void data(const struct page *page)
{
	auto_free char *json = json_dumps(
		page->summary, JSON_COMPACT | JSON_REAL_PRECISION(12) | JSON_ENSURE_ASCII);
	if (!json)
		die_oom();
	for (const char *at = json; *at; at++) {
		size_t plain = strcspn(at, "<>&");
		if (buf_add(page->out, at, plain))
			die_oom();
		at += plain;
		if (!*at)
			break;
		if (buf_addf(page->out, "\\u%04x", (unsigned)*at))
			die_oom();
	}
}

static const struct place {
	const char *name;
	void (*fill)(const struct page *page);
} places[] = {
	{"policy", policy},
	{"title", title},
	{"style", style},
	{"words", words},
	{"version", version},
	{"data", data},
	{"plot", plot},
	{"page", script},
};

static const struct place *find_place(const char *name, size_t length)
{
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		if (strlen(places[i].name) == length && !memcmp(places[i].name, name, length))
			return &places[i];
	}
	return NULL;
}

void report_html(const json_t *summary, struct buf *out)
{
	const struct page page = {summary, out};
	const char *at = page_template;
	for (const char *open; (open = strstr(at, "{{")) != NULL;) {
		const char *close = strstr(open, "}}");
		const struct place *place = find_place(open + 2, (size_t)(close - open - 2));
		if (buf_add(out, at, (size_t)(open - at)))
			die_oom();
		place->fill(&page);
		at = close + 2;
	}
	add(&page, at);
}
