// Official clients play whole sessions against mockllm. Each session is a checked run: the mock compares
// every history with what it must be, so a client that reads the wire otherwise than meant is found.
//   node --test tests/clients/        (BUILD: where the programs are)

import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';

import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { AIMessage, HumanMessage, SystemMessage, ToolMessage } from '@langchain/core/messages';
import { ChatOpenAI } from '@langchain/openai';
import { generateText, isStepCount, streamText, tool } from 'ai';
import OpenAI from 'openai';
import { z } from 'zod';

const root = resolve(import.meta.dirname, '../..');
const bin = resolve(process.env.BUILD ?? join(root, 'build'), 'prefix/bin');
const run = promisify(execFile);

let folder, control, mock, baseURL;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'turnmeter-clients-'));
  control = join(folder, 'control.sock');
  const args = ['--port', '0', '--control', control, '--tool', join(bin, 'tmtool'), '--scenarios', join(root, 'configs/scenarios')];
  mock = spawn(join(bin, 'mockllm'), args, { stdio: ['ignore', 'pipe', 'inherit'] });
  for await (const line of createInterface({ input: mock.stdout })) {
    baseURL = `http://127.0.0.1:${JSON.parse(line).port}/v1`;
    break;
  }
});

after(async () => {
  mock.kill('SIGTERM');
  await new Promise((done) => mock.on('exit', done));
  await rm(folder, { recursive: true });
});

function ask(method, path, body) {
  return new Promise((done, failed) => {
    const call = request({ socketPath: control, method, path, headers: { 'Content-Type': 'application/json' } }, async (answer) => {
      let text = '';
      for await (const part of answer) text += part;
      done({ status: answer.statusCode, body: JSON.parse(text) });
    });
    call.on('error', failed);
    call.end(body === undefined ? '' : JSON.stringify(body));
  });
}

// Lets `play` be session s1 of a checked run of `smoke`, and returns the ledger, which must be clean.
async function checked(play) {
  const begun = await ask('POST', '/control/run', { scenario: 'smoke', sessions: 1, seed: 7 });
  assert.equal(begun.status, 200, JSON.stringify(begun.body));
  let ledger;
  try {
    await play({ system: begun.body.system_prompt, task: begun.body.task.replaceAll('{session}', 's1') });
  } finally {
    ledger = (await ask('POST', '/control/run/end')).body;
  }
  assert.deepEqual(ledger.errors, []);
  assert.equal(ledger.sessions_complete, 1);
  assert.ok(ledger.tool_calls > 0);
  assert.equal(ledger.tool_stamps, ledger.tool_calls);
}

async function exec({ argv }) {
  return (await run(argv[0], argv.slice(1), { maxBuffer: 1 << 20 })).stdout;
}

const execTool = {
  type: 'function',
  function: {
    name: 'exec',
    parameters: { type: 'object', properties: { argv: { type: 'array', items: { type: 'string' } } }, required: ['argv'] },
  },
};

const headers = { 'X-Session-Id': 's1' };
const openai = () => new OpenAI({ baseURL, apiKey: 'test', defaultHeaders: headers, maxRetries: 0 });

async function answers(calls) {
  return Promise.all(
    calls.map(async (call) => ({ role: 'tool', tool_call_id: call.id, content: await exec(JSON.parse(call.function.arguments)) })),
  );
}

// The loop of openai's client; `turn` makes one answer out of a request.
async function openaiLoop({ system, task }, turn) {
  const messages = [
    { role: 'system', content: system },
    { role: 'user', content: task },
  ];
  for (let turns = 0; turns < 10; turns++) {
    const message = await turn({ model: 'smoke', messages, tools: [execTool] });
    if (!message.tool_calls?.length) return;
    messages.push({ role: 'assistant', content: message.content, tool_calls: message.tool_calls }, ...(await answers(message.tool_calls)));
  }
  assert.fail('no end after 10 turns');
}

test('openai: chunks of a stream, put together by hand', () =>
  checked((start) =>
    openaiLoop(start, async (body) => {
      const message = { content: null, tool_calls: [] };
      let usage;
      const stream = await openai().chat.completions.create({ ...body, stream: true, stream_options: { include_usage: true } });
      for await (const chunk of stream) {
        usage = chunk.usage ?? usage;
        const delta = chunk.choices[0]?.delta;
        if (delta?.content) message.content = (message.content ?? '') + delta.content;
        for (const part of delta?.tool_calls ?? []) {
          const call = (message.tool_calls[part.index] ??= { id: part.id, type: part.type, function: { name: part.function.name, arguments: '' } });
          call.function.arguments += part.function.arguments ?? '';
        }
      }
      assert.ok(usage.total_tokens > 0);
      return message;
    }),
  ));

test('openai: the stream helper', () =>
  checked((start) =>
    openaiLoop(start, async (body) => {
      const completion = await openai().chat.completions.stream(body).finalChatCompletion();
      return completion.choices[0].message;
    }),
  ));

test('openai: without streaming', () =>
  checked((start) => openaiLoop(start, async (body) => (await openai().chat.completions.create(body)).choices[0].message)));

test('openai: runTools, a loop of its own', () =>
  checked(async ({ system, task }) => {
    const runner = openai().chat.completions.runTools({
      model: 'smoke',
      stream: true,
      messages: [
        { role: 'system', content: system },
        { role: 'user', content: task },
      ],
      tools: [{ type: 'function', function: { ...execTool.function, parse: JSON.parse, function: exec } }],
    });
    assert.ok((await runner.finalContent()).length > 0);
  }));

// In free play the answer to one request is always the same.
const first = { model: 'smoke', messages: [{ role: 'user', content: 'x' }], tools: [execTool] };

test('openai: an answer is the same with and without a stream', async () => {
  const [whole, streamed] = [
    await openai().chat.completions.create(first),
    await openai().chat.completions.stream(first).finalChatCompletion(),
  ].map((completion) => completion.choices[0]);
  assert.equal(whole.finish_reason, 'tool_calls');
  assert.equal(streamed.finish_reason, 'tool_calls');
  assert.equal(streamed.message.content, whole.message.content);
  assert.deepEqual(
    streamed.message.tool_calls.map((call) => [call.id, call.function.name]),
    whole.message.tool_calls.map((call) => [call.id, call.function.name]),
  );
});

test('openai: no usage chunk unless asked for', async () => {
  for await (const chunk of await openai().chat.completions.create({ ...first, stream: true })) {
    assert.equal(chunk.choices.length, 1);
    assert.equal(chunk.usage ?? null, null);
  }
});

test('openai: a stream can be left half read', async () => {
  const client = openai();
  for await (const chunk of await client.chat.completions.create({ ...first, stream: true })) {
    assert.ok(chunk.id);
    break;
  }
  assert.equal((await client.chat.completions.create(first)).object, 'chat.completion');
});

test('openai: models, and an error of the server', async () => {
  const names = [];
  for await (const model of openai().models.list()) names.push(model.id);
  assert.ok(names.includes('smoke') && names.includes('steady'));
  assert.equal((await openai().models.retrieve('smoke')).object, 'model');
  await assert.rejects(openai().chat.completions.create({ model: 'no-such', messages: [{ role: 'user', content: 'x' }] }), (error) => {
    assert.ok(error instanceof OpenAI.NotFoundError);
    assert.equal(error.code, 'model_not_found');
    assert.match(error.message, /no-such/);
    return true;
  });
});

test('openai: a wrong history is told in the answer', async () => {
  await ask('POST', '/control/run', { scenario: 'smoke', sessions: 1, seed: 7 });
  await assert.rejects(openai().chat.completions.create({ model: 'smoke', messages: [{ role: 'user', content: 'x' }], stream: true }), (error) => {
    assert.ok(error instanceof OpenAI.BadRequestError);
    assert.equal(error.code, 'history');
    return true;
  });
  const ledger = (await ask('POST', '/control/run/end')).body;
  assert.equal(ledger.error_counts.history, 1);
  assert.equal(ledger.sessions_complete, 0);
});

test('ai with @ai-sdk/openai-compatible: a loop of its own', () =>
  checked(async ({ system, task }) => {
    const provider = createOpenAICompatible({ name: 'mock', baseURL, apiKey: 'test', headers });
    const result = streamText({
      model: provider('smoke'),
      system,
      prompt: task,
      maxRetries: 0,
      tools: { exec: tool({ inputSchema: z.object({ argv: z.array(z.string()) }), execute: exec }) },
      stopWhen: isStepCount(10),
    });
    assert.equal(await result.finishReason, 'stop');
  }));

test('ai with @ai-sdk/openai-compatible: without streaming', () =>
  checked(async ({ system, task }) => {
    const provider = createOpenAICompatible({ name: 'mock', baseURL, apiKey: 'test', headers });
    const result = await generateText({
      model: provider('smoke'),
      system,
      prompt: task,
      maxRetries: 0,
      tools: { exec: tool({ inputSchema: z.object({ argv: z.array(z.string()) }), execute: exec }) },
      stopWhen: isStepCount(10),
    });
    assert.equal(result.finishReason, 'stop');
  }));

test('@langchain/openai: streamed turns', () =>
  checked(async ({ system, task }) => {
    const model = new ChatOpenAI({ model: 'smoke', apiKey: 'test', maxRetries: 0, configuration: { baseURL, defaultHeaders: headers } });
    const bound = model.bindTools([execTool]);
    const messages = [new SystemMessage(system), new HumanMessage(task)];
    for (let turns = 0; turns < 10; turns++) {
      let answer;
      for await (const chunk of await bound.stream(messages)) answer = answer ? answer.concat(chunk) : chunk;
      if (answer.tool_calls.length === 0) return;
      messages.push(new AIMessage({ content: answer.content, tool_calls: answer.tool_calls }));
      for (const call of answer.tool_calls) messages.push(new ToolMessage({ tool_call_id: call.id, content: await exec(call.args) }));
    }
    assert.fail('no end after 10 turns');
  }));
