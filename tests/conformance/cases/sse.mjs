// Framing of the event stream: the same turn, cut and written in every way that servers and networks do.

import {
	DONE, HANG, CLOSE, LAST_CHUNK, STREAM_HEAD, assistant, calling, chunk, event, exec, final, finish, fragments, httpChunk, say, stream, tool,
} from '../wire.mjs';

const echo = exec(['echo', 'hi']);
const TEXT = 'Hello, wörld 😀\n"quoted"';
const EVENTS = [say('Hello, '), say('wörld 😀\n'), say('"quoted"'), fragments(echo), finish('tool_calls'), DONE];
const HISTORY = [assistant(TEXT, echo), tool('hi\n')];
const SSE = EVENTS.join('');

// A row: the turn's bytes as the parts that `frame` makes of them.
const framed = (name, about, frame, more = {}) => ({
	name: `sse/${name}`,
	about,
	answers: [stream(...frame(SSE)), final()],
	history: HISTORY,
	...more,
});

function* slices(data, size) {
	const bytes = Buffer.from(data);
	for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

// Pieces with a pause between each two, so that they are read one by one.
const paced = (pieces, ms) => pieces.flatMap((piece, k) => (k === 0 ? [piece] : [ms, piece]));

// Cuts after each occurrence of a byte sequence.
function cutAfter(data, mark) {
	const pieces = [];
	const bytes = Buffer.from(data);
	let from = 0;
	for (let at = bytes.indexOf(mark); at >= 0; at = bytes.indexOf(mark, at + 1)) {
		pieces.push(bytes.subarray(from, at + mark.length));
		from = at + mark.length;
	}
	return [...pieces, bytes.subarray(from)].filter((piece) => piece.length > 0);
}

const noText = (args) => [assistant(null, args), tool('hi\n')];
const lineOf = (bytes) => {
	const rest = JSON.stringify({ ...chunk({ content: 'x' }), padding: '' });
	return event(JSON.stringify({ ...chunk({ content: 'x' }), padding: 'p'.repeat(bytes - 6 - rest.length) }));
};

export default [
	framed('lf', 'lines end in LF, one event a write', () => EVENTS),
	framed('one-write', 'the whole stream in one write', (sse) => [sse]),
	framed('crlf', 'lines end in CRLF', (sse) => [sse.replaceAll('\n', '\r\n')]),
	framed('cr', 'lines end in CR', (sse) => [sse.replaceAll('\n', '\r')]),
	framed('crlf-split', 'CR ends one read, LF begins the next: one line end', (sse) => paced(cutAfter(sse.replaceAll('\n', '\r\n'), '\r'), 3)),
	framed('mixed-line-ends', 'LF, CRLF and CR in one stream', () =>
		EVENTS.map((e, k) => e.replaceAll('\n', ['\n', '\r\n', '\r'][k % 3])),
	),
	{
		name: 'sse/cr-at-once',
		about: 'an event that ends in CR comes out at once, not with the next byte',
		answers: [stream(...EVENTS.map((e) => e.replaceAll('\n', '\r')), HANG), final()],
		history: HISTORY,
		check: ({ check, result }) => check.between(result.ms, 0, 10_000, 'milliseconds'),
	},
	framed('no-space', 'data:x is data: x', (sse) => [sse.replaceAll('data: ', 'data:')]),
	framed('two-spaces', 'only one space is dropped; JSON does not mind the other', (sse) => [sse.replaceAll('data: {', 'data:  {')]),
	framed('bom', 'a byte order mark at the start is dropped', (sse) => ['\ufeff' + sse]),
	framed('bom-split', 'the same, over three reads', (sse) => paced([Buffer.from([0xef]), Buffer.from([0xbb]), Buffer.concat([Buffer.from([0xbf]), Buffer.from(sse)])], 10)),
	framed('comments-and-fields', 'comments and the fields event, id, retry are ignored', () =>
		EVENTS.map((e, k) => [': ping\n\n', ':\n', 'event: message\n', 'id: 7\n', 'retry: 10\n\n', 'event\nid\nunknown: x\n'][k] + e),
	),
	framed('empty-data', 'an event without data, or with empty data, is skipped', () => ['data:\n\n', 'data\n\n', 'data: \n\n', ...EVENTS.flatMap((e) => ['event: x\n\n', 'data:\n\n', e])]),
	framed('multi-line-data', 'several data lines of an event are joined by LF', () =>
		EVENTS.map((e) => (e === DONE ? e : JSON.stringify(JSON.parse(e.slice(6)), null, 1).split('\n').map((line) => `data: ${line}\n`).join('') + '\n')),
	),
	framed('field-after-data', 'other fields may follow the data of an event', () => EVENTS.map((e) => e.slice(0, -1) + 'id: 1\n: x\n\n')),
	{
		name: 'sse/last-event-unterminated',
		about: 'the last event lacks its blank line and its line end: complete JSON is taken',
		answers: [stream(...EVENTS.slice(0, 4), finish('tool_calls').trimEnd()), final()],
		history: HISTORY,
	},
	{
		name: 'sse/last-event-cut',
		about: 'the last event is cut in its JSON: an error of the turn, retried',
		answers: [stream(...EVENTS.slice(0, 3), finish('tool_calls').slice(0, 40)), stream(...EVENTS), final()],
		history: HISTORY,
	},
	{
		name: 'sse/last-event-cut-fails',
		about: 'the same without a retry: a clear error',
		env: { AGENT_MAX_RETRIES: '0' },
		answers: [stream(...EVENTS.slice(0, 3), finish('tool_calls').slice(0, 40))],
		exit: 1,
		error: /./,
	},
	framed('split-json', 'reads end in the middle of the JSON', (sse) => paced([...slices(sse, 61)], 2)),
	framed('split-utf8', 'reads end in the middle of a character', (sse) => {
		const bytes = Buffer.from(sse);
		const umlaut = bytes.indexOf('ö') + 1;
		const smile = bytes.indexOf('😀');
		return paced([bytes.subarray(0, umlaut), bytes.subarray(umlaut, smile + 1), bytes.subarray(smile + 1, smile + 3), bytes.subarray(smile + 3)], 15);
	}),
	framed('split-escape', 'reads end in the middle of a \\u escape', (sse) =>
		paced(cutAfter(sse.replaceAll('😀', '\\ud83d\\ude00').replaceAll('ö', '\\u00f6'), '\\u'), 10),
	),
	framed('byte-by-byte', 'one byte a read', (sse) => [...slices(sse, 1)].flatMap((b) => [b, 0])),
	{
		name: 'sse/surrogates-split',
		about: 'half a surrogate pair ends one delta, the other begins the next: joined',
		answers: [stream(event(JSON.stringify(chunk({ content: 'a\ud83d' }))), event(JSON.stringify(chunk({ content: '\ude00b' }))), fragments(echo), finish('tool_calls'), DONE), final()],
		history: [assistant('a😀b', echo), tool('hi\n')],
	},
	{
		name: 'sse/surrogate-lone',
		about: 'a lone half becomes U+FFFD before it is sent back',
		answers: [stream(event(JSON.stringify(chunk({ content: 'a\ud83d' }))), say('b'), event(JSON.stringify(chunk({ content: '\ude00' }))), fragments(echo), finish('tool_calls'), DONE), final()],
		history: [assistant('a\ufffdb\ufffd', echo), tool('hi\n')],
	},
	{
		name: 'sse/surrogates-in-arguments',
		about: 'a surrogate pair split over two fragments of arguments',
		answers: () => {
			const [head, tail] = ['{"argv":["echo","\ud83d', '\ude00"]}'];
			const rest = { index: 0, function: { arguments: tail } };
			return [stream(event(JSON.stringify(chunk({ tool_calls: [{ ...echo, function: { name: 'exec', arguments: head } }] }))), event(JSON.stringify(chunk({ tool_calls: [rest] }))), finish('tool_calls'), DONE), final()];
		},
		history: [assistant(null, exec(['echo', '😀'])), tool('😀\n')],
	},
	{
		name: 'sse/nul',
		about: 'NUL in the text',
		answers: [stream(say('a\0b'), fragments(echo), finish('tool_calls'), DONE), final()],
		history: [assistant('a\0b', echo), tool('hi\n')],
	},
	...[['64k', 65_536], ['1m', 1_048_576], ['2m', 2_097_152]].map(([name, size]) => ({
		name: `sse/line-${name}`,
		about: `a text of ${size} characters in one event`,
		answers: [stream(say('x'.repeat(size - 1) + 'é'), fragments(echo), finish('tool_calls'), DONE), final()],
		history: [assistant('x'.repeat(size - 1) + 'é', echo), tool('hi\n')],
	})),
	{
		name: 'sse/line-16m',
		about: 'a line of 16 MiB, the longest that must work',
		answers: [stream(lineOf(16 * 1024 * 1024), fragments(echo), finish('tool_calls'), DONE), final()],
		history: [assistant('x', echo), tool('hi\n')],
	},
	{
		name: 'sse/line-too-long',
		about: 'a line without an end: the turn fails beyond the cap, and is not asked again',
		answers: [stream('data: "', ...Array(20).fill('x'.repeat(1024 * 1024)), HANG)],
		exit: 1,
		error: /./,
	},
	{
		name: 'sse/long-line-small-reads',
		about: '256 KB in one event, 64 bytes a chunk: time linear in the size',
		answers: [[STREAM_HEAD, ...[...slices(say('y'.repeat(262_144)), 64)].map(httpChunk), ...[fragments(echo), finish('tool_calls'), DONE].map(httpChunk), LAST_CHUNK], final()],
		history: [assistant('y'.repeat(262_144), echo), tool('hi\n')],
		check: ({ check, result }) => check.between(result.ms, 0, 20_000, 'milliseconds'),
	},
	{
		name: 'sse/many-events',
		about: '20,000 small events as fast as they go',
		answers: [stream(...Array.from({ length: 200 }, (_, k) => Array.from({ length: 100 }, (_, n) => say(`${k * 100 + n} `)).join('')), fragments(echo), finish('tool_calls'), DONE), final()],
		history: [assistant(Array.from({ length: 20_000 }, (_, k) => `${k} `).join(''), echo), tool('hi\n')],
	},
	{
		name: 'sse/after-done',
		about: 'bytes after [DONE] do not matter',
		answers: [stream(...EVENTS, say('ignored'), 'garbage', 100, CLOSE), final()],
		history: HISTORY,
	},
	{
		name: 'sse/no-text',
		about: 'a turn without content has null',
		answers: [calling(echo), final()],
		history: noText(echo),
	},
];
