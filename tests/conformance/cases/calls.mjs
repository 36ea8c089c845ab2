// Tool calls in the stream: how their fragments are put together, and which of them are run.

import { existsSync } from 'node:fs';
import path from 'node:path';
import { DONE, assistant, call, calling, chunk, event, exec, final, finish, fragments, say, shell, stream, tool } from '../wire.mjs';

// A row: fragments of one turn, and the calls with their outputs as they must come back.
const row = (name, about, parts, history, more = {}) => ({
	name: `call/${name}`,
	about,
	answers: [stream(...parts, finish('tool_calls'), DONE), final()],
	history,
	...more,
});
const a = shell('echo a', 'call_a', 0);
const b = shell('echo b', 'call_b', 1);
const AB = [assistant(null, a, b), tool('a\n', 'call_a'), tool('b\n', 'call_b')];
const without = (object, ...keys) => Object.fromEntries(Object.entries(object).filter(([key]) => !keys.includes(key)));
const cut = ({ function: { arguments: args } }, at) => [args.slice(0, at), args.slice(at)];
const [a1, a2] = cut(a, 9);
const [b1, b2] = cut(b, 12);
const args = (text, more = {}) => ({ ...more, function: { arguments: text } });
const INVALID = '[error] invalid arguments';

// A row of a call that must be answered without being run.
const refused = (name, about, refusedCall, answer = INVALID, back = refusedCall) =>
	row(name, about, [fragments(refusedCall)], [assistant(null, back), tool(answer, refusedCall.id)], {
		check: ({ check, scratch }) => check.ok(!existsSync(path.join(scratch, 'touched')), 'the call was run'),
	});
const raw = (argumentsText, name = 'exec') => call(0, 'call_1', name, argumentsText);

export default [
	row('two', 'two calls in one delta', [fragments(a, b)], AB),
	row('no-index-by-id', 'no index: fragments are grouped by id', [
		fragments(without({ ...a, function: { name: 'shell', arguments: a1 } }, 'index')),
		fragments(without({ ...b, function: { name: 'shell', arguments: b1 } }, 'index')),
		fragments(args(a2, { id: 'call_a' })),
		fragments(args(b2, { id: 'call_b' })),
	], AB),
	row('no-index-no-id', 'no index and no id: the current call goes on', [
		fragments(without({ ...a, function: { name: 'shell', arguments: a1 } }, 'index')),
		fragments(args(a2)),
		fragments(without({ ...b, function: { name: 'shell', arguments: b1 } }, 'index')),
		fragments(args(b2)),
	], AB),
	row('same-index-new-id', 'the same index with another id is a new call', [fragments(a), fragments({ ...b, index: 0 })], AB),
	row('same-index-new-id-split', 'the same, and later fragments of that index belong to the new one', [
		fragments(a), fragments({ ...b, index: 0, function: { name: 'shell', arguments: b1 } }), fragments(args(b2, { index: 0 })),
	], AB),
	row('interleaved', 'two calls interleaved, id and name only in the first fragments', [
		fragments({ ...a, function: { name: 'shell', arguments: a1 } }, { ...b, function: { name: 'shell', arguments: b1 } }),
		fragments(args(b2, { index: 1 })),
		fragments(args(a2, { index: 0 })),
	], AB),
	row('order-by-index', 'calls go by their index, not by arrival', [fragments(b), fragments(a)], AB),
	row('index-gap', 'indices need not begin at 0 or be dense', [fragments({ ...a, index: 3 }), fragments({ ...b, index: 9 })], AB),
	row('type-missing', 'no type: a function', [fragments(without(a, 'type'), without(b, 'type'))], AB),
	row('type-late', 'type comes with the last fragment', [fragments({ ...without(a, 'type'), function: { name: 'shell', arguments: a1 } }, b), fragments(args(a2, { index: 0, type: 'function' }))], AB),
	row('name-late', 'name after the arguments', [fragments({ index: 0, id: 'call_a', function: { arguments: a1 } }), fragments({ index: 0, function: { name: 'shell', arguments: a2 } }), fragments(b)], AB),
	row('id-late', 'id after the arguments', [fragments({ index: 0, function: { name: 'shell', arguments: a1 } }), fragments({ index: 0, id: 'call_a', function: { arguments: a2 } }), fragments(b)], AB),
	row('id-and-name-repeated', 'id and name in every fragment: taken once', [
		fragments({ ...a, function: { name: 'shell', arguments: a1 } }), fragments({ ...a, function: { name: 'shell', arguments: a2 } }), fragments(b),
	], AB),
	row('id-empty', 'id "" continues', [fragments({ ...a, function: { name: 'shell', arguments: a1 } }), fragments(args(a2, { index: 0, id: '' })), fragments(b)], AB),
	row('id-empty-no-index', 'id "" without an index continues', [fragments(without({ ...a, function: { name: 'shell', arguments: a1 } }, 'index')), fragments(args(a2, { id: '' })), fragments(without(b, 'index'))], AB),
	row('name-empty', 'name "" and null in later fragments', [
		fragments({ ...a, function: { name: 'shell', arguments: a1 } }), fragments({ index: 0, function: { name: '', arguments: '' } }), fragments({ index: 0, function: { name: null, arguments: a2 } }), fragments(b),
	], AB),
	row('arguments-object', 'arguments as an object are serialised', [fragments({ ...a, function: { name: 'shell', arguments: { command: 'echo a' } } }, b)], AB),
	row('arguments-empty-fragments', 'arguments "", null or missing are empty fragments', [
		fragments({ ...a, function: { name: 'shell', arguments: '' } }), fragments(args(a1, { index: 0 })), fragments(args(null, { index: 0 })), fragments({ index: 0, function: {} }), fragments({ index: 0 }),
		fragments(args(a2, { index: 0 })), fragments(b),
	], AB),
	row('arguments-split-in-escape', 'arguments split inside an escape', (() => {
		const text = '{"command":"printf \'%s\' \\"\\u00e9\\""}';
		return [...text].map((c, k) => fragments(k === 0 ? call(0, 'call_1', 'shell', c) : args(c, { index: 0 })));
	})(), [assistant(null, shell('printf \'%s\' "é"')), tool('é')]),
	row('arguments-with-spaces', 'arguments as the model wrote them, keys and blanks as they are', [fragments(raw('{ "argv" : [ "echo" , "hi" ] }\n'))], [assistant(null, raw('{"argv":["echo","hi"]}')), tool('hi\n')]),
	refused('arguments-none', 'no arguments at all: {}', call(0, 'call_1', 'exec', ''), INVALID, raw('{}')),
	refused('fragment-lost', 'the last fragment is lost: told to the model, never run', raw('{"argv":["touch","touched"')),
	refused('malformed', 'malformed JSON is never repaired into a call', raw("{'argv':['touch','touched']}")),
	refused('malformed-trailing', 'a whole object and something after it', raw('{"command":"touch touched"}}', 'shell')),
	refused('unknown-tool', 'another tool\'s name', call(0, 'call_1', 'touch', { argv: ['touched'] }), '[error] unknown tool: touch'),
	refused('argv-empty', 'argv: []', raw('{"argv":[]}')),
	refused('argv-missing', 'no argv', raw('{"command":"touch touched"}')),
	refused('argv-string', 'argv is a string', raw('{"argv":"touch touched"}')),
	refused('argv-number', 'argv holds a number', raw('{"argv":["touch","touched",1]}')),
	refused('argv-nul', 'argv holds a NUL', raw('{"argv":["touch","touched","a\\u0000b"]}')),
	refused('command-missing', 'no command', raw('{"argv":["touch","touched"]}', 'shell')),
	refused('command-array', 'command is an array', raw('{"command":["touch touched"]}', 'shell')),
	refused('command-nul', 'command holds a NUL', raw('{"command":"touch touched; echo \\u0000"}', 'shell')),
	refused('arguments-array', 'arguments are an array', raw('["touch","touched"]')),
	refused('arguments-null', 'arguments are null', raw('null')),
	refused('arguments-string', 'arguments are a string', raw('"touch touched"')),
	{
		name: 'call/odd-types',
		about: 'ids, names, indices and choices of other types harm no other session',
		async run({ check, start, server }) {
			const odd = [
				{ index: 'x', id: 7, type: 1, function: { name: ['exec'], arguments: 5 } },
				{ index: null, id: {}, function: 'exec' },
				null,
				'call',
			];
			server.answers = (_, { headers, json }) => {
				if (headers['x-session-id'] === 's2' || json.messages.length > 2) return final();
				return stream(
					event(chunk({ tool_calls: odd, content: 5 })), event({ choices: 'none' }), event({ choices: [null, 3] }), event(chunk('delta', 'x')), event([]), event('5'), event('null'),
					event(chunk({ tool_calls: { index: 0 } })), finish('tool_calls'), DONE,
				);
			};
			const result = await start({ AGENT_SESSIONS: '2', AGENT_MAX_RETRIES: '0' }).ended;
			check.ok(result.exit?.code === 0 || result.exit?.code === 1, `ended with ${JSON.stringify(result.exit)}`);
			check.equal(result.lines.at(-1), '{"event":"done"}', 'last line of stdout');
			check.ok(!result.events.some((e) => e.session === 's2'), 'session s2 failed');
		},
	},
	{
		name: 'call/finish-in-same-chunk',
		about: 'arguments and finish_reason in one chunk: both are taken',
		answers: [stream(event(chunk({ tool_calls: [a, b] }, 'tool_calls')), DONE), final()],
		history: AB,
	},
	{
		name: 'call/after-finish',
		about: 'a fragment after the finish chunk still counts',
		answers: [stream(fragments(a), finish('tool_calls'), fragments(b), DONE), final()],
		history: AB,
	},
	{
		name: 'call/finish-stop',
		about: 'finish_reason "stop" together with tool calls: the calls run',
		answers: [stream(fragments(a, b), finish('stop'), DONE), final()],
		history: AB,
	},
	{
		name: 'call/finish-tool-calls-without-calls',
		about: 'finish_reason "tool_calls" without a call: the session has ended',
		answers: [stream(say('Done.'), finish('tool_calls'), DONE)],
	},
	{
		name: 'call/tool-calls-null',
		about: 'tool_calls: null and []',
		answers: [stream(event(chunk({ content: 'x', tool_calls: null })), event(chunk({ tool_calls: [] })), finish('stop'), DONE)],
	},
	{
		name: 'call/not-before-finish',
		about: 'no call starts before the finish chunk has been seen',
		answers: ({ check, scratch }) => [
			stream(fragments(shell('touch touched; echo hi')), 400, () => check.ok(!existsSync(path.join(scratch, 'touched')), 'the call was started early'), finish('tool_calls'), DONE),
			final(),
		],
		history: [assistant(null, shell('touch touched; echo hi')), tool('hi\n')],
	},
	{
		name: 'call/all-at-once',
		about: 'all calls of a turn run at once: each waits for the others',
		answers: (() => {
			// Every tool makes its file and waits until all are there.
			const many = Array.from({ length: 12 }, (_, k) => shell(`: >w${k}; n=0; while [ $n -lt 200 ]; do set -- w*; [ $# -eq 12 ] && { echo ${k}; exit; }; sleep 0.05; n=$((n+1)); done; exit 9`, `id${k}`, k));
			return [calling(...many), final()];
		})(),
		check: ({ check, requests }) => {
			const tools = requests[1].json.messages.slice(3);
			tools.forEach((message, k) => check.equal(message.content, `${k}\n`, `tool message ${k}`));
		},
	},
	{
		name: 'call/hundred',
		about: '100 calls in one turn, one of them unknown',
		answers: (() => {
			const many = Array.from({ length: 100 }, (_, k) => (k === 50 ? call(k, `id${k}`, 'nothing', {}) : exec(['echo', String(k)], `id${k}`, k)));
			return [calling(...many), final()];
		})(),
		check: ({ check, requests }) => {
			const tools = requests[1].json.messages.slice(3);
			check.equal(tools.length, 100, 'number of tool messages');
			tools.forEach((message, k) => {
				check.equal(message.tool_call_id, `id${k}`, `tool message ${k}: id`);
				check.equal(message.content, k === 50 ? '[error] unknown tool: nothing' : `${k}\n`, `tool message ${k}`);
			});
		},
	},
];
