/*
 * What the suite's tool tells the mock about a call: one datagram to an abstract Unix socket, in
 * the machine's byte order (both run on one kernel).
 */
#ifndef MOCKLLM_TOOL_STAMP_H
#define MOCKLLM_TOOL_STAMP_H

#include <stdint.h>

#define TOOL_STAMP_MAGIC UINT32_C(0x746d5431) /* "tmT1" */

struct tool_stamp {
	uint32_t magic;
	uint32_t pid;
	uint64_t key;
	int64_t start_ns; /* CLOCK_MONOTONIC, first thing in main */
	int64_t end_ns;   /* after the output was written */
	int64_t cpu_ns;   /* CPU time between the two */
};

#endif
