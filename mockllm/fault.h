/* What an agent can do wrong: the kinds of docs/protocols.md, also the `code` of the answer. */
#ifndef MOCKLLM_FAULT_H
#define MOCKLLM_FAULT_H

enum fault {
	FAULT_NONE,
	FAULT_HISTORY,
	FAULT_TOOL_OUTPUT,
	FAULT_SESSION,
	FAULT_EARLY_TOOL,
	FAULT_REPEAT,
	FAULT_AFTER_END,
	FAULT_MALFORMED,
	FAULT_OVERLAP,
	FAULTS,
};

const char *fault_name(enum fault fault);

#endif
