// Starts mockllm for a test and ends it; runs the tools that it asks for.

import { execFile, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import process from 'node:process';
import { promisify } from 'node:util';

export const MODEL = 'smoke'; // three turns, the last without tools
export const TURNS = 3;

// $PREFIX is the installed tree, $SCENARIOS the folder of scenario files.
export async function startMock() {
	const { PREFIX, SCENARIOS } = process.env;
	const folder = mkdtempSync(path.join(tmpdir(), 'clients-'));
	const mock = spawn(
		path.join(PREFIX, 'bin/mockllm'),
		['--port', '0', '--control', path.join(folder, 'control'), '--tool', path.join(PREFIX, 'bin/tmtool'), '--scenarios', SCENARIOS],
		{ stdio: ['ignore', 'pipe', 'inherit'] },
	);
	const ended = new Promise((resolve) => mock.once('exit', resolve));
	const line = await new Promise((resolve, reject) => {
		let text = '';
		mock.stdout.setEncoding('utf8').on('data', (more) => {
			text += more;
			if (text.includes('\n')) resolve(text);
		});
		mock.once('error', reject).once('exit', (code) => reject(new Error(`mockllm ended with ${code}`)));
	});
	return {
		baseURL: `http://127.0.0.1:${JSON.parse(line).port}/v1`,
		async stop() {
			mock.kill('SIGTERM');
			await ended;
			rmSync(folder, { recursive: true, force: true });
		},
	};
}

const execute = promisify(execFile);

// What a tool call's arguments ask for, run as the agents run it.
export async function runTool({ argv }) {
	const { stdout } = await execute(argv[0], argv.slice(1), { maxBuffer: 1 << 24 });
	return stdout;
}

export const TOOL_NAME = 'exec';
export const TOOL_TEXT = 'Run a program without a shell.';
export const TOOL_PARAMETERS = {
	type: 'object',
	properties: { argv: { type: 'array', items: { type: 'string' }, minItems: 1 } },
	required: ['argv'],
};
