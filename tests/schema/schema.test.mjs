// The schemas in configs/schema are what the collector prints, and say of files what it says: whatever
// stands in configs/ is good to both, and each bad file of the tables below is bad to both. ajv is the other
// judge.
//   node --test tests/schema/        (BUILD: where the programs are)

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { after, before, test } from 'node:test';

import Ajv from 'ajv';

const root = resolve(import.meta.dirname, '../..');
const collector = resolve(process.env.BUILD ?? join(root, 'build'), 'prefix/bin/collector');
const names = ['plan', 'scenario', 'manifest', 'run', 'summary'];
const schemaText = (name) => readFileSync(join(root, `configs/schema/${name}.schema.json`), 'utf8');
const ajv = new Ajv({ allowUnionTypes: true, strictTuples: false });
const validate = Object.fromEntries(names.map((name) => [name, ajv.compile(JSON.parse(schemaText(name)))]));

const filesOf = (part) => readdirSync(join(root, part)).filter((file) => file.endsWith('.json')).map((file) => join(root, part, file));

let folder;

before(() => {
  folder = mkdtempSync(join(tmpdir(), 'turnmeter-schema-'));
  symlinkSync(join(root, 'configs/contenders'), join(folder, 'contenders'));
  mkdirSync(join(folder, 'scenarios'));
  for (const file of ['configs/scenarios', 'tests/vm/scenarios'].flatMap(filesOf)) symlinkSync(file, join(folder, 'scenarios', basename(file)));
});
after(() => rmSync(folder, { recursive: true, force: true }));

const read = (file) => JSON.parse(readFileSync(file, 'utf8'));

/** What `collector check` says of a value in a file of this name: {status, stderr}. */
function check(value, name) {
  const file = join(folder, name);
  writeFileSync(file, typeof value === 'string' ? value : JSON.stringify(value));
  const { status, stderr } = spawnSync(collector, ['check', file], { encoding: 'utf8' });
  return { status, stderr };
}

function bothAccept(kind, value, name) {
  const { status, stderr } = check(value, name);
  assert.equal(status, 0, stderr);
  assert.ok(validate[kind](value), `${kind} ${name}: ${ajv.errorsText(validate[kind].errors)}`);
}

function bothRefuse(kind, what, value, name) {
  const { status, stderr } = check(value, name);
  assert.equal(status, 2, `collector takes: ${what}`);
  assert.equal(stderr.trimEnd().split('\n').length, 1, stderr);
  assert.equal(validate[kind](value), false, `ajv takes: ${what}`);
}

for (const name of names)
  test(`configs/schema/${name}.schema.json is what the collector prints`, () => {
    assert.equal(execFileSync(collector, ['schema', name], { encoding: 'utf8' }), schemaText(name), 'make schemas writes them');
  });

for (const [kind, parts] of [
  ['plan', ['configs', 'tests/vm/plans']],
  ['manifest', ['configs/contenders', 'tests/wrong-agents/contenders', 'examples/python-agent']],
  ['scenario', ['configs/scenarios', 'tests/vm/scenarios', 'tests/wrong-agents/scenarios']],
])
  for (const file of parts.flatMap(filesOf))
    test(`${file.slice(root.length + 1)} is a ${kind} to both`, () => {
      bothAccept(kind, read(file), basename(file));
      bothAccept(kind, { ...read(file), $schema: 'x' }, basename(file));
    });

// A file with one thing changed: [what, change].
const del = (object, name) => void delete object[name];
const tables = {
  plan: {
    base: () => ({
      ...read(join(root, 'configs/smoke.json')),
      $schema: 'x',
      hypotheses: [{ statement: 's', figure: 'startup_ms', cells: { left: 'c', right: 'node', scenario: 'smoke', sessions: 1 }, relation: '<', threshold: 1 }],
    }),
    name: 'p.json',
    rows: [
      ['a field that there is none of', (p) => (p.speed = 1)],
      ['no name', (p) => del(p, 'name')],
      ['a name in capitals', (p) => (p.name = 'Smoke')],
      ['a name that begins with -', (p) => (p.name = '-x')],
      ['a name of 64', (p) => (p.name = 'x'.repeat(64))],
      ['a name that is a number', (p) => (p.name = 1)],
      ['a description that is too long', (p) => (p.description = 'x'.repeat(4097))],
      ['no contenders', (p) => (p.contenders = [])],
      ['contenders that are a text', (p) => (p.contenders = 'c')],
      ['a contender that is a number', (p) => (p.contenders = [1])],
      ['a contender that is empty', (p) => (p.contenders = [''])],
      ['a contender twice', (p) => (p.contenders = ['c', 'c'])],
      ['too many contenders', (p) => (p.contenders = Array.from({ length: 65 }, (_, i) => `c${i}`))],
      ['0 sessions', (p) => (p.sessions = [0])],
      ['too many sessions', (p) => (p.sessions = [10001])],
      ['half a session', (p) => (p.sessions = [1.5])],
      ['sessions twice', (p) => (p.sessions = [3, 3])],
      ['no scenarios', (p) => del(p, 'scenarios')],
      ['scenarios null', (p) => (p.scenarios = null)],
      ['0 repetitions', (p) => (p.repetitions = 0)],
      ['1001 repetitions', (p) => (p.repetitions = 1001)],
      ['repetitions as text', (p) => (p.repetitions = '3')],
      ['no seed', (p) => del(p, 'seed')],
      ['a seed below 0', (p) => (p.seed = -1)],
      ['a limit as text', (p) => (p.limits.memory_bytes = '1g')],
      ['a limit of 1 byte', (p) => (p.limits.memory_bytes = 1)],
      ['a limit that there is none of', (p) => (p.limits.swap = 1)],
      ['limits that are a list', (p) => (p.limits = [])],
      ['a quota of 0', (p) => (p.limits.cpu_quota = 0)],
      ['a placement that there is none of', (p) => (p.placement = 'apart')],
      ['an empty placement', (p) => (p.placement = '')],
      ['a track that there is none of', (p) => (p.track = 'fast')],
      ['no time limit', (p) => del(p, 'run_timeout_s')],
      ['a time limit of two days', (p) => (p.run_timeout_s = 172800)],
      ['a bound that there is none of', (p) => (p.bounds.noise = 1)],
      ['a bound of 0', (p) => (p.bounds.late_self_p99_us = 0)],
      ['a bound above 100%', (p) => (p.bounds.steal_percent = 101)],
      ['a report that is a number', (p) => (p.agent = { report: 1 })],
      ['hypotheses that are no list', (p) => (p.hypotheses = {})],
      ['a hypothesis without figure', (p) => del(p.hypotheses[0], 'figure')],
      ['a hypothesis of a figure that there is none of', (p) => (p.hypotheses[0].figure = 'overhead_ms')],
      ['a relation that there is none of', (p) => (p.hypotheses[0].relation = '==')],
      ['a threshold as text', (p) => (p.hypotheses[0].threshold = '1')],
      ['a hypothesis about no cells', (p) => del(p.hypotheses[0], 'cells')],
      ['cells without sessions', (p) => del(p.hypotheses[0].cells, 'sessions')],
      ['the hash of a resolved plan', (p) => (p.sha256 = 'a'.repeat(64))],
    ],
  },
  scenario: {
    base: () => ({ ...read(join(root, 'configs/scenarios/smoke.json')), $schema: 'x' }),
    name: 'smoke.json',
    rows: [
      ['a field that there is none of', (s) => (s.model = 'x')],
      ['no description', (s) => del(s, 'description')],
      ['an empty task', (s) => (s.task = '')],
      ['a name in capitals', (s) => (s.name = 'SMOKE')],
      ['0 turns', (s) => (s.turns = 0)],
      ['a prompt of no bytes', (s) => (s.system_prompt_bytes = 0)],
      ['a prompt of 2 MiB', (s) => (s.system_prompt_bytes = 2 << 20)],
      ['a timing of both kinds', (s) => (s.ttft_ms = { constant: 1, uniform: 1, spread: 0 })],
      ['a timing without spread', (s) => (s.ttft_ms = { uniform: 1 })],
      ['a timing of nothing', (s) => (s.ttft_ms = {})],
      ['a timing as number', (s) => (s.chunk_interval_ms = 5)],
      ['a negative timing', (s) => (s.chunk_interval_ms = { constant: -1 })],
      ['a spread above 1', (s) => (s.chunk_interval_ms = { uniform: 1, spread: 2 })],
      ['a spread of the first turns as text', (s) => (s.spread_first_ms = '1')],
      ['no chunks', (s) => (s.chunks = 0)],
      ['a range without max', (s) => del(s.chunk_bytes, 'max')],
      ['a range with a step', (s) => (s.chunk_bytes.step = 1)],
      ['chunks of no bytes', (s) => (s.chunk_bytes.min = 0)],
      ['turns without tools', (s) => del(s, 'tools')],
      ['turns with tools null', (s) => (s.tools = null)],
      ['tools of a kind that there is none of', (s) => (s.tools.kind = 'curl')],
      ['no calls a turn', (s) => (s.tools.calls.min = 0)],
      ['17 calls a turn', (s) => (s.tools.calls.max = 17)],
      ['tmtool without sleep', (s) => del(s.tools, 'sleep_ms')],
      ['bin with sleep', (s) => (s.tools = { ...s.tools, kind: 'bin', output_bytes: { min: 64, max: 100 } })],
      ['bin of little output', (s) => (s.tools = { kind: 'bin', calls: s.tools.calls, output_bytes: { min: 1, max: 100 } })],
      ['output of 2 MiB', (s) => (s.tools.output_bytes.max = 2 << 20)],
    ],
  },
  manifest: {
    base: () => ({ ...read(join(root, 'configs/contenders/node.json')), $schema: 'x' }),
    name: 'm.json',
    rows: [
      ['a field that there is none of', (m) => (m.cmd = ['/x'])],
      ['no name', (m) => del(m, 'name')],
      ['a name with a blank', (m) => (m.name = 'a b')],
      ['an empty title', (m) => (m.title = '')],
      ['no contract', (m) => del(m, 'contract')],
      ['a contract to come', (m) => (m.contract = 2)],
      ['an empty command', (m) => (m.command = [])],
      ['a command as text', (m) => (m.command = '/bin/agent')],
      ['a program from PATH', (m) => (m.command = ['node', 'agent.mjs'])],
      ['an empty argument', (m) => (m.command = ['/bin/agent', ''])],
      ['an argument that is a number', (m) => (m.command = ['/bin/agent', 1])],
      ['a version by PATH', (m) => (m.version = ['node', '--version'])],
      ['a variable that is a number', (m) => (m.environment = { A: 1 })],
      ['a variable of the contract', (m) => (m.environment = { OPENAI_MODEL: 'x' })],
      ['another variable of the contract', (m) => (m.environment = { AGENT_SESSIONS: '1' })],
      ['a name that is no variable', (m) => (m.environment = { '1A': 'x' })],
      ['a name with a blank that is no variable', (m) => (m.environment = { 'A B': 'x' })],
      ['a track that there is none of', (m) => (m.tracks = { fast: { environment: {} } })],
      ['a track that is a list', (m) => (m.tracks = { equalised: [] })],
      ['a track without environment', (m) => (m.tracks = { equalised: {} })],
      ['a variable of the contract in a track', (m) => (m.tracks = { equalised: { environment: { AGENT_REPORT: '1' } } })],
      ['a file to ship without its place', (m) => (m.ship = ['agent.mjs'])],
      ['an image with a blank', (m) => (m.image = 'my image')],
      ['an image in capitals', (m) => (m.image = 'MyImage')],
      ['an image with an empty tag', (m) => (m.image = 'image:')],
      ['an image that is an option', (m) => (m.image = '--privileged')],
      ['an image of a short digest', (m) => (m.image = 'image@sha256:abc')],
      ['a yardstick as text', (m) => (m.yardstick = 'yes')],
    ],
  },
};

for (const [kind, { base, name, rows }] of Object.entries(tables)) {
  test(`the ${kind} that bad ones are made of is good`, () => bothAccept(kind, base(), name));
  for (const [what, change] of rows)
    test(`a bad ${kind}: ${what}`, () => {
      const value = base();
      change(value);
      bothRefuse(kind, what, value, name);
    });
}

test('images that there may be', () => {
  for (const image of ['a', 'turnmeter-agent-c', 'a/b_c:1.0', 'host:5000/a/b:latest', 'ghcr.io/o/n@sha256:' + '0'.repeat(64)])
    bothAccept('manifest', { ...tables.manifest.base(), image }, 'm.json');
});

test('tools of kind bin', () => {
  const scenario = tables.scenario.base();
  scenario.tools = { kind: 'bin', calls: scenario.tools.calls, output_bytes: { min: 64, max: 100 } };
  bothAccept('scenario', scenario, 'smoke.json');
});

// ---- results, made here by the collector of the fixture's records

function results() {
  const copy = join(folder, 'results');
  cpSync(join(root, 'tests/fixtures/results/mixed'), copy, { recursive: true });
  execFileSync(collector, ['report', copy, '--quiet']);
  const runs = readFileSync(join(copy, 'runs.jsonl'), 'utf8').split('\n').slice(0, -1);
  return { runs: runs.map((line) => JSON.parse(line)), summary: read(join(copy, 'summary.json')) };
}

test('records and summary of a results folder are good to both, and bad ones bad', () => {
  const { runs, summary } = results();
  assert.ok(runs.length > 10);
  for (const run of runs) assert.ok(validate.run(run), ajv.errorsText(validate.run.errors));
  assert.equal(check(runs.map((run) => `${JSON.stringify(run)}\n`).join(''), 'r.jsonl').status, 0);
  assert.equal(check('', 'r.jsonl').status, 2);
  bothAccept('summary', summary, 's.json');

  for (const [what, change] of [
    ['no outcome', (r) => del(r, 'outcome')],
    ['an outcome that there is none of', (r) => (r.outcome = 'fine')],
    ['run 0', (r) => (r.run = 0)],
    ['a schema to come', (r) => (r.schema = 2)],
    ['a hash that is none', (r) => (r.plan_sha256 = 'abc')],
    ['valid as text', (r) => (r.valid = 'yes')],
    ['a startup as text', (r) => (r.startup_ms = '9 ms')],
    ['an overhead that is one number', (r) => (r.overhead_ms = 1.5)],
    ['a distribution of nothing', (r) => (r.turn_gap_ms = { p50: 1, n: 0 })],
    ['a percentile as text', (r) => (r.turn_gap_ms = { p50: '1', n: 3 })],
    ['a part of memory as text', (r) => (r.memory_at_peak = { anon: 'x' })],
    ['a reason that is a number', (r) => (r.invalid_reasons = [1])],
  ]) {
    const run = structuredClone(runs[0]);
    change(run);
    const { status } = check(`${JSON.stringify(run)}\n`, 'r.jsonl');
    assert.equal(status, 2, `collector takes: ${what}`);
    assert.equal(validate.run(run), false, `ajv takes: ${what}`);
  }
  for (const [what, change] of [
    ['no cells', (s) => (s.cells = {})],
    ['no warnings', (s) => del(s, 'warnings')],
    ['a cell without contender', (s) => del(s.cells[0], 'contender')],
    ['a cell that is a number', (s) => (s.cells[0] = 1)],
    ['a figure that there is none of', (s) => (s.cells[0].figures.speed = { n: 0, unit: 'x' })],
    ['a median as text', (s) => (Object.values(s.cells[0].figures)[0].median = '1')],
    ['a figure without n', (s) => del(Object.values(s.cells[0].figures)[0], 'n')],
    ['a ratio to the worst', (s) => (s.ratios[0].kind = 'worst')],
    ['0 runs', (s) => (s.runs = 0)],
    ['an exclusion without reasons', (s) => (s.excluded = [{ run: 1, block: 1, contender: 'c', sessions: 1, scenario: 'x', outcome: 'ok' }])],
    ['a failure without detail', (s) => (s.cells[0].failures = [{ run: 1, outcome: 'oom' }])],
  ]) {
    const bad = structuredClone(summary);
    change(bad);
    bothRefuse('summary', what, bad, 's.json');
  }
});
