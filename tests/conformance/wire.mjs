// What cases are written with: events of the OpenAI stream and whole answers, as parts of a
// ScriptedServer (server.mjs).

import { CLOSE, HANG, RESET } from './server.mjs';

export { CLOSE, HANG, RESET };

export const DONE = 'data: [DONE]\n\n';

export const event = (data) => `data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`;

// One chunk of the stream; `more` replaces or adds top-level keys.
export const chunk = (delta, finish = null, more = {}) => ({
	id: 'chatcmpl-1',
	object: 'chat.completion.chunk',
	created: 1700000000,
	model: 'conformance',
	choices: [{ index: 0, delta, finish_reason: finish }],
	...more,
});

export const say = (content) => event(chunk({ content }));
export const finish = (reason = 'stop') => event(chunk({}, reason));

// Whole tool calls and fragments of them.
export const fragments = (...calls) => event(chunk({ tool_calls: calls }));
export const call = (index, id, name, args) => ({
	index,
	id,
	type: 'function',
	function: { name, arguments: typeof args === 'string' ? args : JSON.stringify(args) },
});

export const STREAM_HEAD =
	'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n';
export const LAST_CHUNK = '0\r\n\r\n';

export function httpChunk(data) {
	const bytes = Buffer.from(data);
	return Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')]);
}

const isEnd = (part) => part === CLOSE || part === RESET || part === HANG;

// A chunked event stream: every string or Buffer is an HTTP chunk and a write of its own. Ends with the
// last chunk unless the parts end in CLOSE, RESET or HANG.
export function stream(...parts) {
	const ended = parts.some(isEnd);
	const framed = parts.map((part) => (typeof part === 'string' || Buffer.isBuffer(part) ? httpChunk(part) : part));
	return [STREAM_HEAD, ...framed, ...(ended ? [] : [LAST_CHUNK])];
}

// An answer with a body of known length.
export function plain(status, body, headers = {}) {
	const bytes = Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
	const all = { 'Content-Type': typeof body === 'string' ? 'text/html' : 'application/json', 'Content-Length': bytes.length, ...headers };
	const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
	return [Buffer.concat([Buffer.from(`HTTP/1.1 ${status} Status\r\n${lines.join('')}\r\n`), bytes])];
}

export const apiError = (message, type = 'server_error') => ({ error: { message, type, param: null, code: null } });

// The usual answers: the last turn; a turn that runs one tool.
export const final = () => stream(say('All done.'), finish('stop'), DONE);
export const calling = (...calls) => stream(fragments(...calls), finish('tool_calls'), DONE);
export const shell = (command, id = 'call_1', index = 0) => call(index, id, 'shell', { command });
export const exec = (argv, id = 'call_1', index = 0) => call(index, id, 'exec', { argv });

// Messages as the next request must hold them.
export const assistant = (content, ...calls) => ({
	role: 'assistant',
	content,
	tool_calls: calls.map(({ id, function: { name, arguments: args } }) => ({
		id,
		type: 'function',
		function: { name, arguments: args },
	})),
});
export const tool = (content, id = 'call_1') => ({ role: 'tool', tool_call_id: id, content });

export const SYSTEM_PROMPT = 'You are a test.\nAnswer with "tools", naïvely — 😀.\n';
