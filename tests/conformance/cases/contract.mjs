// The rest of agent/CONTRACT.md: environment, requests, sessions, output, the end.

import { readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { DONE, HANG, SYSTEM_PROMPT, apiError, calling, event, chunk, exec, final, finish, fragments, plain, say, shell, stream } from '../wire.mjs';

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const until = async (condition, ms = 10_000) => {
	for (const end = performance.now() + ms; performance.now() < end; await sleep(10)) if (condition()) return true;
	return false;
};
const alive = (pid) => {
	try {
		return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
	} catch {
		return false;
	}
};
const cpuTicks = (pid) => {
	const fields = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1].split(' ');
	return Number(fields[11]) + Number(fields[12]);
};

// Starts with changed environments, one after the other: exit 2, one line that names the variable, no request.
const malformed = (name, about, variable, values) => ({
	name: `env/${name}`,
	about,
	async run({ check, start, server }) {
		for (const value of values) {
			const result = await start({ [variable]: value }).ended;
			const what = `${variable}=${value === undefined ? '(absent)' : JSON.stringify(value)}`;
			check.equal(result.exit?.code, 2, `exit code with ${what}`);
			check.ok(/^[^\n]+\n$/.test(result.stderr), `stderr with ${what} is not one line: ${JSON.stringify(result.stderr.slice(0, 300))}`);
			check.ok(result.stderr.includes(variable), `stderr with ${what} does not name the variable`);
			check.equal(result.stdout, '', `stdout with ${what}`);
		}
		check.equal(server.requests.length, 0, 'number of requests');
	},
});
const integers = (variable, min, max) =>
	malformed(`bad-${variable.toLowerCase().replaceAll('_', '-')}`, `${variable} that is no number from ${min} to ${max}`, variable, [
		String(min - 1), String(max + 1), `${min + 1}x`, '1.5', ' 20', '99999999999999999999',
	]);

const byTurn = (server, answersOf) => {
	server.answers = (_, request) => answersOf(request.headers['x-session-id'], (request.json.messages.filter((m) => m.role === 'assistant').length) + 1);
};

export default [
	{
		name: 'request/line-and-headers',
		about: 'method, path, version and headers',
		answers: [final()],
		check: ({ check, requests: [{ method, path: target, version, headers }], server }) => {
			check.equal(`${method} ${target} ${version}`, 'POST /v1/chat/completions HTTP/1.1', 'request line');
			check.ok(/^application\/json(; *charset=utf-8)?$/i.test(headers['content-type']), `Content-Type is ${headers['content-type']}`);
			check.equal(headers.authorization, 'Bearer sk-conformance', 'Authorization');
			check.equal(headers['x-session-id'], 's1', 'X-Session-Id');
			check.equal(headers.host, `127.0.0.1:${server.port}`, 'Host');
			check.ok(headers.connection === undefined || /keep-alive/i.test(headers.connection), `Connection is ${headers.connection}`);
		},
	},
	{
		name: 'request/body',
		about: 'the members of the first body',
		answers: [final()],
		check: ({ check, requests: [{ json }] }) => {
			check.equal(json.model, 'conformance', 'model');
			check.equal(json.stream, true, 'stream');
			check.equal(json.stream_options, { include_usage: true }, 'stream_options');
			check.equal(json.tools?.map((tool) => [tool.type, tool.function?.name, Object.keys(tool.function?.parameters?.properties ?? {})]), [['function', 'exec', ['argv']], ['function', 'shell', ['command']]], 'tools');
			check.equal(json.tools, JSON.parse(/```json\n(\[\{"type":"function"[^]*?\])\n```/.exec(readFileSync(path.join(import.meta.dirname, '../../../agent/CONTRACT.md'), 'utf8'))[1]), 'tools');
			check.equal(json.messages.length, 2, 'number of messages');
			check.equal(json.messages[0], { role: 'system', content: SYSTEM_PROMPT }, 'system message');
			check.equal(json.messages[1], { role: 'user', content: 'Work, s1.' }, 'user message');
		},
	},
	{
		name: 'request/system-prompt',
		about: 'the file\'s bytes, exactly: byte order mark, control characters, no line end',
		systemPrompt: '\ufeffa\u0001\t"\\/\u007f\u2028\r\n\0 é😀 end',
		answers: [final()],
		check: ({ check, requests: [{ json }] }) => check.equal(json.messages[0].content, '\ufeffa\u0001\t"\\/\u007f\u2028\r\n\0 é😀 end', 'system message'),
	},
	{
		name: 'request/system-prompt-empty',
		about: 'an empty file',
		systemPrompt: '',
		answers: [final()],
		check: ({ check, requests: [{ json }] }) => check.equal(json.messages[0].content, '', 'system message'),
	},
	{
		name: 'request/task',
		about: 'every {session} is replaced, nothing else',
		env: { AGENT_TASK: '{session} and {session}: $& {Session} {x} "é"\n%s' },
		answers: [final()],
		check: ({ check, requests: [{ json }] }) => check.equal(json.messages[1].content, 's1 and s1: $& {Session} {x} "é"\n%s', 'user message'),
	},
	{
		name: 'request/base-url',
		about: 'a base with another path',
		env: ({ server }) => ({ OPENAI_BASE_URL: `http://127.0.0.1:${server.port}/some/where/v2` }),
		answers: [final()],
		check: ({ check, requests }) => check.equal(requests[0].path, '/some/where/v2/chat/completions', 'path'),
	},
	{
		name: 'request/base-url-no-path',
		about: 'a base without a path',
		env: ({ server }) => ({ OPENAI_BASE_URL: `http://127.0.0.1:${server.port}` }),
		answers: [final()],
		check: ({ check, requests }) => check.equal(requests[0].path, '/chat/completions', 'path'),
	},
	...['OPENAI_BASE_URL', 'OPENAI_API_KEY', 'OPENAI_MODEL', 'AGENT_SYSTEM_PROMPT_FILE', 'AGENT_TASK'].map((variable) =>
		malformed(`no-${variable.toLowerCase().replaceAll('_', '-')}`, `${variable} absent or empty`, variable, [undefined, '']),
	),
	malformed('bad-openai-base-url', 'OPENAI_BASE_URL that is no URL', 'OPENAI_BASE_URL', ['ftp://127.0.0.1/v1', '127.0.0.1:80', 'http://']),
	malformed('bad-agent-system-prompt-file', 'AGENT_SYSTEM_PROMPT_FILE that is not there', 'AGENT_SYSTEM_PROMPT_FILE', ['/no/such/file', '/']),
	malformed('bad-agent-ca-file', 'AGENT_CA_FILE that is not there', 'AGENT_CA_FILE', ['/no/such/file']),
	integers('AGENT_SESSIONS', 1, 10_000),
	integers('AGENT_TOOL_TIMEOUT_MS', 1, 86_400_000),
	integers('AGENT_TOOL_OUTPUT_MAX', 16, 16_777_216),
	integers('AGENT_IDLE_TIMEOUT_MS', 1, 86_400_000),
	integers('AGENT_MAX_RETRIES', 0, 100),
	{
		name: 'env/empty-is-absent',
		about: 'an empty variable has its default',
		env: { AGENT_SESSIONS: '', AGENT_TOOL_TIMEOUT_MS: '', AGENT_TOOL_OUTPUT_MAX: '', AGENT_IDLE_TIMEOUT_MS: '', AGENT_MAX_RETRIES: '', AGENT_CA_FILE: '', AGENT_REPORT: '', AGENT_CONTRACT: '' },
		answers: [final()],
	},
	{
		name: 'env/bounds',
		about: 'the bounds themselves are taken',
		env: { AGENT_SESSIONS: '1', AGENT_TOOL_TIMEOUT_MS: '86400000', AGENT_TOOL_OUTPUT_MAX: '16777216', AGENT_IDLE_TIMEOUT_MS: '86400000', AGENT_MAX_RETRIES: '100' },
		answers: [calling(exec(['echo', 'hi'])), final()],
	},
	{
		name: 'session/all-at-once',
		about: '50 sessions: no answer comes before all requests are there',
		async run({ check, start, server }) {
			let arrived = 0;
			server.answers = () => [async () => {
				arrived++;
				await until(() => arrived === 50);
			}, ...final()];
			const result = await start({ AGENT_SESSIONS: '50' }).ended;
			check.equal(result.exit?.code, 0, 'exit code');
			check.equal(server.requests.map((r) => r.headers['x-session-id']).sort(), Array.from({ length: 50 }, (_, k) => `s${k + 1}`).sort(), 'names');
			for (const { headers, json } of server.requests) check.equal(json.messages[1].content, `Work, ${headers['x-session-id']}.`, 'user message');
			check.equal(result.stdout, '{"event":"done"}\n', 'stdout');
		},
	},
	{
		name: 'session/apart',
		about: 'the histories of 30 sessions in three turns do not mix',
		async run({ check, start, server }) {
			byTurn(server, (session, turn) =>
				turn === 3 ? final() : stream(say(`${session}/${turn}`), 5, fragments(shell(`echo ${session}-${turn}`, `${session}_${turn}`)), finish('tool_calls'), DONE),
			);
			const result = await start({ AGENT_SESSIONS: '30' }).ended;
			check.equal(result.exit?.code, 0, 'exit code');
			check.equal(server.requests.length, 90, 'number of requests');
			for (const { headers, json } of server.requests) {
				const session = headers['x-session-id'];
				json.messages.slice(2).forEach((message, k) => {
					const turn = Math.floor(k / 2) + 1;
					if (k % 2 === 0) check.equal(message.content, `${session}/${turn}`, 'assistant text');
					else check.equal(message.content, `${session}-${turn}\n`, 'tool message');
				});
			}
		},
	},
	{
		name: 'session/one-fails',
		about: 'a session that fails does not stop the others; the error names it; exit 1',
		async run({ check, start, server }) {
			byTurn(server, (session, turn) => (session === 's2' && turn === 2 ? plain(400, apiError('Not you.')) : turn === 2 ? final() : calling(exec(['echo', session]))));
			const result = await start({ AGENT_SESSIONS: '3' }).ended;
			check.equal(result.exit?.code, 1, 'exit code');
			check.equal(server.requests.length, 6, 'number of requests');
			check.equal(result.events.map((e) => e.event), ['error', 'done'], 'lines');
			const [error] = result.events;
			check.equal([error.session, error.turn], ['s2', 2], 'session and turn of the error');
			check.ok(/Not you\./.test(error.message), `message is ${JSON.stringify(error.message)}`);
		},
	},
	{
		name: 'session/all-fail',
		about: 'when every session fails there is still the done line',
		env: { AGENT_SESSIONS: '3' },
		answers: Array(3).fill(plain(401, apiError('Who are you?'))),
		exit: 1,
		errors: 3,
		error: /Who are you\?/,
	},
	{
		name: 'output/report',
		about: 'AGENT_REPORT=1: a line per completed turn, with its attempt',
		env: { AGENT_REPORT: '1' },
		answers: [plain(500, apiError('Once.'), { 'Retry-After-Ms': '200' }), [100, ...calling(shell('sleep 0.2'))], final()],
		check: ({ check, result }) => {
			check.equal(result.events.map((e) => [e.event, e.session ?? null, e.turn ?? null, e.attempt ?? null]), [['turn', 's1', 1, 2], ['turn', 's1', 2, 1], ['done', null, null, null]], 'lines');
			const [first, second] = result.events;
			check.ok(Number.isInteger(first.turn_ns) && Number.isInteger(second.turn_ns), 'turn_ns is no integer');
			// From just before the request of the attempt that succeeded: without the wait before it.
			check.between(first.turn_ns / 1e6, 295, 3000, 'turn_ns of turn 1 in ms');
			check.between(second.turn_ns / 1e6, 0, 2000, 'turn_ns of turn 2 in ms');
			check.equal(Object.keys(first).sort(), ['attempt', 'event', 'session', 'turn', 'turn_ns'], 'keys');
		},
	},
	{
		name: 'output/quiet',
		about: 'without AGENT_REPORT only the done line',
		answers: [calling(exec(['echo', 'hi'])), final()],
		check: ({ check, result }) => check.equal(result.stdout, '{"event":"done"}\n', 'stdout'),
	},
	{
		name: 'output/tool-output-stays-inside',
		about: 'what tools print does not reach the agent\'s stdout or stderr',
		answers: [calling(shell('echo out; echo err >&2')), final()],
		check: ({ check, result }) => check.equal([result.stdout, result.stderr], ['{"event":"done"}\n', ''], 'stdout and stderr'),
	},
	{
		name: 'end/barrier',
		about: 'after the done line the program waits, idle, for the end of stdin',
		slow: true,
		answers: [calling(exec(['echo', 'hi'])), final()],
		how: {
			onDone: async (stdin, result) => {
				await sleep(300);
				const before = cpuTicks(result.pid);
				await sleep(1200);
				result.stillThere = alive(result.pid) && result.exit === undefined;
				result.ticks = result.stillThere ? cpuTicks(result.pid) - before : 0;
				stdin.end();
			},
		},
		check: ({ check, result }) => {
			check.ok(result.stillThere, 'it did not wait');
			check.between(result.ticks, 0, 12, 'CPU ticks while waiting');
		},
	},
	{
		name: 'end/stdin-bytes',
		about: 'bytes on stdin are not the end of it',
		slow: true,
		answers: [final()],
		how: {
			onDone: async (stdin, result) => {
				stdin.write('more\n');
				await sleep(700);
				result.stillThere = result.exit === undefined;
				stdin.end();
			},
		},
		check: ({ check, result }) => check.ok(result.stillThere, 'it did not wait for the end of file'),
	},
	{
		name: 'end/stdin-closed-at-start',
		about: 'an stdin that ends at once does not end the program early',
		answers: [[300, ...calling(exec(['echo', 'hi']))], final()],
		how: { closeStdinAtOnce: true },
	},
	{
		name: 'end/sigterm-stream',
		about: 'SIGTERM while an answer streams: exit 143 or death by the signal',
		async run({ check, start, server }) {
			server.answers = [stream(say('x'), HANG)];
			const agent = start();
			check.ok(await until(() => server.requests.length === 1), 'no request came');
			await sleep(100);
			process.kill(agent.pid, 'SIGTERM');
			const { exit } = await agent.ended;
			check.ok(exit.code === 143 || exit.signal === 'SIGTERM', `ended with ${JSON.stringify(exit)}`);
		},
	},
	{
		name: 'end/sigterm-tool',
		about: 'SIGTERM while tools run: they end with their groups',
		async run({ check, start, server, scratch }) {
			server.answers = [calling(shell('trap "" TERM; sleep 30 & echo $! >child; echo $$ >self; wait', 'a', 0), exec(['sleep', '30'], 'b', 1))];
			const agent = start();
			const pidOf = (name) => Number(readFileSync(path.join(scratch, name), 'utf8'));
			check.ok(await until(() => {
				try {
					return statSync(path.join(scratch, 'self')).size > 0;
				} catch {
					return false;
				}
			}), 'the tool did not start');
			await sleep(50);
			const pids = [pidOf('child'), pidOf('self')];
			process.kill(agent.pid, 'SIGTERM');
			const { exit } = await agent.ended;
			check.ok(exit.code === 143 || exit.signal === 'SIGTERM', `ended with ${JSON.stringify(exit)}`);
			for (const pid of pids) check.ok(await until(() => !alive(pid), 3000), `tool process ${pid} lives on`);
		},
	},
	{
		name: 'end/sigterm-barrier',
		about: 'SIGTERM at the barrier',
		answers: undefined,
		async run({ check, start, server }) {
			server.answers = [final()];
			const agent = start({}, { onDone: (_, result) => process.kill(result.pid, 'SIGTERM') });
			const { exit } = await agent.ended;
			check.ok(exit.code === 143 || exit.signal === 'SIGTERM', `ended with ${JSON.stringify(exit)}`);
		},
	},
	{
		name: 'end/text-only',
		about: 'an answer with neither text nor call ends the session well',
		answers: [stream(event(chunk({})), finish('stop'), DONE)],
	},
];
