// The parts of the page in words and tables.
'use strict';

const OPEN_ROWS_MAX = 12;

function hypotheses() {
	const list = summary.hypotheses ?? [];
	if (!list.length) return el('p', { class: 'soft' }, 'The plan makes none.');
	const size = (item) => unitOf(item.unit).size;
	const columns = [
		{
			title: 'verdict',
			value: (item) => item.verdict,
			mark: (item) => ({ supported: 'good', rejected: 'bad' })[item.verdict],
		},
		{ title: 'statement', value: (item) => item.statement, wrap: true },
		{ title: 'figure', value: (item) => item.figure },
		{
			title: 'claim',
			value: (item) =>
				`${{ '<=': '≤', '>=': '≥' }[item.relation] ?? item.relation} ${shown(item.threshold / size(item))} ${unitOf(item.unit).shown}`,
		},
		{
			title: 'value',
			value: (item) => item.value,
			shown: (item) => (typeof item.value === 'number' ? shown(item.value / size(item)) : ''),
			number: true,
		},
		{
			title: 'interval',
			value: (item) => item.lo,
			shown: (item) => shownInterval(item, size(item)) || item.reason,
			wrap: true,
		},
		{ title: 'blocks', value: (item) => item.n, number: true },
	];
	return [
		el(
			'p',
			{ class: 'soft' },
			`Written into the plan before its first run; decided by the interval at ${(100 * list[0].confidence).toFixed(2)}% each.`,
		),
		table(columns, list, 'Hypotheses, table'),
	];
}

function outcomes() {
	const cells = selectedCells();
	const failures = cells.flatMap((cell) => cell.failures.map((failure) => ({ cell, ...failure })));
	const columns = [
		{ title: 'contender', value: (cell) => cell.contender },
		{ title: 'sessions', value: (cell) => cell.sessions, number: true },
		...outcomeColumns(),
		{
			title: 'outcomes',
			value: (cell) =>
				Object.entries(cell.outcomes)
					.map(([name, count]) => `${name} ${count}`)
					.join(', ') || 'no valid run',
		},
	];
	const failed = [
		{ title: 'run', value: (row) => row.run, number: true },
		{ title: 'contender', value: (row) => row.cell.contender },
		{ title: 'sessions', value: (row) => row.cell.sessions, number: true },
		{ title: 'outcome', value: (row) => row.outcome, mark: () => 'bad' },
		{ title: 'what happened', value: (row) => row.detail, wrap: true },
	];
	const attempted = cells.reduce((sum, cell) => sum + cell.attempted, 0);
	const without = cells.reduce((sum, cell) => sum + withoutRun(cell), 0);
	const completed = cells.reduce((sum, cell) => sum + cell.completed, 0);
	return [
		el(
			'p',
			null,
			el(
				'strong',
				{ class: completed < attempted || !attempted ? 'bad' : 'good' },
				`${THOUSANDS.format(completed)} of ${THOUSANDS.format(attempted)}`,
			),
			' attempted runs ended well.',
			without
				? ` The plan has ${THOUSANDS.format(attempted + without)}: of ${THOUSANDS.format(without)} there is no valid run.`
				: null,
		),
		el(
			'p',
			{ class: 'soft' },
			'What a contender causes is a result; a cell with more than 10% failed runs has no figures, since its best runs alone would flatter it.',
		),
		failures.length
			? later(
					`Runs that did not end well (${failures.length})`,
					() => table(failed, failures, 'Runs that did not end well, table'),
					'failures',
					failures.length <= OPEN_ROWS_MAX,
				)
			: null,
		later(
			'Completed of attempted, by cell',
			() => table(columns, cells, 'Completed of attempted, table'),
			'table-outcomes',
			cells.length <= OPEN_ROWS_MAX,
		),
	];
}

// How often each reason was given: "late_self 17, refaults 2".
function reasonsOf(runs) {
	const counts = new Map();
	for (const reason of runs.flatMap((run) => run.reasons ?? [])) {
		const name = clean(reason).split(':')[0];
		counts.set(name, (counts.get(name) ?? 0) + 1);
	}
	return [...counts]
		.sort((a, b) => b[1] - a[1])
		.map(([name, count]) => `${name} ${THOUSANDS.format(count)}`)
		.join(', ');
}

function selectedExclusions() {
	return (summary.excluded ?? []).filter(
		(run) =>
			state.contenders.has(run.contender) &&
			state.sessions.has(run.sessions) &&
			run.scenario === state.setting.scenario,
	);
}

function excluded() {
	const list = selectedExclusions();
	if (!list.length)
		return el(
			'p',
			{ class: 'soft' },
			'None of those selected: no run was spoilt by the instrument or the machine.',
		);
	const columns = [
		{ title: 'run', value: (run) => run.run, number: true },
		{ title: 'contender', value: (run) => run.contender },
		{ title: 'sessions', value: (run) => run.sessions, number: true },
		{ title: 'outcome', value: (run) => run.outcome },
		{ title: 'why it does not count', value: (run) => (run.reasons ?? []).join('; '), wrap: true },
	];
	return [
		el(
			'p',
			{ class: 'soft' },
			'Excluded for faults of the instrument or the machine, never for what a contender did; run again at the end of the plan.',
		),
		later(
			`${plural(list.length, 'run')} (${reasonsOf(list)})`,
			() => table(columns, list, 'Runs that do not count, table'),
			'table-excluded',
			list.length <= OPEN_ROWS_MAX,
		),
	];
}

// A single value in words; bytes as people read them beside the exact number.
function factWords(name, value, nothing) {
	if (value === null || value === undefined) return nothing;
	if (typeof value !== 'number') return typeof value === 'string' ? value : JSON.stringify(value);
	const bytes = /(_bytes|(un|com)pressed)$/.test(name) && value >= MIB / 10;
	return bytes ? `${value} (${shown(value / MIB)} MiB)` : String(value);
}

// Any JSON value as lines of a definition list, with the path to it; `nothing` is what null means there.
function facts(value, nothing, path = '', depth = 0) {
	if (value && typeof value === 'object' && !Array.isArray(value) && depth < 6) {
		const why = (name) => value[`${name}_missing`];
		return Object.entries(value)
			.filter(([name]) => !(name.endsWith('_missing') && value[name.slice(0, -'_missing'.length)] === null))
			.flatMap(([name, member]) =>
				facts(
					member === null && why(name) ? `not known: ${why(name)}` : member,
					nothing,
					path ? `${path}.${name}` : name,
					depth + 1,
				),
			);
	}
	return [el('dt', null, clean(path)), el('dd', null, clean(factWords(path, value, nothing)))];
}

function factList(value, nothing = 'not known') {
	return el('dl', { class: 'facts' }, facts(value, nothing));
}

// "8 KiB", "4–8 KiB"; of a number or {min, max}.
function rangeWords(range, unit, size = 1) {
	const { min, max } = typeof range === 'number' ? { min: range, max: range } : range;
	return `${shownPlain(min / size)}${max === min ? '' : `–${shownPlain(max / size)}`} ${unit}`;
}

function shownPlain(value) {
	return String(Number(value.toPrecision(3)));
}

// What a session does in a scenario, as far as the summary tells.
function scenarioWords({ turns, system_prompt_bytes, ttft_ms, chunk_interval_ms, chunks, tools }) {
	const timing = (value) =>
		`${shownPlain(value.uniform ?? value.constant)} ms${value.spread ? ` ±${shownPlain(100 * value.spread)}%` : ''}`;
	const words = [];
	if (turns) words.push(`${plural(turns, 'turn')} a session`);
	if (ttft_ms && chunk_interval_ms && chunks)
		words.push(
			`the first token after ${timing(ttft_ms)}, then ${plural(chunks - 1, 'send')}, one every ${timing(chunk_interval_ms)}`,
		);
	if (system_prompt_bytes) words.push(`a system prompt of ${rangeWords(system_prompt_bytes, 'KiB', 1024)}`);
	if (tools && turns > 1) {
		const own = tools.kind === 'tmtool';
		words.push(
			`${rangeWords(tools.calls, tools.calls.max === 1 ? 'tool call' : 'tool calls')} a turn but the last` +
				`${own && tools.sleep_ms ? ` (the suite’s tool, ${rangeWords(tools.sleep_ms, 'ms')})` : own ? '' : ' (the system’s own programs)'}`,
			`results of ${rangeWords(tools.output_bytes, 'KiB', 1024)}`,
		);
	}
	return words.join('; ');
}

function scenarioOf(name) {
	return (summary.plan.scenarios ?? []).find((scenario) => scenario.name === name) ?? {};
}

// What a contender says of its CPUs and memory where it was asked, or why it does not.
function believed(name) {
	const known = summary.environment?.contenders?.[name] ?? {};
	return known.beliefs ?? known.beliefs_missing ?? null;
}

function contendersTable() {
	const machine = summary.environment?.contenders ?? {};
	const names = contenders.filter((name) => state.contenders.has(name));
	const known = (name) => machine[name] ?? {};
	const limits = (name) => known(name).limits ?? {};
	const columns = [
		{ title: 'contender', value: (name) => name },
		{ title: 'title', value: titleOf },
		{ title: 'version', value: (name) => known(name).version },
		{
			title: 'files MiB',
			value: (name) => known(name).artifact_bytes,
			shown: (name) =>
				typeof known(name).artifact_bytes === 'number' ? shown(known(name).artifact_bytes / MIB) : '',
			number: true,
		},
		{
			title: 'memory limit MiB',
			value: (name) => limits(name).memory_bytes,
			shown: (name) =>
				limits(name).memory_bytes > 0 ? THOUSANDS.format(limits(name).memory_bytes / MIB) : '',
			number: true,
		},
		{ title: 'CPUs', value: (name) => known(name).cpus ?? limits(name).cpus },
		{
			title: 'executable',
			value: (name) => known(name).executable_sha256,
			shown: (name) => String(known(name).executable_sha256 ?? '').slice(0, 12),
		},
	];
	const beliefs = names.filter(believed);
	return [
		el('h3', null, 'Contenders, under these limits'),
		table(columns, names, 'Contenders, table'),
		beliefs.length ? el('h3', null, 'What they believe of their CPUs and memory') : null,
		beliefs.length ? factList(Object.fromEntries(beliefs.map((name) => [name, believed(name)])), 'it has no opinion') : null,
	];
}

function environment() {
	const { contenders: shownAbove, doctor, resumed, ...machine } = summary.environment ?? {};
	const { limits, bounds, run_timeout_s, repetitions, seed } = summary.plan;
	return [
		contendersTable(),
		el('h3', null, 'Limits and bounds of the plan'),
		factList({ limits, bounds, run_timeout_s, repetitions, seed }, 'none'),
		el('h3', null, 'Scenarios'),
		factList(
			Object.fromEntries(
				(summary.plan.scenarios ?? []).map((scenario) => [
					scenario.name,
					[scenario.description, scenarioWords(scenario)].filter(Boolean).join('. '),
				]),
			),
		),
		doctorTables(),
		el('h3', null, 'Environment'),
		factList(machine),
	];
}

// What the page says without saying what it is.
const WORDS = {
	contender: 'one way of running the agent: a program, described by a manifest',
	session:
		'one conversation with the model; all sessions of a run go on at once in one contender, 100 of them are 100 conversations',
	turn: 'the whole history is sent, the answer is streamed back, its tools are run; with their results the next turn begins',
	'mock LLM': 'answers on an exact schedule and checks every history; its own time is no part of any figure',
	'run, cell, block':
		'a run is one fresh process; a cell is what is repeated: contender, sessions, scenario and conditions; a block has each cell once, in random order, and ratios are taken within blocks',
	'warm-up': 'a run that is thrown away, so that files are in the cache for those that count',
	'shipped, equalised':
		'tracks: runtimes with their defaults, and with documented knobs that make them alike; never mixed',
	'split, shared': 'split: mock and collector on CPUs of their own, the contender on the others; shared: all on all',
	'container, local': 'in a container each, or as processes without containers',
	'cgroup v1, v2': 'how the kernel counts memory; figures of the two differ and are never compared',
	floor: 'a yardstick where it ran: the same loop on raw sockets and nothing else; no contender',
	valid: 'neither instrument nor machine spoilt the run; what a contender does wrong is a result and counts',
};

function definitions() {
	return [
		el(
			'dl',
			{ class: 'facts words' },
			Object.entries(WORDS).flatMap(([word, meaning]) => [el('dt', null, word), el('dd', null, meaning)]),
		),
		el('h3', null, 'Figures'),
		el(
			'p',
			null,
			'A run is one fresh process in a fresh cgroup; figures are medians over runs. [a, b] is the exact order-statistic interval of the median, of ratios the exact signed-rank interval over blocks, at least 95% each; a–b are minimum and maximum, where there are fewer than 6 blocks. Percentiles interpolate linearly between samples; p99 needs 1,000 turns. A dash is a value that is not known, never zero. Contenders, track, scenario and sessions above select cells: their figures are those of summary.json; only the ratio to the best of those selected is computed by the page where the best of all is not among them, in the same way.',
		),
		el(
			'dl',
			{ class: 'facts' },
			Object.entries(summary.definitions ?? {}).flatMap(([name, { definition, unit }]) => [
				el('dt', null, el('code', null, clean(name))),
				el('dd', null, `${clean(definition)} (${clean(unit)})`),
			]),
		),
	];
}

// ---- the head, and what the doctor and the summary warn of

// Before the first run, and whenever the plan was gone on with: [{title, findings}].
function looksOfTheDoctor() {
	const list = (value) => (Array.isArray(value) ? value : []);
	const { doctor, resumed } = summary.environment ?? {};
	return [
		{ title: 'What the doctor found before the first run', findings: list(doctor) },
		...list(resumed).map(({ started_at, first_run, doctor: findings }) => ({
			title: `What the doctor found before run ${first_run}, when the plan was gone on with (${clean(started_at)})`,
			findings: list(findings),
		})),
	].filter(({ findings }) => findings.length);
}

function doctorTables() {
	const columns = [
		{ title: 'what', value: (finding) => finding.id },
		{
			title: 'status',
			value: (finding) => finding.status,
			mark: (finding) => (finding.status === 'ok' ? 'good' : 'bad'),
		},
		{ title: 'found', value: (finding) => finding.found, wrap: true },
	];
	return looksOfTheDoctor().flatMap(({ title, findings }, i) => [
		el('h3', null, title),
		table(columns, findings, i ? `Findings of the doctor, look ${i + 1}` : 'Findings of the doctor'),
	]);
}

function warnings() {
	const list = summary.warnings ?? [];
	if (!list.length) return null;
	const when = (run) => (run ? ` (when the plan was gone on with, before run ${run})` : '');
	return later(
		`${plural(list.length, 'warning')} of the doctor about this machine`,
		() =>
			el(
				'ul',
				null,
				list.map(({ id, found, first_run }) =>
					el('li', null, `${clean(id)}: ${clean(found)}${when(first_run)}`),
				),
			),
		'warnings',
	);
}

function head() {
	const machine = summary.environment?.machine ?? {};
	const notes = (summary.notes ?? []).map(clean);
	const facts = [
		`${plural(summary.runs, 'run')}, ${THOUSANDS.format(summary.warm_ups)} of them warm-ups, ${summary.excluded.length} excluded`,
		summary.started_at,
		machine.cpu_model,
		machine.kernel && `Linux ${machine.kernel}`,
	];
	return [
		summary.plan.description ? el('p', null, clean(summary.plan.description)) : null,
		el(
			'p',
			null,
			'Every contender runs the same agent loop against a mock LLM: send the conversation, read the streamed answer, run its tools, again. ',
			el('a', { href: '#definitions' }, 'What the words mean'),
		),
		el(
			'p',
			{ class: 'soft' },
			facts.filter(Boolean).map(clean).join(' · '),
			' · plan ',
			el('code', null, clean(summary.plan_sha256).slice(0, 12)),
		),
		notes.length
			? el(
					'ul',
					{ class: 'notes' },
					notes.map((note) => el('li', null, note)),
				)
			: null,
		warnings(),
	];
}
