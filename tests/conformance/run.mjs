// Runs the conformance cases against agents and prints one JSON line per agent and case:
//   {"agent","case","result":"pass|fail|runtime","note"}
// Usage: node run.mjs --agents c,node [--case SUBSTRING] [--jobs N] [--prefix DIR] [--contenders DIR]
//        node run.mjs --command 'my-agent --flag' [--name NAME]; node run.mjs --list
// Exit 0 if all pairs are there and none failed, 1 otherwise, 2 on bad usage.

import { spawn, execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import process from 'node:process';
import { parseArgs } from 'node:util';
import { ScriptedServer } from './server.mjs';
import { SYSTEM_PROMPT } from './wire.mjs';
import { runtimeCases } from './runtime.mjs';

const here = import.meta.dirname;
const CASE_LIMIT_MS = 30_000;
const SLOW_JOBS = 12;
const STDOUT_MAX = 4 * 1024 * 1024;

function usage(message) {
	process.stderr.write(`conformance: ${message}\n`);
	process.exit(2);
}

let options;
try {
	options = parseArgs({
		options: {
			agents: { type: 'string', default: '' },
			command: { type: 'string' },
			name: { type: 'string', default: 'command' },
			case: { type: 'string', default: '' },
			jobs: { type: 'string', default: '6' },
			prefix: { type: 'string', default: path.resolve(here, '../../build/prefix') },
			contenders: { type: 'string', default: path.resolve(here, '../../configs/contenders') },
			list: { type: 'boolean', default: false },
			verbose: { type: 'boolean', default: false },
		},
	}).values;
} catch (error) {
	usage(error.message);
}

// ---- cases

const cases = [];
for (const file of readdirSync(path.join(here, 'cases')).sort())
	if (file.endsWith('.mjs')) cases.push(...(await import(path.join(here, 'cases', file))).default);
const names = new Set(cases.map((c) => c.name));
if (names.size !== cases.length) usage('two cases have the same name');
if (options.list) {
	for (const { name, about } of cases) process.stdout.write(`${name}\t${about}\n`);
	process.exit(0);
}
const chosen = cases.filter((c) => c.name.includes(options.case));
if (chosen.length === 0) usage(`no case's name contains '${options.case}'`);
for (const agent of Object.keys(runtimeCases))
	for (const name of Object.keys(runtimeCases[agent])) if (!names.has(name)) usage(`runtime.mjs names '${name}', which is no case`);

// ---- agents

const prefix = path.resolve(options.prefix);

function agentOfManifest(name) {
	const file = name.endsWith('.json') ? name : path.join(options.contenders, `${name}.json`);
	if (!existsSync(file)) usage(`no manifest '${file}'`);
	const manifest = JSON.parse(readFileSync(file));
	const resolve = (text) => text.replaceAll('{prefix}', prefix).replaceAll('{here}', path.dirname(path.resolve(file)));
	const environment = Object.entries(manifest.environment ?? {}).map(([key, value]) => [key, resolve(value)]);
	const [program, ...args] = (manifest.version ?? []).map(resolve);
	const version = program ? execFileSync(program, args, { encoding: 'utf8' }).trim() : '';
	return { name: manifest.name, command: manifest.command.map(resolve), environment: Object.fromEntries(environment), version };
}

const agents = options.agents.split(',').filter(Boolean).map(agentOfManifest);
if (options.command) agents.push({ name: options.name, command: options.command.split(' '), environment: {} });
if (agents.length === 0) usage('no agents: give --agents NAME,… or --command COMMAND');

// ---- running

const root = mkdtempSync(path.join(tmpdir(), 'conformance-'));
const runningAgents = new Set(); // pids
process.on('exit', () => {
	for (const pid of runningAgents) process.kill(-pid, 'SIGKILL');
	rmSync(root, { recursive: true, force: true });
});
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(130));

// A certificate authority of our own, made once and only if a case wants it.
let authority = null;
function certificates() {
	if (!authority) {
		const file = (name) => path.join(root, name);
		const openssl = (...args) => execFileSync('openssl', args, { stdio: ['ignore', 'ignore', 'pipe'] });
		const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
		openssl('req', '-x509', ...key, '-days', '2', '-subj', '/CN=Conformance CA', '-keyout', file('ca.key'), '-out', file('ca.pem'),
			'-addext', 'basicConstraints=critical,CA:TRUE', '-addext', 'keyUsage=critical,keyCertSign');
		openssl('req', ...key, '-subj', '/CN=localhost', '-keyout', file('server.key'), '-out', file('server.csr'));
		writeFileSync(file('ext'), 'subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\n');
		openssl('x509', '-req', '-in', file('server.csr'), '-CA', file('ca.pem'), '-CAkey', file('ca.key'), '-CAcreateserial', '-days', '2',
			'-extfile', file('ext'), '-out', file('server.pem'));
		authority = { caFile: file('ca.pem'), secure: { key: readFileSync(file('server.key')), cert: readFileSync(file('server.pem')) } };
	}
	return authority;
}

let scratchNumber = 0;

// Starts an agent and collects what it did: {exit: {code, signal}, events, lines, stderr, ms, scratch}.
function startAgent(agent, environment, scratch, { limitMs = CASE_LIMIT_MS, closeStdinAtOnce = false, onDone = (stdin) => stdin.end() } = {}) {
	const env = { PATH: '/usr/local/bin:/usr/bin:/bin', HOME: scratch, TMPDIR: scratch, LANG: 'C.UTF-8', ...agent.environment, ...environment };
	const started = performance.now();
	const child = spawn(agent.command[0], agent.command.slice(1), { cwd: scratch, env, detached: true, stdio: ['pipe', 'pipe', 'pipe'] });
	if (child.pid) runningAgents.add(child.pid);
	const result = { pid: child.pid, lines: [], events: [], stdout: '', stderr: '', scratch, timedOut: false };
	child.stdin.on('error', () => {});
	if (closeStdinAtOnce) child.stdin.end();
	const limit = setTimeout(() => {
		result.timedOut = true;
		process.kill(-child.pid, 'SIGKILL');
	}, limitMs);
	let unfinished = '';
	child.stdout.setEncoding('utf8').on('data', (text) => {
		if (result.stdout.length < STDOUT_MAX) result.stdout += text;
		unfinished += text;
		const lines = unfinished.split('\n');
		unfinished = lines.pop();
		for (const line of lines) {
			result.lines.push(line);
			try {
				result.events.push(JSON.parse(line));
			} catch {
				result.events.push({ event: 'not JSON', line });
			}
			if (line === '{"event":"done"}') onDone(child.stdin, result);
		}
	});
	child.stderr.setEncoding('utf8').on('data', (text) => {
		if (result.stderr.length < STDOUT_MAX) result.stderr += text;
	});
	result.child = child;
	result.ended = new Promise((resolve) => {
		child.on('error', (error) => {
			clearTimeout(limit);
			result.spawnError = error.message;
			resolve(result);
		});
		child.on('exit', (code, signal) => {
			runningAgents.delete(child.pid);
			clearTimeout(limit);
			result.exit = { code, signal };
			result.ms = performance.now() - started;
			child.stdin.destroy();
			// What the agent left running may hold its output; what it has written has been read by then.
			setTimeout(() => {
				child.stdout.destroy();
				child.stderr.destroy();
			}, 200);
		});
		child.on('close', () => resolve(result));
	});
	return result;
}

const short = (value) => {
	const text = typeof value === 'string' ? value : JSON.stringify(value);
	return text === undefined ? 'nothing' : text.length > 200 ? `${text.slice(0, 200)}… (${text.length} characters)` : text;
};

// Without colours, and not longer than a screen.
const readable = (note) => note.replace(/\u001b\[[0-9;]*m/g, '').slice(0, 1000);

function firstDifference(a, b) {
	let at = 0;
	while (at < a.length && a[at] === b[at]) at++;
	return `differ from character ${at}: got ${short(JSON.stringify(a.slice(at, at + 60)))}, want ${short(JSON.stringify(b.slice(at, at + 60)))}`;
}

const parsed = (text) => {
	try {
		return JSON.stringify(sorted(JSON.parse(text)));
	} catch {
		return undefined;
	}
};
const sorted = (value) =>
	Array.isArray(value) ? value.map(sorted)
	: value && typeof value === 'object' ? Object.fromEntries(Object.keys(value).sort().map((key) => [key, sorted(value[key])]))
	: value;

// What a case's checks are written with.
class Checker {
	failures = [];

	ok(condition, message) {
		if (!condition) this.failures.push(message);
	}

	equal(got, want, what) {
		if (typeof got === 'string' && typeof want === 'string') {
			if (got !== want) this.failures.push(`${what} ${got.length < 80 && want.length < 80 ? `is ${JSON.stringify(got)}, not ${JSON.stringify(want)}` : firstDifference(got, want)}`);
		} else if (JSON.stringify(sorted(got)) !== JSON.stringify(sorted(want))) {
			this.failures.push(`${what} is ${short(got)}, not ${short(want)}`);
		}
	}

	between(value, min, max, what) {
		if (!(value >= min && value <= max)) this.failures.push(`${what} is ${Math.round(value)}, not ${min} to ${max}`);
	}

	// A request's messages from the third on: strings exactly, arguments as JSON values.
	history(request, want) {
		const got = request?.json?.messages?.slice(2);
		if (!got) return this.failures.push('there is no such request, or it has no messages');
		if (got.length !== want.length) return this.failures.push(`history has ${got.length} messages after the task, not ${want.length}`);
		want.forEach((message, k) => {
			const where = `message ${k + 3}`;
			for (const key of ['role', 'content', 'tool_call_id']) this.equal(got[k][key] ?? null, message[key] ?? null, `${where}: ${key}`);
			const calls = got[k].tool_calls ?? [];
			const wanted = message.tool_calls ?? [];
			this.equal(calls.length, wanted.length, `${where}: number of tool calls`);
			wanted.forEach((call, n) => {
				const gotCall = calls[n] ?? {};
				this.equal(gotCall.id, call.id, `${where}: call ${n + 1}: id`);
				this.equal(gotCall.type, 'function', `${where}: call ${n + 1}: type`);
				this.equal(gotCall.function?.name, call.function.name, `${where}: call ${n + 1}: name`);
				const args = call.function.arguments;
				const gotArgs = gotCall.function?.arguments;
				const both = parsed(args) !== undefined && typeof gotArgs === 'string' && parsed(gotArgs) !== undefined;
				this.equal(both ? parsed(gotArgs) : gotArgs, both ? parsed(args) : args, `${where}: call ${n + 1}: arguments`);
			});
		});
	}
}

async function runCase(agent, test) {
	const check = new Checker();
	const scratch = path.join(root, String(++scratchNumber));
	mkdirSync(scratch);
	const promptFile = path.join(scratch, 'prompt');
	writeFileSync(promptFile, test.systemPrompt ?? SYSTEM_PROMPT);
	const context = { check, scratch, agent };
	const secure = test.tls ? certificates() : null;
	const server = new ScriptedServer([], { secure: secure?.secure, early: test.early });
	context.server = server;
	server.answers = typeof test.answers === 'function' ? test.answers(context) : (test.answers ?? []);
	await server.listen(test.listen);
	const environment = {
		AGENT_CONTRACT: '1',
		OPENAI_BASE_URL: `${secure ? 'https' : 'http'}://${test.host ?? '127.0.0.1'}:${server.port}/v1`,
		OPENAI_API_KEY: 'sk-conformance',
		OPENAI_MODEL: 'conformance',
		AGENT_SYSTEM_PROMPT_FILE: promptFile,
		AGENT_TASK: 'Work, {session}.',
		...(secure ? { AGENT_CA_FILE: secure.caFile } : {}),
		...(typeof test.env === 'function' ? test.env(context) : test.env),
	};
	for (const key of Object.keys(environment)) if (environment[key] === undefined) delete environment[key];
	context.environment = environment;
	context.start = (env = {}, how = {}) => {
		const merged = { ...environment, ...env };
		for (const key of Object.keys(merged)) if (merged[key] === undefined) delete merged[key];
		const started = startAgent(agent, merged, scratch, { limitMs: test.limitMs, ...how });
		server.agentPid = started.pid;
		return started;
	};
	try {
		if (test.run) {
			await test.run(context);
		} else {
			const result = await context.start({}, test.how).ended;
			Object.assign(context, { result, requests: server.requests });
			if (result.spawnError) check.failures.push(`cannot start: ${result.spawnError}`);
			else judge(test, context);
		}
	} finally {
		server.close();
	}
	for (const problem of server.problems) check.failures.push(problem);
	if (options.verbose && check.failures.length > 0 && context.result) process.stderr.write(`${test.name}: ${context.result.stdout}${context.result.stderr}\n`);
	return check.failures;
}

// What holds of every case, then the case's own table row.
function judge(test, context) {
	const { check, result, requests, server } = context;
	if (result.timedOut) return check.failures.push(`did not end; ${requests.length} requests came; stdout ${short(result.stdout)}`);
	const wantExit = test.exit ?? 0;
	check.equal(result.exit.code, wantExit, 'exit code');
	if (check.failures.length > 0) check.failures.push(`stdout ${short(result.stdout)}, stderr ${short(result.stderr)}`);
	check.ok(result.stdout.endsWith('\n'), 'stdout does not end in a line end');
	check.equal(result.lines.at(-1), '{"event":"done"}', 'last line of stdout');
	for (const line of result.lines) check.ok(Buffer.byteLength(line) < 512, `a line of stdout has ${Buffer.byteLength(line)} bytes`);
	for (const { event, line } of result.events) check.ok(['done', 'error', 'turn'].includes(event), `stdout holds ${short(line ?? event)}`);
	const errors = result.events.filter((e) => e.event === 'error');
	check.equal(errors.length, wantExit === 0 ? 0 : (test.errors ?? 1), 'number of error lines');
	check.equal(requests.length, server.answers.length, 'number of requests');
	if (test.error) check.ok(test.error.test(errors[0]?.message ?? ''), `error message ${short(errors[0]?.message)} does not match ${test.error}`);
	if (test.history) check.history(requests.at(-1), test.history);
	if (test.connections) check.equal(server.connections, test.connections, 'number of connections');
	if (test.check) test.check(context);
}

const queue = chosen.flatMap((test) => agents.map((agent) => [agent, test]));

const counts = { pass: 0, fail: 0, runtime: 0, skip: 0 };
const printed = new Set();
function print(agent, test, result, note) {
	counts[result]++;
	printed.add(`${agent.name} ${test.name}`);
	process.stdout.write(`${JSON.stringify({ agent: agent.name, case: test.name, result, note })}\n`);
}

async function worker(slow) {
	for (;;) {
		const at = queue.findIndex(([, test]) => Boolean(test.slow) === slow);
		if (at < 0) return;
		const [[agent, test]] = queue.splice(at, 1);
		let failures;
		try {
			const unless = await test.unless?.();
			if (unless) {
				print(agent, test, 'skip', unless);
				continue;
			}
			failures = await runCase(agent, test);
		} catch (error) {
			failures = [`the case itself failed: ${error.stack}`];
		}
		let reason = runtimeCases[agent.name]?.[test.name];
		if (typeof reason === 'function') reason = reason(agent.version);
		const note = readable(failures.join('; '));
		if (reason && failures.length > 0) print(agent, test, 'runtime', `${reason} (${note.slice(0, 200)})`);
		else if (reason) print(agent, test, 'fail', 'passes although runtime.mjs lists it: remove it there');
		else print(agent, test, failures.length > 0 ? 'fail' : 'pass', note);
	}
}

// Cases that only wait run beside the others, the longest first.
const workers = (count, slow) => Array.from({ length: count }, () => worker(slow));
queue.sort(([, a], [, b]) => (b.limitMs ?? 0) - (a.limitMs ?? 0));
await Promise.all([...workers(SLOW_JOBS, true), ...workers(Number(options.jobs), false)]);
let missing = 0;
for (const test of chosen) for (const agent of agents) if (!printed.has(`${agent.name} ${test.name}`)) missing++;
process.stderr.write(`conformance: ${counts.pass} passed, ${counts.runtime} decided by the runtime, ${counts.fail} failed, ${counts.skip} skipped, ${missing} missing\n`);
process.exit(counts.fail + missing > 0 ? 1 : 0);
