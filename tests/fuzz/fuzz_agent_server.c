/* What else servers send: header lines and error bodies. */
#include "agent/c/report.h"
#include "agent/c/retry.h"
#include "agent/c/server_error.h"
#include "common/error.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	int64_t wait_ms = -1;
	if (retry_header(text, size, 1700000000, &wait_ms) != RETRY_HEADER_NONE &&
		(wait_ms < 0 || wait_ms > 60000))
		abort();

	struct error err;
	struct report report;
	server_error_body(text, size, &err);
	if (strlen(err.text) > SERVER_ERROR_MAX)
		abort();
	report_init(&report, false);
	report_error(&report, "s1", 1, err.text);
	json_t *line = json_loadb(report.lines.data, report.lines.length, 0, NULL);
	if (!line || report.lines.length > REPORT_LINE_MAX)
		abort();
	json_decref(line);
	report_release(&report);
	return 0;
}
