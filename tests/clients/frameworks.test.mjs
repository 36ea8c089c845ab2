// Agent frameworks on other clients run the whole loop against mockllm.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { HumanMessage, SystemMessage, ToolMessage } from '@langchain/core/messages';
import { tool as langchainTool } from '@langchain/core/tools';
import { ChatOpenAI } from '@langchain/openai';
import { generateText, isStepCount, jsonSchema, streamText, tool } from 'ai';
import { MODEL, TOOL_NAME, TOOL_PARAMETERS, TOOL_TEXT, TURNS, runTool, startMock } from './mock.mjs';

let mock;
before(async () => {
	mock = await startMock();
});
after(() => mock.stop());

const aiRequest = (calls) => ({
	model: createOpenAICompatible({ name: 'mockllm', baseURL: mock.baseURL, apiKey: 'sk-test', includeUsage: true })(MODEL),
	prompt: 'Work.',
	maxRetries: 0,
	stopWhen: isStepCount(10),
	tools: {
		[TOOL_NAME]: tool({
			description: TOOL_TEXT,
			inputSchema: jsonSchema(TOOL_PARAMETERS),
			execute: (args) => {
				calls.push(args);
				return runTool(args);
			},
		}),
	},
});

test('ai: streamText runs the loop', async () => {
	const calls = [];
	const result = streamText({ ...aiRequest(calls), onError: ({ error }) => assert.fail(error) });
	let text = '';
	for await (const delta of result.textStream) text += delta;
	const steps = await result.steps;
	assert.equal(steps.length, TURNS);
	assert.deepEqual(steps.map((step) => step.finishReason), [...Array(TURNS - 1).fill('tool-calls'), 'stop']);
	assert.equal(calls.length, steps.reduce((sum, step) => sum + step.toolResults.length, 0));
	assert.ok(calls.length >= TURNS - 1);
	assert.ok(text.length > 0);
	assert.ok(steps[0].usage.totalTokens > 0);
});

test('ai: generateText runs the loop', async () => {
	const calls = [];
	const { steps, text } = await generateText(aiRequest(calls));
	assert.equal(steps.length, TURNS);
	assert.ok(calls.length >= TURNS - 1);
	assert.ok(text.length > 0);
});

test('ai: an error names the model', async () => {
	const request = { ...aiRequest([]), model: createOpenAICompatible({ name: 'mockllm', baseURL: mock.baseURL, apiKey: 'sk-test' })('no-such-model') };
	await assert.rejects(generateText(request), (error) => {
		assert.equal(error.statusCode, 404);
		assert.match(error.message, /no-such-model/);
		return true;
	});
});

for (const streaming of [true, false]) {
	test(`langchain: ChatOpenAI runs the loop, ${streaming ? 'streaming' : 'not streaming'}`, async () => {
		const model = new ChatOpenAI({ model: MODEL, apiKey: 'sk-test', maxRetries: 0, streaming, streamUsage: true, configuration: { baseURL: mock.baseURL } });
		const exec = langchainTool((args) => runTool(args), { name: TOOL_NAME, description: TOOL_TEXT, schema: TOOL_PARAMETERS });
		const bound = model.bindTools([exec]);
		const messages = [new SystemMessage('You are a test.'), new HumanMessage('Work.')];
		for (let turn = 1; ; turn++) {
			const message = await bound.invoke(messages);
			assert.ok(message.usage_metadata.total_tokens > 0);
			assert.equal(message.invalid_tool_calls?.length ?? 0, 0);
			messages.push(message);
			if (message.tool_calls.length === 0) {
				assert.equal(turn, TURNS);
				assert.ok(message.text.length > 0);
				break;
			}
			for (const call of message.tool_calls) {
				const result = await exec.invoke(call);
				assert.ok(result instanceof ToolMessage);
				messages.push(result);
			}
		}
	});
}
