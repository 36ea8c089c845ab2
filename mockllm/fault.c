#include "mockllm/fault.h"

const char *fault_name(enum fault fault)
{
	static const char *const names[FAULTS] = {"none", "history", "tool_output", "session",
		"early_tool", "repeat", "after_end", "malformed", "overlap"};
	return names[fault];
}
