// The official openai client runs the whole loop against mockllm.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import OpenAI from 'openai';
import { MODEL, TOOL_NAME, TOOL_PARAMETERS, TOOL_TEXT, TURNS, runTool, startMock } from './mock.mjs';

let mock;
let client;
before(async () => {
	mock = await startMock();
	client = new OpenAI({ baseURL: mock.baseURL, apiKey: 'sk-test', maxRetries: 0, timeout: 10_000 });
});
after(() => mock.stop());

const tools = [{ type: 'function', function: { name: TOOL_NAME, description: TOOL_TEXT, parameters: TOOL_PARAMETERS } }];
const start = () => [
	{ role: 'system', content: 'You are a test.' },
	{ role: 'user', content: 'Work.' },
];

// Runs the loop with `turnOf`, which asks for one turn and gives its whole message.
async function loop(turnOf) {
	const messages = start();
	for (let turn = 1; ; turn++) {
		const message = await turnOf(messages, turn);
		assert.equal(message.role, 'assistant');
		if (!message.tool_calls?.length) {
			assert.equal(turn, TURNS);
			assert.ok(message.content.length > 0);
			return messages;
		}
		messages.push(message);
		for (const call of message.tool_calls) {
			assert.equal(call.type, 'function');
			assert.equal(call.function.name, TOOL_NAME);
			messages.push({ role: 'tool', tool_call_id: call.id, content: await runTool(JSON.parse(call.function.arguments)) });
		}
	}
}

test('chat.completions.create with stream: the loop', async () => {
	await loop(async (messages) => {
		const stream = await client.chat.completions.create({ model: MODEL, messages, tools, stream: true, stream_options: { include_usage: true } });
		const message = { role: null, content: '', tool_calls: [] };
		let reason = null;
		let usage = null;
		for await (const chunk of stream) {
			assert.equal(chunk.object, 'chat.completion.chunk');
			assert.equal(typeof chunk.created, 'number');
			usage = chunk.usage ?? usage;
			const choice = chunk.choices[0];
			if (!choice) continue;
			message.role ??= choice.delta.role;
			message.content += choice.delta.content ?? '';
			for (const part of choice.delta.tool_calls ?? []) {
				const call = (message.tool_calls[part.index] ??= { id: part.id, type: part.type, function: { name: part.function.name, arguments: '' } });
				call.function.arguments += part.function.arguments ?? '';
			}
			reason = choice.finish_reason ?? reason;
		}
		assert.equal(reason, message.tool_calls.length > 0 ? 'tool_calls' : 'stop');
		assert.ok(usage.total_tokens > 0);
		assert.equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);
		return message;
	});
});

test('chat.completions.stream: the loop', async () => {
	await loop(async (messages) => {
		const stream = client.chat.completions.stream({ model: MODEL, messages, tools });
		let text = '';
		stream.on('content', (delta) => (text += delta));
		const completion = await stream.finalChatCompletion();
		const { message } = completion.choices[0];
		assert.equal(message.content ?? '', text);
		return message;
	});
});

test('chat.completions.runTools: the loop', async () => {
	let calls = 0;
	const runner = client.chat.completions.runTools({
		model: MODEL,
		messages: start(),
		stream: true,
		tools: [
			{
				type: 'function',
				function: {
					name: TOOL_NAME,
					description: TOOL_TEXT,
					parameters: TOOL_PARAMETERS,
					parse: JSON.parse,
					function: (args) => {
						calls++;
						return runTool(args);
					},
				},
			},
		],
	});
	assert.ok((await runner.finalContent()).length > 0);
	assert.ok(calls >= TURNS - 1);
});

test('chat.completions.create without stream: the loop', async () => {
	await loop(async (messages) => {
		const completion = await client.chat.completions.create({ model: MODEL, messages, tools });
		assert.equal(completion.object, 'chat.completion');
		assert.ok(completion.usage.total_tokens > 0);
		const [choice] = completion.choices;
		assert.equal(choice.finish_reason, choice.message.tool_calls?.length ? 'tool_calls' : 'stop');
		return choice.message;
	});
});

test('with and without stream the answer is the same', async () => {
	const whole = await client.chat.completions.create({ model: MODEL, messages: start(), tools });
	const streamed = await client.chat.completions.stream({ model: MODEL, messages: start(), tools }).finalChatCompletion();
	assert.equal(streamed.choices[0].message.content, whole.choices[0].message.content);
	assert.deepEqual(
		streamed.choices[0].message.tool_calls.map((call) => call.function.name),
		whole.choices[0].message.tool_calls.map((call) => call.function.name),
	);
});

test('no usage chunk unless asked for', async () => {
	const stream = await client.chat.completions.create({ model: MODEL, messages: start(), stream: true });
	for await (const chunk of stream) {
		assert.equal(chunk.choices.length, 1);
		assert.ok(chunk.usage == null);
	}
});

test('a stream can be left half read', async () => {
	const stream = await client.chat.completions.create({ model: MODEL, messages: start(), stream: true });
	for await (const chunk of stream) {
		assert.ok(chunk.id);
		break;
	}
	assert.ok((await client.models.list()).data.length > 0);
});

test('models.list and models.retrieve', async () => {
	const names = [];
	for await (const model of client.models.list()) {
		assert.equal(model.object, 'model');
		assert.equal(typeof model.created, 'number');
		names.push(model.id);
	}
	assert.ok(names.includes(MODEL));
	assert.equal((await client.models.retrieve(MODEL)).id, MODEL);
	await assert.rejects(client.models.retrieve('no-such-model'), OpenAI.NotFoundError);
});

test('errors are the client\'s own classes, with message, type and code', async () => {
	for (const stream of [false, true]) {
		await assert.rejects(client.chat.completions.create({ model: 'no-such-model', messages: start(), stream }), (error) => {
			assert.ok(error instanceof OpenAI.NotFoundError);
			assert.equal(error.type, 'invalid_request_error');
			assert.equal(error.code, 'model_not_found');
			assert.match(error.message, /no-such-model/);
			return true;
		});
		await assert.rejects(client.chat.completions.create({ model: MODEL, messages: 'none', stream }), OpenAI.BadRequestError);
	}
});
