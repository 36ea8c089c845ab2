#include "collector/schema.h"

#include "collector/manifest.h"
#include "collector/plan.h"
#include "collector/results.h"
#include "collector/summary_check.h"
#include "common/scenario.h"

#include <string.h>

const char *const schema_names[] = {"plan", "scenario", "manifest", "run", "summary", NULL};

json_t *schema_of(const char *name)
{
	static json_t *(*const makers[])(void) = {
		plan_schema, scenario_schema, manifest_schema, record_schema, summary_schema};
	for (size_t i = 0; schema_names[i]; i++)
		if (!strcmp(name, schema_names[i]))
			return makers[i]();
	return NULL;
}
