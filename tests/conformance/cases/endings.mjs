// How answers end, and what else servers put into the stream.

import { existsSync } from 'node:fs';
import path from 'node:path';
import {
	CLOSE, DONE, HANG, RESET, apiError, assistant, calling, chunk, event, exec, final, finish, fragments, plain, say, shell, stream, tool,
} from '../wire.mjs';

const echo = exec(['echo', 'hi']);
const HISTORY = [assistant('Hi.', echo), tool('hi\n')];
const turn = (...parts) => [say('Hi.'), fragments(echo), ...parts];
const noRetry = { AGENT_MAX_RETRIES: '0' };

// A row whose first answer is a whole turn, however odd.
const good = (name, about, parts, more = {}) => ({ name: `end/${name}`, about, answers: [stream(...parts), final()], history: HISTORY, ...more });

// Rows of a turn that fails: asked again and then well; and without a retry, an error that says why.
const bad = (name, about, answer, error, more = {}) => [
	{ name: `end/${name}`, about, answers: [answer, stream(...turn(finish('tool_calls'), DONE)), final()], history: HISTORY, ...more },
	{ name: `end/${name}-fails`, about: `${about}, without a retry`, answers: [answer], exit: 1, error, ...more, env: { ...more.env, ...noRetry } },
];

const touch = shell('touch touched; echo hi');
const untouched = ({ check, scratch }) => check.ok(!existsSync(path.join(scratch, 'touched')), 'a call of a cut answer was run');
// Longer than a runtime needs to start on a busy machine.
const idle = { AGENT_IDLE_TIMEOUT_MS: '1500' };
const pings = Array(60).fill([': ping\n\n', 100]).flat();

export default [
	good('finish-without-done', 'a finish chunk and no [DONE]: complete', turn(finish('tool_calls'))),
	good('done-without-finish', '[DONE] and no finish chunk: complete', turn(DONE)),
	good('finish-then-close', 'a finish chunk, then the connection is closed within the chunked body', turn(finish('tool_calls'), 20, CLOSE)),
	good('done-then-hang', 'after [DONE] the body never ends: the turn is complete', turn(finish('tool_calls'), DONE, HANG), {
		check: ({ check, result }) => check.between(result.ms, 0, 10_000, 'milliseconds'),
	}),
	good('finish-reasons-none', 'finish_reason "", null or absent is none yet', [
		event(chunk({ content: 'H' }, '')),
		event({ ...chunk({}), choices: [{ index: 0, delta: { content: 'i' } }] }),
		event(chunk({ content: '.' }, null)),
		fragments(echo),
		finish('tool_calls'),
		DONE,
	]),
	...bad('neither', 'the stream ends with neither finish chunk nor [DONE]; its calls are not run', stream(say('Hi.'), fragments(touch)), /./, { check: untouched }),
	...bad('cut', 'the connection is closed within the stream', stream(say('Hi.'), fragments(touch), 20, CLOSE), /./, { check: untouched }),
	...bad('reset', 'the connection is reset within the stream', stream(say('Hi.'), fragments(touch), 20, RESET), /./, { check: untouched }),
	...bad('empty', 'a stream without any event', stream(''.padEnd(1, '\n')), /./),
	...bad('no-body', 'status 200 with an empty body', plain(200, ''), /./),
	...bad('no-content', 'status 204', ['HTTP/1.1 204 No Content\r\n\r\n'], /./),
	...bad('error-event', 'an error event under status 200', stream(say('H'), event(apiError('The model fell over.'))), /The model fell over\./),
	...bad('error-event-and-done', 'an error event, then [DONE]', stream(event(apiError('Overloaded.')), DONE), /Overloaded\./),
	...bad('error-string', 'an error event whose error is a string', stream(event({ error: 'Out of luck' })), /Out of luck/),
	...bad('error-body', 'an error body under status 200, not an event stream', plain(200, apiError('Not today.')), /Not today\./),
	...bad('error-body-lines', 'an error body under status 200 over several lines', plain(200, JSON.stringify(apiError('Not now.'), null, 2)), /Not now\./),
	...bad('html', 'an error page under status 200', plain(200, '<!DOCTYPE html>\n<html><body>Bad gateway</body></html>'), /Bad gateway/),
	...bad('not-json', 'an event that is not JSON', stream(say('H'), 'data: {"choices":[{]\n\n', finish('stop'), DONE), /./),
	{
		name: 'end/error-long',
		about: 'a long error is shortened; the line on stdout stays below 512 bytes and is JSON',
		env: noRetry,
		answers: [stream(event(apiError('é"\n\u0001'.repeat(5000))))],
		exit: 1,
		error: /^.*é"\n/s,
	},
	{
		name: 'end/html-long',
		about: 'a long error page under status 502 is shortened',
		env: noRetry,
		answers: [plain(502, `<html><body>Bad gateway${'<p>sorry</p>'.repeat(20_000)}</body></html>`)],
		exit: 1,
		error: /502.*Bad gateway/s,
	},
	...bad('idle-before-headers', 'silence from the request on', [HANG], /silent|idle|timeout|timed out/i, { env: idle, slow: true }),
	...bad('idle-before-events', 'headers, then silence', stream(HANG), /silent|idle|timeout|timed out/i, { env: idle, slow: true }),
	...bad('idle-between-events', 'silence between events; the calls are not run', stream(say('Hi.'), fragments(touch), HANG), /silent|idle|timeout|timed out/i, { env: idle, slow: true, check: untouched }),
	...bad('idle-with-comments', 'comments are no events: pings alone do not keep a turn alive', stream(...pings, HANG), /silent|idle|timeout|timed out/i, { env: idle, slow: true }),
	good('slow-but-alive', 'a stream longer than the idle timeout, never silent for so long', [
		...Array(15).fill([event(chunk({})), 200]).flat(), ...turn(finish('tool_calls'), DONE),
	], { env: { AGENT_IDLE_TIMEOUT_MS: '2000', ...noRetry }, slow: true }),
	good('usage-chunk', 'choices: [] with usage after the finish chunk', turn(
		finish('tool_calls'), event({ ...chunk({}), choices: [], usage: { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 } }), DONE,
	)),
	good('choices-empty', 'choices: [] in mid-stream', [event({ ...chunk({}), choices: [] }), say('Hi.'), event({ ...chunk({}), choices: [] }), fragments(echo), finish('tool_calls'), DONE]),
	good('choices-absent', 'no choices key', [event({ id: 'x' }), say('Hi.'), event({ object: 'ping' }), fragments(echo), finish('tool_calls'), DONE]),
	good('content-null', 'content: null beside text', [event(chunk({ role: 'assistant', content: null })), say('Hi.'), event(chunk({ content: null })), fragments(echo), finish('tool_calls'), DONE]),
	good('delta-empty', 'delta: {}, and delta null or absent', [
		event(chunk({})), event(chunk(null)), event({ ...chunk({}), choices: [{ index: 0 }] }), ...turn(finish('tool_calls'), DONE),
	]),
	good('role-and-name', 'role in the first delta', [event(chunk({ role: 'assistant', content: 'Hi' })), say('.'), fragments(echo), finish('tool_calls'), DONE]),
	good('reasoning', 'reasoning_content and unknown keys are ignored', [
		event(chunk({ reasoning_content: 'thinking' })), event(chunk({ reasoning: 'thinking', x: [1] }, null, { y: {} })), ...turn(finish('tool_calls'), DONE),
	]),
	good('usage-cumulative', 'usage in every chunk', [
		event(chunk({ content: 'Hi' }, null, { usage: { total_tokens: 1 } })), event(chunk({ content: '.' }, null, { usage: { total_tokens: 2 } })), fragments(echo), finish('tool_calls'), DONE,
	]),
	{
		name: 'end/content-empty-string',
		about: 'an empty content delta is a delta: the text is "", not null',
		answers: [stream(event(chunk({ role: 'assistant', content: '' })), fragments(echo), finish('tool_calls'), DONE), final()],
		history: [assistant('', echo), tool('hi\n')],
	},
	{
		name: 'end/three-turns',
		about: 'the history grows turn by turn',
		answers: [calling(shell('echo 1', 'a')), stream(say('More.'), fragments(shell('echo 2', 'b'), shell('echo 3', 'c', 1)), finish('tool_calls'), DONE), final()],
		history: [assistant(null, shell('echo 1', 'a')), tool('1\n', 'a'), assistant('More.', shell('echo 2', 'b'), shell('echo 3', 'c', 1)), tool('2\n', 'b'), tool('3\n', 'c')],
	},
];
