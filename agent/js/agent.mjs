// The agent of agent/CONTRACT.md in JavaScript: one file without dependencies that runs unchanged on
// Node.js, Bun and Deno. Section numbers in comments are the contract's. agent-http.mjs and agent-cluster.mjs
// import it; by itself it does what `main` does.

import { Buffer } from 'node:buffer';
import { spawn } from 'node:child_process';
import { readFileSync, writeSync } from 'node:fs';
import { constants } from 'node:os';
import process from 'node:process';

const EVENT_MAX = 16 * 1024 * 1024; // one line, and the data of one event
const ERROR_BODY_MAX = 64 * 1024;
const READ_BYTES = 4096;
const REDIRECTS_MAX = 5;
const RETRY_AFTER_MAX_MS = 60_000;
const AFTER_EXIT_MS = 100;
const KILL_GRACE_MS = 500;
const DRAIN_MS = 1000;

const TOOLS =
	'[{"type":"function","function":{"name":"exec","description":"Run a program without a shell.","parameters":{"type":"object","properties":{"argv":{"type":"array","items":{"type":"string"},"minItems":1}},"required":["argv"]}}},' +
	'{"type":"function","function":{"name":"shell","description":"Run a command with /bin/sh.","parameters":{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}}}]';

// ---- settings (section 1)

function malformed(name, problem) {
	process.stderr.write(`agent: ${name} ${problem}\n`);
	process.exit(2);
}

function setting(name) {
	return process.env[name] || malformed(name, 'is required');
}

function integerSetting(name, byDefault, min, max) {
	const text = process.env[name];
	if (!text) return byDefault;
	const value = Number(text);
	if (!/^[0-9]+$/.test(text) || value < min || value > max)
		malformed(name, `must be a whole number from ${min} to ${max}`);
	return value;
}

function fileSetting(name, decode) {
	try {
		return decode(readFileSync(setting(name)));
	} catch (error) {
		malformed(name, `cannot be read: ${error.message}`);
	}
}

const utf8 = new TextDecoder('utf-8', { ignoreBOM: true });

const baseUrl = setting('OPENAI_BASE_URL');
if (!/^https?:\/\/[^/]/.test(baseUrl) || !URL.canParse(baseUrl))
	malformed('OPENAI_BASE_URL', 'must be an http:// or https:// URL');
const apiKey = setting('OPENAI_API_KEY');
if (!/^[\x21-\x7e]+$/.test(apiKey)) malformed('OPENAI_API_KEY', 'must be printable ASCII without spaces');
const model = setting('OPENAI_MODEL');
export const sessions = integerSetting('AGENT_SESSIONS', 1, 1, 10_000);
const systemPrompt = fileSetting('AGENT_SYSTEM_PROMPT_FILE', (bytes) => utf8.decode(bytes));
const task = setting('AGENT_TASK');
const toolTimeoutMs = integerSetting('AGENT_TOOL_TIMEOUT_MS', 60_000, 1, 86_400_000);
const toolOutputMax = integerSetting('AGENT_TOOL_OUTPUT_MAX', 65_536, 16, 16_777_216);
const idleTimeoutMs = integerSetting('AGENT_IDLE_TIMEOUT_MS', 60_000, 1, 86_400_000);
const maxRetries = integerSetting('AGENT_MAX_RETRIES', 4, 0, 100);
const caFile = process.env.AGENT_CA_FILE ? fileSetting('AGENT_CA_FILE', String) : null;
const report = integerSetting('AGENT_REPORT', 0, 0, 1) === 1;

// Each runtime has its own way of trusting a certificate in fetch.
const fetchOptions = {};
if (caFile !== null) {
	try {
		if (globalThis.Deno) fetchOptions.client = Deno.createHttpClient({ caCerts: [caFile] });
		else if (globalThis.Bun) fetchOptions.tls = { ca: caFile };
		else (await import('node:tls')).setDefaultCACertificates([caFile]);
	} catch (error) {
		malformed('AGENT_CA_FILE', `holds no usable certificate: ${error.message}`);
	}
}

// ---- output (section 6)

const sleeper = new Int32Array(new SharedArrayBuffer(4));

export function emit(event) {
	const line = Buffer.from(JSON.stringify(event) + '\n');
	for (;;) {
		try {
			writeSync(1, line);
			return;
		} catch (error) {
			if (error.code !== 'EAGAIN') throw error;
			Atomics.wait(sleeper, 0, 0, 1); // a non-blocking pipe is full
		}
	}
}

// The longest prefix of whole code points that takes at most `max` bytes of UTF-8.
function cutUtf8(text, max) {
	if (text.length * 3 <= max) return text;
	const bytes = Buffer.from(text);
	if (bytes.length <= max) return text;
	let end = max;
	while ((bytes[end] & 0xc0) === 0x80) end--;
	return utf8.decode(bytes.subarray(0, end));
}

function emitError(session, turn, message) {
	const event = { event: 'error', session, turn, message: cutUtf8(message.toWellFormed(), 500) };
	// Escapes may make the line longer than its cap of 512 bytes.
	for (let max = 440; Buffer.byteLength(JSON.stringify(event)) > 511; max -= 20)
		event.message = cutUtf8(event.message, max);
	emit(event);
}

// ---- tools (section 4)

const running = new Set(); // process groups of tools
const doomed = new Set(); // groups that got SIGTERM and wait for SIGKILL

function killGroup(group, signal) {
	try {
		process.kill(-group, signal);
	} catch {
		// it has ended
	}
}

// Keeps the first toolOutputMax + 4 bytes of a tool's stream and drops the rest.
class Capture {
	chunks = [];
	room = toolOutputMax + 4;
	seen = 0;

	constructor(stream) {
		this.stream = stream;
		stream.on('data', (chunk) => {
			this.seen++;
			if (this.room === 0) return;
			if (chunk.length > this.room) chunk = chunk.subarray(0, this.room);
			this.room -= chunk.length;
			this.chunks.push(chunk);
		});
		stream.on('error', () => {});
	}

	text() {
		if (this.chunks.length === 0) return '';
		return utf8.decode(this.chunks.length === 1 ? this.chunks[0] : Buffer.concat(this.chunks));
	}
}

function addLine(text, line) {
	return (text === '' || text.endsWith('\n') ? text : text + '\n') + line;
}

function toolMessage(stdout, stderr, status) {
	const text = stdout + stderr;
	let message = cutUtf8(text, toolOutputMax);
	if (message.length < text.length) message = addLine(message, '[truncated]');
	return status === '' ? message : addLine(message, status);
}

// Runs a program; resolves to the tool message and never rejects.
function runProgram(file, args) {
	const { promise, resolve } = Promise.withResolvers();
	const failed = (error) => resolve(toolMessage('', '', error.code === 'ENOENT' ? '[exit 127]' : '[exit 126]'));
	let child;
	try {
		child = spawn(file, args, { detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
	} catch (error) {
		failed(error);
		return promise;
	}
	child.on('error', failed);
	if (child.pid === undefined) return promise;

	const group = child.pid;
	running.add(group);
	const stdout = new Capture(child.stdout);
	const stderr = new Capture(child.stderr);
	let timedOut = false;
	const timeout = setTimeout(() => {
		timedOut = true;
		killGroup(group, 'SIGTERM');
		doomed.add(group);
		setTimeout(() => {
			doomed.delete(group);
			killGroup(group, 'SIGKILL');
		}, KILL_GRACE_MS);
	}, toolTimeoutMs);

	let finished = false;
	const finish = (code, signal) => {
		if (finished) return;
		finished = true;
		running.delete(group);
		child.stdout.destroy();
		child.stderr.destroy();
		const number = signal ? 128 + (constants.signals[signal] ?? 0) : code;
		const status = timedOut ? '[timeout]' : number === 0 ? '' : `[exit ${number}]`;
		resolve(toolMessage(stdout.text(), stderr.text(), status));
	};
	child.on('exit', (code, signal) => {
		clearTimeout(timeout);
		// Whoever else holds the pipes is not waited for. A busy loop may come here late and with output
		// unread, so it ends only when a pass over the sockets has brought nothing, 16 passes at most.
		let passes = 16;
		let seen = -1;
		const settle = () => {
			if (seen === stdout.seen + stderr.seen || passes-- === 0) finish(code, signal);
			else {
				seen = stdout.seen + stderr.seen;
				setImmediate(settle);
			}
		};
		const drain = setTimeout(settle, AFTER_EXIT_MS);
		child.on('close', () => {
			clearTimeout(drain);
			finish(code, signal);
		});
	});
	return promise;
}

const isText = (value) => typeof value === 'string' && !value.includes('\0');

function runCall(call) {
	let args = null;
	try {
		args = JSON.parse(call.arguments);
	} catch {
		// told to the model below
	}
	if (call.name === 'exec') {
		const argv = args?.argv;
		if (Array.isArray(argv) && argv.length > 0 && argv.every(isText)) return runProgram(argv[0], argv.slice(1));
	} else if (call.name === 'shell') {
		if (isText(args?.command)) return runProgram('/bin/sh', ['-c', args.command]);
	} else {
		return `[error] unknown tool: ${call.name}`;
	}
	return '[error] invalid arguments';
}

// ---- the answer's stream (section 3)

// A failed attempt at a turn.
class TurnError extends Error {
	constructor(message, retryable, waitMs = null) {
		super(message);
		this.retryable = retryable;
		this.waitMs = waitMs;
	}
}

// What a server's error says, short: `error` as in OpenAI's bodies, a bare string, or anything.
function errorMessage(error) {
	if (typeof error?.message === 'string') return cutUtf8(error.message.toWellFormed(), 500);
	return cutUtf8((typeof error === 'string' ? error : JSON.stringify(error)).toWellFormed(), 500);
}

function bodyMessage(text) {
	try {
		return errorMessage(JSON.parse(text).error ?? text);
	} catch {
		return errorMessage(text.replace(/\s+/g, ' ').trim());
	}
}

// Splits text, in pieces of any size, into the data of server-sent events.
class EventParser {
	stray = ''; // lines that are no event stream's: a server's error page
	#onData;
	#line = ''; // unfinished; a rope that is searched never again
	#data = null; // data lines of the unfinished event
	#afterCr = false;

	constructor(onData) {
		this.#onData = onData;
	}

	push(text) {
		let start = 0;
		if (this.#afterCr && text !== '') {
			this.#afterCr = false;
			if (text.charCodeAt(0) === 10) start = 1;
		}
		let lf = text.indexOf('\n', start);
		let cr = text.indexOf('\r', start);
		while (lf !== -1 || cr !== -1) {
			const atCr = cr !== -1 && (lf === -1 || cr < lf);
			const end = atCr ? cr : lf;
			if (this.#line === '') {
				this.#endLine(text.slice(start, end));
			} else {
				this.#addToLine(text.slice(start, end));
				const line = this.#line;
				this.#line = '';
				this.#endLine(line);
			}
			start = end + 1;
			if (atCr) {
				if (start === text.length) this.#afterCr = true;
				else if (start === lf) start++;
				cr = text.indexOf('\r', start);
			}
			if (lf !== -1 && lf < start) lf = text.indexOf('\n', start);
		}
		if (start < text.length) this.#addToLine(start === 0 ? text : text.slice(start));
	}

	// The stream has ended; its last event may lack line ends.
	end() {
		if (this.#line !== '') this.#endLine(this.#line);
		this.#line = '';
		this.#endLine('');
	}

	#addToLine(text) {
		this.#line += text;
		if (this.#line.length > EVENT_MAX) throw new TurnError('line of the stream is longer than 16 MiB', false);
	}

	#endLine(line) {
		if (line.startsWith('data:')) {
			const data = line.slice(line.charCodeAt(5) === 32 ? 6 : 5);
			this.#data = this.#data === null ? data : this.#data + '\n' + data;
			if (this.#data.length > EVENT_MAX) throw new TurnError('event of the stream is longer than 16 MiB', false);
		} else if (line === '') {
			const data = this.#data;
			this.#data = null;
			if (data !== null && data !== '') this.#onData(data);
		} else if (!/^(:|(data|event|id|retry)(:|$))/.test(line) && this.stray.length < 4096) {
			this.stray += line.slice(0, 4096) + '\n';
		}
	}
}

const textOf = (value) => (typeof value === 'string' ? value : '');

// One turn's answer, put together from its chunks.
class Answer {
	text = null;
	calls = [];
	complete = false; // a finish_reason was seen
	done = false; // [DONE] was seen
	#byIndex = new Map();
	#current = null;

	take(data) {
		if (data === '[DONE]') {
			this.done = true;
			return;
		}
		let chunk;
		try {
			chunk = JSON.parse(data);
		} catch {
			if (data.trim() === '') return;
			throw new TurnError(`event of the stream is not JSON: ${data.slice(0, 80)}`, true);
		}
		if (chunk?.error) throw new TurnError(errorMessage(chunk.error), true);
		const choice = chunk?.choices?.[0];
		if (!choice) return;
		const delta = choice.delta;
		if (delta) {
			if (typeof delta.content === 'string') this.text = this.text === null ? delta.content : this.text + delta.content;
			if (Array.isArray(delta.tool_calls)) for (const fragment of delta.tool_calls) this.#takeFragment(fragment);
		}
		if (choice.finish_reason) this.complete = true;
	}

	#takeFragment(fragment) {
		if (!fragment) return;
		const id = textOf(fragment.id);
		const call = this.#callOf(fragment.index, id);
		this.#current = call;
		call.id ||= id;
		const part = fragment.function;
		if (!part) return;
		call.name ||= textOf(part.name);
		if (typeof part.arguments === 'string') call.arguments += part.arguments;
		else if (part.arguments != null) call.arguments += JSON.stringify(part.arguments);
	}

	#callOf(index, id) {
		if (Number.isInteger(index)) {
			const call = this.#byIndex.get(index);
			if (call && (id === '' || call.id === '' || call.id === id)) return call;
			const started = this.#start(index);
			this.#byIndex.set(index, started);
			return started;
		}
		if (id !== '') return this.calls.find((call) => call.id === id) ?? this.#start(this.#nextOrder());
		return this.#current ?? this.#start(this.#nextOrder());
	}

	#nextOrder() {
		return this.calls.reduce((order, call) => Math.max(order, call.order + 1), 0);
	}

	#start(order) {
		const call = { order, id: '', name: '', arguments: '' };
		this.calls.push(call);
		return call;
	}

	// The calls in order, as the history and the tools need them.
	finish(turn) {
		this.calls.sort((a, b) => a.order - b.order);
		this.calls.forEach((call, k) => {
			call.id = call.id.toWellFormed() || `call_${turn}_${k}`;
			call.name = call.name.toWellFormed();
			call.arguments = call.arguments.toWellFormed() || '{}';
		});
		return this;
	}

	// This turn as the history's next message, in JSON.
	message() {
		return JSON.stringify({
			role: 'assistant',
			content: this.text === null ? null : this.text.toWellFormed(),
			tool_calls: this.calls.map((call) => ({
				id: call.id,
				type: 'function',
				function: { name: call.name, arguments: call.arguments },
			})),
		});
	}
}

// ---- requests (section 3)

// Aborts a request whose server is silent for too long. One timer serves all events of an answer.
class Watchdog {
	silent = false;
	#controller = new AbortController();
	#heard = performance.now();
	#timer = setTimeout(() => this.#check(), idleTimeoutMs);

	get signal() {
		return this.#controller.signal;
	}

	heard() {
		this.#heard = performance.now();
	}

	#check() {
		const left = this.#heard + idleTimeoutMs - performance.now();
		if (left > 0) {
			this.#timer = setTimeout(() => this.#check(), left);
		} else {
			this.silent = true;
			this.#controller.abort();
		}
	}

	stop() {
		clearTimeout(this.#timer);
	}

	abort() {
		this.stop();
		this.#controller.abort();
	}
}

function retryAfterMs(headers) {
	const ms = headers.get('retry-after-ms');
	if (ms !== null && /^\s*[0-9]+(\.[0-9]*)?\s*$/.test(ms)) return Math.min(Number(ms), RETRY_AFTER_MAX_MS);
	const after = headers.get('retry-after');
	if (after === null) return null;
	let wait = NaN;
	if (/^\s*[0-9]+(\.[0-9]*)?\s*$/.test(after)) wait = Number(after) * 1000;
	else if (/^\s*[A-Z][a-z]+,? /.test(after)) wait = Date.parse(after) - Date.now(); // Date.parse takes "-5", too
	return Number.isNaN(wait) ? null : Math.min(Math.max(wait, 0), RETRY_AFTER_MAX_MS);
}

// Reads a body into one buffer that is used again and again: Deno otherwise allocates 64 KB for each
// event. Bun's bodies cannot do it and bring buffers of their own.
class BodyReader {
	#reader;
	#space = new Uint8Array(READ_BYTES);

	constructor(body) {
		try {
			this.#reader = body.getReader({ mode: 'byob' });
		} catch {
			this.#reader = body.getReader();
			this.#space = null;
		}
	}

	// A promise of {done, value}; hand the value back when its bytes have been used.
	read() {
		return this.#space === null ? this.#reader.read() : this.#reader.read(this.#space);
	}

	reuse(value) {
		if (this.#space !== null) this.#space = new Uint8Array(value.buffer);
	}

	cancel() {
		this.#reader.cancel().catch(() => {});
	}
}

async function failedResponse(response) {
	let text = '';
	if (response.body) {
		const reader = new BodyReader(response.body);
		const decoder = new TextDecoder();
		try {
			while (text.length < ERROR_BODY_MAX) {
				const { done, value } = await reader.read();
				if (done) break;
				text += decoder.decode(value, { stream: true });
				reader.reuse(value);
			}
		} catch {
			// the status and what has come must do
		}
		reader.cancel();
	}
	const { status } = response;
	const retryable = status === 408 || status === 409 || status === 429 || status >= 500;
	return new TurnError(
		`HTTP ${status}: ${bodyMessage(text) || 'no message'}`,
		retryable,
		retryable ? retryAfterMs(response.headers) : null,
	);
}

async function post(session, body, signal) {
	const headers = {
		'Content-Type': 'application/json',
		Authorization: `Bearer ${apiKey}`,
		'X-Session-Id': session,
	};
	let url = `${baseUrl}/chat/completions`;
	for (let hops = 0; ; hops++) {
		const response = await fetch(url, { method: 'POST', headers, body, signal, redirect: 'manual', ...fetchOptions });
		if (response.status !== 307 && response.status !== 308) return response;
		const location = response.headers.get('location') ?? '';
		response.body?.cancel().catch(() => {});
		if (hops === REDIRECTS_MAX || !URL.canParse(location, url))
			throw new TurnError(`HTTP ${response.status}: redirected too often or to nowhere`, false);
		const next = new URL(location, url);
		if (next.origin !== new URL(url).origin) delete headers.Authorization;
		url = next.href;
	}
}

// Reads what follows [DONE], so that the connection can be used again.
async function drain(reader, watchdog) {
	const timer = setTimeout(() => watchdog.abort(), DRAIN_MS);
	try {
		for (;;) {
			const { done, value } = await reader.read();
			if (done) break;
			reader.reuse(value);
		}
	} catch {
		// a connection less to use again
	}
	clearTimeout(timer);
}

// True if a request failed since it was sent on a kept-alive connection that the server had closed: the one
// of the session's last answer, if there was one. Node.js often tells what the socket had carried before;
// Deno replaces such a connection on its own.
function isStale(error, kept) {
	if (!kept) return false;
	const socket = error.cause?.socket;
	return socket ? socket.bytesRead > 0 : ['ECONNRESET', 'EPIPE'].includes(error.cause?.code ?? error.code);
}

// One attempt at one turn; throws a TurnError when it fails. `connection.kept`: the session's last
// request left a connection that this one may be sent on.
async function attemptTurn(session, body, connection) {
	const watchdog = new Watchdog();
	const answer = new Answer();
	const { kept } = connection;
	connection.kept = false;
	let answered = false; // headers came
	let over = false; // nothing is left to read, or someone else reads it
	try {
		const response = await post(session, body, watchdog.signal);
		answered = true;
		if (!response.ok) {
			const failure = await failedResponse(response);
			connection.kept = true;
			throw failure;
		}

		const parser = new EventParser((data) => {
			watchdog.heard();
			if (!answer.done) answer.take(data);
		});
		const decoder = new TextDecoder();
		const reader = new BodyReader(response.body ?? new Response('').body);
		while (!answer.done) {
			const { done, value } = await reader.read();
			if (done) {
				over = true;
				parser.push(decoder.decode());
				parser.end();
				break;
			}
			parser.push(decoder.decode(value, { stream: true }));
			reader.reuse(value);
		}
		if (answer.done) {
			if (!over) drain(reader, watchdog);
			over = true;
		} else if (!answer.complete) {
			const stray = parser.stray === '' ? '' : `: ${bodyMessage(parser.stray)}`;
			throw new TurnError(`stream ended before the answer did${stray}`, true);
		}
		connection.kept = true;
		return answer;
	} catch (error) {
		if (error instanceof TurnError) throw error;
		if (answer.complete) return answer; // all of it had come
		if (watchdog.silent) throw new TurnError(`server was silent for ${idleTimeoutMs} ms`, true);
		const reason = error.cause?.code ?? error.code ?? error.message;
		const failure = new TurnError(`connection failed: ${reason}`, true);
		failure.stale = !answered && isStale(error, kept);
		throw failure;
	} finally {
		watchdog.stop();
		if (!over) watchdog.abort();
	}
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// ---- sessions (sections 2 and 3)

const headOfBodies =
	`{"model":${JSON.stringify(model)},"stream":true,"stream_options":{"include_usage":true},"tools":${TOOLS},` +
	`"messages":[${JSON.stringify({ role: 'system', content: systemPrompt })}`;

async function runSession(session) {
	// The history is kept as the body of the next request, and nowhere else: each message is serialised
	// once, and while an answer streams there is one copy of the text.
	let body = `${headOfBodies},${JSON.stringify({ role: 'user', content: task.replaceAll('{session}', session) })}]}`;
	const connection = { kept: false };
	for (let turn = 1; ; turn++) {
		let answer;
		let attempt = 1;
		let startNs;
		for (let retries = 0; ; attempt++) {
			startNs = report ? process.hrtime.bigint() : 0n;
			try {
				answer = await attemptTurn(session, body, connection);
				break;
			} catch (error) {
				if (error.stale) continue;
				if (!error.retryable || retries === maxRetries) {
					emitError(session, turn, error.message);
					return false;
				}
				const backoffMs = Math.min(500 * 2 ** retries, 8000) * (0.75 + Math.random() / 4);
				retries++;
				await sleep(error.waitMs ?? backoffMs);
			}
		}
		const { calls } = answer.finish(turn);
		if (calls.length > 0) {
			const contents = await Promise.all(calls.map(runCall));
			let messages = ',' + answer.message();
			calls.forEach((call, k) => {
				messages += ',' + JSON.stringify({ role: 'tool', tool_call_id: call.id, content: contents[k] });
			});
			body = body.slice(0, -2) + messages + ']}';
		}
		if (report) {
			const turn_ns = Number(process.hrtime.bigint() - startNs);
			emit({ event: 'turn', session, turn, attempt, turn_ns });
		}
		if (calls.length === 0) return true;
	}
}

// Runs the sessions s`first` to s`last`; resolves to whether all of them ended well.
export async function runSessions(first, last) {
	const runs = [];
	for (let k = first; k <= last; k++) runs.push(runSession(`s${k}`));
	return (await Promise.all(runs)).every(Boolean);
}

// ---- the end (section 5)

// Ends the program, and the tools that were told to end; with `tools` those that run, too.
export function exit(code, tools = false) {
	if (tools) for (const group of running) killGroup(group, 'SIGKILL');
	for (const group of doomed) killGroup(group, 'SIGKILL');
	process.exit(code);
}

// Calls `end` with the exit code when a signal asks for it.
export function onSignals(end) {
	for (const [signal, code] of [['SIGTERM', 143], ['SIGINT', 130]]) process.on(signal, () => end(code));
}

// Says that all sessions are over, and calls `end` when stdin is.
export function doneUntilEndOfInput(end) {
	emit({ event: 'done' });
	process.stdin.on('end', end);
	process.stdin.on('error', end);
	process.stdin.resume();
}

export async function main() {
	onSignals((code) => exit(code, true));
	const allWell = await runSessions(1, sessions);
	doneUntilEndOfInput(() => exit(allWell ? 0 : 1));
}

if (import.meta.main) await main();
