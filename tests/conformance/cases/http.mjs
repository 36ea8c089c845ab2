// HTTP below the stream: statuses and retries, connections, redirects, encodings.

import { lookup } from 'node:dns/promises';
import { gzipSync, createGzip, constants as zlib } from 'node:zlib';
import {
	CLOSE, DONE, HANG, LAST_CHUNK, RESET, STREAM_HEAD, apiError, assistant, calling, exec, final, finish, fragments, httpChunk, plain, say, shell, stream, tool,
} from '../wire.mjs';

const echo = exec(['echo', 'hi']);
const HISTORY = [assistant(null, echo), tool('hi\n')];
const EVENTS = [fragments(echo), finish('tool_calls'), DONE];
const gaps = (requests) => requests.slice(1).map((request, k) => request.atMs - requests[k].atMs);

const SLACK_MS = 2500; // what a busy machine may add to a wait

// A row of a status with headers: asked again after a wait of [min, max] ms.
const wait = (name, about, headers, min, max, more = {}) => ({
	name: `http/${name}`,
	about,
	answers: [plain(429, apiError('Slow down.', 'rate_limit_error'), headers), final()],
	check: ({ check, requests }) => check.between(gaps(requests)[0], min, max + SLACK_MS, 'wait in ms'),
	...more,
});

const head = (lines, status = '200 OK') => `HTTP/1.1 ${status}\r\n${lines.map((line) => `${line}\r\n`).join('')}\r\n`;
const SSE_TYPE = 'Content-Type: text/event-stream';

// A gzip stream that is flushed after each event, as servers do.
async function* gzipped(events) {
	const gzip = createGzip();
	for (const event of events) {
		gzip.write(event);
		await new Promise((resolve) => gzip.flush(zlib.Z_SYNC_FLUSH, resolve));
		yield gzip.read();
	}
	gzip.end();
	for await (const rest of gzip) yield rest;
}

const redirect = (status, location) => [head([`Location: ${location}`, 'Content-Length: 0'], `${status} Redirect`)];

export default [
	...[408, 409, 429, 500, 502, 503, 504, 529].map((status) => ({
		name: `http/retry-${status}`,
		about: `status ${status} is asked again`,
		answers: [plain(status, apiError('Try again.'), { 'Retry-After-Ms': '20' }), ...[stream(...EVENTS), final()]],
		history: HISTORY,
	})),
	...[400, 401, 403, 404, 405, 413, 422].map((status) => ({
		name: `http/no-retry-${status}`,
		about: `status ${status} fails the session at once with the server's message`,
		answers: [plain(status, apiError(`That is a ${status}.`, 'invalid_request_error'))],
		exit: 1,
		error: new RegExp(`That is a ${status}\\.`),
	})),
	{
		name: 'http/error-page',
		about: 'an HTML page under status 404',
		answers: [plain(404, '<html><body>No such page</body></html>')],
		exit: 1,
		error: /404.*No such page/,
	},
	{
		name: 'http/error-empty',
		about: 'status 403 with an empty body',
		answers: [[head(['Content-Length: 0'], '403 Forbidden')]],
		exit: 1,
		error: /403/,
	},
	{
		name: 'http/error-without-end',
		about: 'status 400 whose body never ends: the idle timeout ends the wait for it',
		slow: true,
		env: { AGENT_IDLE_TIMEOUT_MS: '1500', AGENT_MAX_RETRIES: '0' },
		answers: [[head(['Content-Type: application/json', 'Content-Length: 1000'], '400 Bad Request'), '{"error":', HANG]],
		exit: 1,
		error: /./,
	},
	{
		name: 'http/retries-2',
		about: 'AGENT_MAX_RETRIES=2 makes three requests',
		env: { AGENT_MAX_RETRIES: '2' },
		answers: Array(3).fill(plain(500, apiError('Down.'), { 'Retry-After-Ms': '10' })),
		exit: 1,
		error: /Down\./,
	},
	{
		name: 'http/retries-0',
		about: 'AGENT_MAX_RETRIES=0 makes one',
		env: { AGENT_MAX_RETRIES: '0' },
		answers: [plain(503, apiError('Down.'))],
		exit: 1,
		error: /Down\./,
	},
	{
		name: 'http/retries-default',
		about: 'four retries by default',
		answers: Array(5).fill(plain(500, apiError('Down.'), { 'Retry-After-Ms': '10' })),
		exit: 1,
		error: /Down\./,
	},
	{
		name: 'http/retries-per-turn',
		about: 'the retries of a turn do not count against the next',
		env: { AGENT_MAX_RETRIES: '1' },
		answers: [plain(500, apiError('Down.'), { 'Retry-After-Ms': '10' }), stream(...EVENTS), plain(500, apiError('Down.'), { 'Retry-After-Ms': '10' }), final()],
		history: HISTORY,
	},
	{
		name: 'http/retry-same-body',
		about: 'the request is the same again',
		answers: [plain(500, apiError('Down.'), { 'Retry-After-Ms': '10' }), final()],
		check: ({ check, requests }) => check.equal(requests[1].text, requests[0].text, 'second body'),
	},
	{
		name: 'http/backoff',
		about: '500 ms, doubled each time, times 0.75 to 1',
		slow: true,
		env: { AGENT_MAX_RETRIES: '3' },
		answers: Array(4).fill(plain(500, apiError('Down.'))),
		exit: 1,
		check: ({ check, requests }) => gaps(requests).forEach((gap, k) => check.between(gap, 370 * 2 ** k, 500 * 2 ** k + SLACK_MS, `wait ${k + 1} in ms`)),
	},
	wait('retry-after-ms', 'Retry-After-Ms', { 'Retry-After-Ms': '1400' }, 1390, 1400),
	wait('retry-after-both', 'Retry-After-Ms goes before Retry-After', { 'Retry-After-Ms': '900', 'Retry-After': '20' }, 890, 900),
	wait('retry-after-seconds', 'Retry-After in seconds', { 'Retry-After': '1' }, 990, 1000),
	wait('retry-after-zero', 'Retry-After: 0', { 'Retry-After': '0' }, 0, 0),
	{
		...wait('retry-after-date', 'Retry-After as a date', {}, 1000, 4000),
		// A date has whole seconds: the wait is from 2 to 3 seconds, and clocks are read at both ends.
		answers: [[() => plain(503, apiError('Slow down.'), { 'Retry-After': new Date(Date.now() + 3000).toUTCString() })], final()],
	},
	wait('retry-after-past', 'Retry-After as a date gone by', { 'Retry-After': 'Thu, 01 Jan 2015 00:00:00 GMT' }, 0, 0),
	wait('retry-after-garbage', 'Retry-After that is neither: the backoff counts', { 'Retry-After': 'soon' }, 370, 500),
	wait('retry-after-negative', 'Retry-After below 0: the backoff counts', { 'Retry-After': '-5' }, 370, 500),
	wait('retry-after-absurd', 'Retry-After of a week: 60 s at most', { 'Retry-After': '604800' }, 50_000, 60_000, { slow: true, limitMs: 90_000 }),
	{
		name: 'http/refused',
		about: 'nothing listens: failed connections are retried, then the session fails',
		async run({ check, start, server }) {
			server.close();
			const result = await start({ AGENT_MAX_RETRIES: '1' }).ended;
			check.equal(result.exit?.code, 1, 'exit code');
			check.equal(result.events.map((e) => e.event), ['error', 'done'], 'lines');
			check.between(result.ms, 370, 10_000, 'milliseconds');
		},
	},
	{
		name: 'http/connection-lost',
		about: 'a fresh connection closed before any byte: retried, and counted',
		env: { AGENT_MAX_RETRIES: '1' },
		answers: [[CLOSE], [CLOSE]],
		exit: 1,
	},
	{
		name: 'http/connection-reset',
		about: 'a fresh connection reset before any byte: retried, and counted',
		env: { AGENT_MAX_RETRIES: '1' },
		answers: [[RESET], [RESET]],
		exit: 1,
	},
	{
		name: 'http/head-cut',
		about: 'a fresh connection closed within the head of the answer: retried, and counted',
		env: { AGENT_MAX_RETRIES: '1' },
		answers: [['HTTP/1.1 200 OK\r\nContent-Ty', 20, CLOSE], ['HTTP/1.1 200 OK\r\nContent-Ty', 20, CLOSE]],
		exit: 1,
	},
	{
		name: 'http/error-cut',
		about: 'status 400 whose body is cut: fails at once all the same',
		answers: [[head(['Content-Type: application/json', 'Content-Length: 1000'], '400 Bad Request'), '{"error":', 20, CLOSE]],
		exit: 1,
		error: /400/,
	},
	{
		name: 'http/not-http',
		about: 'an answer that is not HTTP',
		env: { AGENT_MAX_RETRIES: '0' },
		answers: [['220 mail.example ESMTP ready\r\n', CLOSE]],
		exit: 1,
	},
	{
		name: 'http/keep-alive',
		about: 'turns use one connection',
		answers: [calling(shell('sleep 0.3; echo hi')), calling(shell('sleep 0.3; echo ho')), final()],
		connections: 1,
	},
	{
		name: 'http/kept-connection-closed',
		about: 'the server closes the kept connection at reuse, no byte of the answer came: replaced without counting',
		env: { AGENT_MAX_RETRIES: '0' },
		answers: [calling(shell('sleep 0.3; echo hi')), [CLOSE], final()],
		check: ({ check, requests }) => check.between(gaps(requests)[1], 0, 370, 'wait in ms'),
	},
	{
		name: 'http/kept-connection-reset',
		about: 'the same with a reset',
		env: { AGENT_MAX_RETRIES: '0' },
		answers: [calling(shell('sleep 0.3; echo hi')), [RESET], final()],
		check: ({ check, requests }) => check.between(gaps(requests)[1], 0, 370, 'wait in ms'),
	},
	{
		name: 'http/kept-connection-dies-late',
		about: 'a kept connection closed after a byte of the answer: retried, and counted',
		env: { AGENT_MAX_RETRIES: '0' },
		answers: [calling(shell('sleep 0.3; echo hi')), [STREAM_HEAD, 20, CLOSE]],
		exit: 1,
	},
	{
		name: 'http/closed-while-idle',
		about: 'the server closes the kept connection while tools run',
		env: { AGENT_MAX_RETRIES: '0' },
		answers: [[...calling(shell('sleep 0.5; echo hi')), 50, CLOSE], final()],
		connections: 2,
	},
	{
		name: 'http/connection-close',
		about: 'Connection: close',
		env: { AGENT_MAX_RETRIES: '0' },
		answers: [[head([SSE_TYPE, 'Connection: close']), ...EVENTS, CLOSE], final()],
		history: HISTORY,
		connections: 2,
	},
	{
		name: 'http/http10',
		about: 'an answer in HTTP/1.0 that ends with the connection: read to the end',
		env: { AGENT_MAX_RETRIES: '0' },
		answers: [[head([SSE_TYPE]).replace('1.1', '1.0'), ...EVENTS, CLOSE], final()],
		history: HISTORY,
	},
	{
		name: 'http/http10-without-done',
		about: 'the same without [DONE]: complete',
		env: { AGENT_MAX_RETRIES: '0' },
		answers: [[head([SSE_TYPE]).replace('1.1', '1.0'), ...EVENTS.slice(0, 2), CLOSE], final()],
		history: HISTORY,
	},
	{
		name: 'http/content-length',
		about: 'a stream of known length',
		answers: [[head([SSE_TYPE, `Content-Length: ${Buffer.byteLength(EVENTS.join(''))}`]), ...EVENTS], final()],
		history: HISTORY,
	},
	{
		name: 'http/chunk-extensions',
		about: 'chunk extensions, leading zeros and trailers are skipped',
		answers: [
			[
				STREAM_HEAD,
				...EVENTS.map((e) => `000${Buffer.byteLength(e).toString(16)};name=value;other="x"\r\n${e}\r\n`),
				'0;last\r\nX-Trailer: yes\r\nServer-Timing: x\r\n\r\n',
			],
			final(),
		],
		history: HISTORY,
	},
	{
		name: 'http/chunks-split',
		about: 'chunk sizes, data and line ends split over reads',
		answers: [
			[...Buffer.concat([Buffer.from(STREAM_HEAD), ...EVENTS.map(httpChunk), Buffer.from(LAST_CHUNK)])].flatMap((byte) => [Buffer.from([byte]), 0]),
			final(),
		],
		history: HISTORY,
	},
	{
		name: 'http/duplicate-headers',
		about: 'duplicate and unknown headers are tolerated',
		answers: [
			[head([SSE_TYPE, SSE_TYPE, 'Transfer-Encoding: chunked', 'Set-Cookie: a=1', 'Set-Cookie: b=2', 'X-Empty:', 'Cache-Control: no-cache', 'Cache-Control: no-cache', 'X-Accel-Buffering: no']), ...EVENTS.map(httpChunk), LAST_CHUNK],
			final(),
		],
		history: HISTORY,
	},
	{
		name: 'http/header-case',
		about: 'header names in any case',
		answers: [[head(['CONTENT-TYPE: TEXT/EVENT-STREAM; CHARSET=UTF-8', 'transfer-encoding: CHUNKED']), ...EVENTS.map(httpChunk), LAST_CHUNK], final()],
		history: HISTORY,
	},
	{
		name: 'http/interim-100',
		about: '100 Continue, not asked for, before the answer',
		answers: [['HTTP/1.1 100 Continue\r\n\r\n', 30, ...stream(...EVENTS)], final()],
		history: HISTORY,
	},
	{
		name: 'http/interim-103',
		about: '103 Early Hints before the answer',
		answers: [['HTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\n\r\n', 30, ...stream(...EVENTS)], final()],
		history: HISTORY,
	},
	{
		name: 'http/gzip',
		about: 'gzip although nobody asked for it, event by event',
		answers: [
			[
				head([SSE_TYPE, 'Content-Encoding: gzip', 'Transfer-Encoding: chunked']),
				async () => {
					const parts = [];
					for await (const piece of gzipped(EVENTS)) if (piece?.length) parts.push(httpChunk(piece), 5);
					return parts;
				},
				LAST_CHUNK,
			],
			final(),
		],
		history: HISTORY,
	},
	...[
		['gzip-cut', 'a gzip body that is cut short is an error of the turn: its calls are not run, it is asked again', [fragments(echo)], [stream(...EVENTS)]],
		['gzip-cut-after-finish', 'a gzip body that is cut short after the finish chunk: the turn is complete', EVENTS.slice(0, 2), []],
	].map(([name, about, events, again]) => ({
		name: `http/${name}`,
		about,
		answers: [
			[
				head([SSE_TYPE, 'Content-Encoding: gzip', 'Transfer-Encoding: chunked']),
				async () => {
					const pieces = [];
					for await (const piece of gzipped(events)) if (piece?.length) pieces.push(piece);
					return pieces.slice(0, events.length).flatMap((piece) => [httpChunk(piece), 30]); // without the end of the last block and the sum
				},
				LAST_CHUNK,
			],
			...again,
			final(),
		],
		history: HISTORY,
	})),
	{
		name: 'http/gzip-error',
		about: 'an error body in gzip',
		answers: [(() => {
			const body = gzipSync(JSON.stringify(apiError('Packed.')));
			return [head(['Content-Type: application/json', 'Content-Encoding: gzip', `Content-Length: ${body.length}`], '400 Bad Request'), body];
		})()],
		exit: 1,
		error: /Packed\./,
	},
	...[307, 308].map((status) => ({
		name: `http/redirect-${status}`,
		about: `${status} is followed with the body`,
		answers: [redirect(status, '/elsewhere/chat/completions?x=1'), stream(...EVENTS), final()],
		history: HISTORY,
		check: ({ check, requests }) => {
			check.equal(requests[1].method, 'POST', 'method');
			check.equal(requests[1].path, '/elsewhere/chat/completions?x=1', 'path');
			check.equal(requests[1].text, requests[0].text, 'body');
			check.equal(requests[1].headers['x-session-id'], 's1', 'X-Session-Id');
		},
	})),
	{
		name: 'http/redirect-relative',
		about: 'a redirect to a relative address, with dots to be taken out',
		answers: [redirect(307, '../v2/./chat?a=../b'), redirect(308, '?c'), stream(...EVENTS), final()],
		history: HISTORY,
		check: ({ check, requests }) => {
			check.equal(requests[1].path, '/v1/v2/chat?a=../b', 'path');
			check.equal(requests[2].path, '/v1/v2/chat?c', 'path with another query');
			check.equal(requests[2].text, requests[0].text, 'body');
		},
	},
	{
		name: 'http/redirect-loop',
		about: 'a redirect to itself ends',
		env: { AGENT_MAX_RETRIES: '0' },
		async run({ check, start, server }) {
			server.answers = (number) => (number <= 60 ? redirect(307, '/v1/chat/completions') : undefined);
			const result = await start().ended;
			check.equal(result.exit?.code, 1, 'exit code');
		},
	},
	{
		name: 'http/redirect-elsewhere',
		about: 'the key is not sent where a redirect leads, and the next turn goes home again',
		async run({ check, start, server }) {
			// There it is asked once more, and the connection kept for that is closed.
			const answers = [redirect(307, `http://localhost:${server.port}/v1/chat/completions`), redirect(307, '/v1/again'), [CLOSE], stream(...EVENTS), final()];
			server.answers = (number) => answers[number - 1];
			const result = await start().ended;
			check.equal(result.exit?.code, 0, 'exit code');
			const home = `127.0.0.1:${server.port}`, hosts = new Map();
			for (const { headers, connection } of server.requests) {
				check.equal(headers.authorization !== undefined, headers.host === home, `key at ${headers.host}`);
				check.equal(headers.host, hosts.get(connection) ?? headers.host, `Host on connection ${connection}`);
				hosts.set(connection, headers.host);
			}
			check.equal(server.requests[1]?.headers.host, `localhost:${server.port}`, 'Host after the redirect');
			check.equal(server.requests.at(-1)?.headers.host, home, 'Host of the next turn');
		},
	},
	{
		name: 'http/redirect-302',
		about: '302 on a POST is refused',
		answers: [redirect(302, '/elsewhere')],
		exit: 1,
		error: /302/,
	},
	{
		name: 'http/no-expect',
		about: 'a large request is sent without waiting for 100 Continue',
		systemPrompt: 'p'.repeat(3_000_000),
		answers: [final()],
		check: ({ check, requests }) => {
			check.equal(requests[0].headers.expect ?? 'none', 'none', 'Expect');
			check.equal(requests[0].json.messages[0].content.length, 3_000_000, 'length of the system prompt');
		},
	},
	{
		name: 'http/answer-before-body-read',
		about: 'a server that answers before it has read a large request',
		systemPrompt: 'p'.repeat(3_000_000),
		early: true,
		answers: [plain(413, apiError('Too large.', 'invalid_request_error'), { Connection: 'close' })],
		exit: 1,
		error: /./,
	},
	...[['localhost-v4', '127.0.0.1'], ['localhost-v6', '::1']].map(([name, listen]) => ({
		name: `http/${name}`,
		about: `base URL http://localhost and only ${listen} listens: all addresses are tried`,
		host: 'localhost',
		listen,
		env: { AGENT_MAX_RETRIES: '0' },
		unless: async () => ((await lookup('localhost', { all: true })).some(({ address }) => address === listen) ? null : `localhost is not ${listen} on this machine`),
		answers: [stream(...EVENTS), final()],
		history: HISTORY,
	})),
	{
		name: 'http/literal-v6',
		about: 'base URL with [::1]',
		host: '[::1]',
		listen: '::1',
		answers: [stream(...EVENTS), final()],
		history: HISTORY,
	},
	{
		name: 'http/tls',
		about: 'https with the authority of AGENT_CA_FILE',
		tls: true,
		answers: [stream(...EVENTS), final()],
		history: HISTORY,
	},
	{
		name: 'http/tls-localhost',
		about: 'https by name',
		tls: true,
		host: 'localhost',
		answers: [final()],
	},
	{
		name: 'http/tls-untrusted',
		about: 'https with a certificate that nobody vouches for: refused',
		tls: true,
		env: { AGENT_CA_FILE: undefined, AGENT_MAX_RETRIES: '0' },
		answers: [],
		exit: 1,
	},
	{
		name: 'http/tls-wrong-name',
		about: 'https with a certificate of another name: refused',
		tls: true,
		host: '127.0.0.2',
		listen: '127.0.0.2',
		env: { AGENT_MAX_RETRIES: '0' },
		answers: [],
		exit: 1,
	},
	{
		name: 'http/large-history',
		about: 'a history of 8 MB goes and comes',
		env: { AGENT_TOOL_OUTPUT_MAX: '8000000' },
		answers: [calling(shell('head -c 8000000 /dev/zero | tr "\\0" \'"\'')), final()],
		history: [assistant(null, shell('head -c 8000000 /dev/zero | tr "\\0" \'"\'')), tool('"'.repeat(8_000_000))],
	},
];
