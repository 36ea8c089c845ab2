// What a runtime believes of the machine it runs on, as one line of JSON: a manifest's `beliefs` command, run
// within the limits of runs. null is what the runtime has no opinion of.

import { readdirSync } from 'node:fs';
import { availableParallelism, totalmem } from 'node:os';
import process from 'node:process';
import { getHeapStatistics } from 'node:v8';

const known = (read) => {
	try {
		const value = read();
		return Number.isFinite(value) && value > 0 ? value : null;
	} catch {
		return null;
	}
};

const beliefs = {
	cpus: known(availableParallelism),
	// without a limit some runtimes tell the largest number there is
	memory_bytes: Math.min(known(() => process.constrainedMemory()) ?? Infinity, totalmem()),
	// Bun's is of another engine, which has no limit of its own
	heap_limit_bytes: globalThis.Bun ? null : known(() => getHeapStatistics().heap_size_limit),
	threads: known(() => readdirSync('/proc/self/task').length),
};
process.stdout.write(`${JSON.stringify(beliefs)}\n`);
