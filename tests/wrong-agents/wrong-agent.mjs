// wrong-agent.mjs FAULT: an agent of its own, just large enough to play a scenario of the suite, that
// commits one fault on purpose. The collector must find each by its right outcome (tests/collector.bats).
// FAULT "none" is the control: it commits none.

import { spawn } from 'node:child_process';
import { readFileSync, writeSync } from 'node:fs';
import process from 'node:process';

const fault = process.argv[2];
const base = process.env.OPENAI_BASE_URL;
const count = Number(process.env.AGENT_SESSIONS);
const system = readFileSync(process.env.AGENT_SYSTEM_PROMPT_FILE, 'utf8');

function runTool(call) {
	const [file, ...args] = JSON.parse(call.arguments).argv;
	return new Promise((resolve) => {
		const child = spawn(file, args, { stdio: ['ignore', 'pipe', 'ignore'] });
		let output = '';
		child.stdout.on('data', (data) => (output += data));
		child.on('close', () => resolve(output));
	});
}

// One turn: its text and calls. A call is complete when the next one begins, or at the end.
async function converse(name, messages, onCallComplete) {
	const response = await fetch(`${base}/chat/completions`, {
		method: 'POST',
		headers: {
			'content-type': 'application/json',
			authorization: `Bearer ${process.env.OPENAI_API_KEY}`,
			'x-session-id': name,
		},
		body: JSON.stringify({
			model: process.env.OPENAI_MODEL,
			stream: true,
			stream_options: { include_usage: true },
			tools: [],
			messages,
		}),
	});
	if (!response.ok) throw new Error(`status ${response.status}`);
	const calls = [];
	let content = null;
	let rest = '';
	const decoder = new TextDecoder();
	for await (const bytes of response.body) {
		const lines = (rest + decoder.decode(bytes, { stream: true })).split('\n');
		rest = lines.pop();
		for (const line of lines) {
			if (!line.startsWith('data: {')) continue;
			const event = JSON.parse(line.slice(6));
			if (event.error) throw new Error(event.error.message);
			const delta = event.choices[0]?.delta ?? {};
			if (delta.content) content = (content ?? '') + delta.content;
			for (const part of delta.tool_calls ?? []) {
				if (!calls[part.index]) {
					if (part.index > 0) onCallComplete(calls[part.index - 1]);
					calls[part.index] = { id: part.id, name: part.function.name, arguments: '' };
				}
				calls[part.index].arguments += part.function?.arguments ?? '';
			}
		}
	}
	return { content, calls };
}

const histories = {};
const eaten = [];

function eatMemory() {
	for (;;) eaten.push(Buffer.alloc(8 << 20, 1));
}

function flood() {
	const line = JSON.stringify({ event: 'error', session: 's1', turn: 1, message: 'x'.repeat(400) }) + '\n';
	for (;;) writeSync(1, line);
}

// What the fault does between turns; true: this session ends here.
function misbehave(name, turn, messages) {
	if (turn !== 2) return false;
	if (fault === 'stops-early') return name === 's1';
	if (fault === 'crashes') process.abort();
	if (fault === 'eats-memory') eatMemory();
	if (fault === 'floods-stdout') flood();
	if (fault === 'leaves-daemon' && name === 's1')
		spawn('/bin/sleep', ['3217'], { detached: true, stdio: 'ignore' }).unref();
	if (fault === 'drops-history') messages.splice(2, 1);
	return false;
}

async function runSession(name) {
	const messages = [
		{ role: 'system', content: system },
		{ role: 'user', content: process.env.AGENT_TASK.replaceAll('{session}', name) },
	];
	histories[name] = messages;
	for (let turn = 1; ; turn++) {
		const started = new Map();
		const sent = fault === 'swaps-sessions' && turn === 2 ? (histories.s2 ?? messages) : messages;
		const { content, calls } = await converse(name, sent, (call) => {
			if (fault === 'starts-tools-early') started.set(call.id, runTool(call));
		});
		if (calls.length === 0) return;
		const outputs = await Promise.all(calls.map((call) => started.get(call.id) ?? runTool(call)));
		if (fault === 'wrong-output' && turn === 1) outputs[0] = outputs[0].toUpperCase() + '.';
		messages.push({
			role: 'assistant',
			content,
			tool_calls: calls.map((call) => ({
				id: call.id,
				type: 'function',
				function: { name: call.name, arguments: call.arguments },
			})),
		});
		calls.forEach((call, k) => messages.push({ role: 'tool', tool_call_id: call.id, content: outputs[k] }));
		if (misbehave(name, turn, messages)) return;
	}
}

const names = Array.from({ length: count }, (_, k) => `s${k + 1}`);
const results = await Promise.allSettled(names.map(runSession));
if (fault === 'never-ends') setInterval(() => {}, 1000);
else {
	writeSync(1, JSON.stringify({ event: 'done' }) + '\n');
	const status = results.every((result) => result.status === 'fulfilled') ? 0 : 1;
	if (fault === 'does-not-wait') process.exit(status);
	process.stdin.on('end', () => process.exit(status));
	process.stdin.resume();
}
