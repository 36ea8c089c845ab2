// Reading the summary that the page carries: cells, figures, what is best, and numbers in words.
'use strict';

const summary = JSON.parse(document.getElementById('turnmeter-data').textContent);

// Outside text as it may be shown and saved: nothing that moves a cursor or turns the direction of text.
function clean(text) {
	return String(text ?? '')
		.replace(/[\t\n\r]/g, ' ')
		.replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, '?');
}

// ---- contenders

const planned = new Map(
	(summary.plan.contenders ?? []).map((item, place) => [
		item.name,
		{ place, title: clean(item.title), item },
	]),
);

const contenders = [...new Set(summary.cells.map((cell) => cell.contender))].sort(
	(a, b) => (planned.get(a)?.place ?? Infinity) - (planned.get(b)?.place ?? Infinity),
);

function titleOf(contender) {
	return planned.get(contender)?.title || clean(contender);
}

// No contender, as its manifest says: it is never the best, and the others may be read as multiples of it.
function isYardstick(contender) {
	return planned.get(contender)?.item.yardstick === true;
}

const COLOURS = 8;
// Plot's; its triangle2 points up as triangle does
const SYMBOLS = ['circle', 'square', 'triangle', 'diamond', 'star'];
const styles = new Map();
for (const name of contenders) {
	const place = [...styles.values()].filter((style) => !style.yardstick).length;
	styles.set(
		name,
		isYardstick(name)
			? { yardstick: true, colour: 'var(--s8)', symbol: 'diamond2' }
			: // of one colour, eight contenders on, the shape is another
				{
					colour: `var(--s${place % COLOURS})`,
					symbol: SYMBOLS[(place + Math.floor(place / COLOURS)) % SYMBOLS.length],
				},
	);
}

// ---- settings: what must be alike for a comparison

const MIB = 1 << 20;

function conditionsOf(setting) {
	const limits = setting.limits ?? {};
	const words = [
		limits.memory_bytes > 0 ? `${limits.memory_bytes / MIB} MiB` : 'no memory limit',
		...(limits.cpu_quota ? [`${limits.cpu_quota} CPUs by quota`] : []),
		setting.placement,
		setting.mode,
		`cgroup ${setting.cgroup_backend}`,
		...(setting.cold ? ['cold'] : []),
		...(setting.timed ? [] : ['emulated: no times']),
	];
	for (const member of ['machine_id', 'suite_version']) {
		if (summary.settings.some((other) => other[member] !== setting[member])) words.push(setting[member]);
	}
	return words.map(clean).join(' · ');
}

const settings = summary.settings.map((setting, number) => ({
	number,
	scenario: setting.scenario,
	track: setting.track,
	conditions: conditionsOf(setting),
	headline: setting.suite_tool ? 'overhead_ms' : 'turn_gap_ms',
	memory: setting.cold ? 'memory_peak_cold_bytes' : 'memory_peak_bytes',
	cells: summary.cells.filter((cell) => cell.setting === number),
}));

// ---- figures

// As people are shown them.
const UNITS = {
	ms: { shown: 'ms', size: 1 },
	usec: { shown: 'ms', size: 1000 },
	bytes: { shown: 'MiB', size: MIB },
	'per GiB': { shown: 'per GiB', size: 1 },
	'per core': { shown: 'per core', size: 1 },
};

function unitOf(unit) {
	return UNITS[unit] ?? { shown: '', size: 1 };
}

const THOUSANDS = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });

// Three significant digits, never an exponent.
function shown(value) {
	const size = Math.abs(value);
	if (size >= 99.95) return size >= 9999.5 ? THOUSANDS.format(value) : value.toFixed(0);
	if (size === 0) return '0';
	let decimals = Math.min(2 - Math.floor(Math.log10(size)), 6);
	// 9.996 rounds to 10.0, which needs a decimal less
	if (decimals > 0 && Number(size.toFixed(decimals)) >= 10 ** (3 - decimals)) decimals--;
	return value.toFixed(decimals);
}

// A high percentile is that of all turns of the cell together; everything else the median over runs.
function isPooled(key) {
	return /\.p99/.test(key);
}

function figureOf(cell, key) {
	return cell.figures[key] ?? { median: null, n: 0, missing: 'not in this summary' };
}

function valueOf(cell, key) {
	const figure = figureOf(cell, key);
	return (isPooled(key) ? figure.pooled : figure.median) ?? null;
}

// A peak at the memory limit may have wanted to be higher.
function boundOf(cell, key) {
	if (key === 'sessions_per_gib')
		return figureOf(cell, 'memory_peak_bytes').at_least || figureOf(cell, 'memory_peak_cold_bytes').at_least
			? '≤ '
			: '';
	return figureOf(cell, key).at_least ? '≥ ' : '';
}

function shownFigure(cell, key, value = valueOf(cell, key)) {
	const figure = figureOf(cell, key);
	if (value === null) return '–';
	return boundOf(cell, key) + shown(value / unitOf(figure.unit).size);
}

// [a, b] is an interval, a–b minimum and maximum.
function shownInterval(from, size = 1) {
	if (from.lo === null || from.lo === undefined || from.n < 2) return '';
	const lo = shown(from.lo / size);
	const hi = shown(from.hi / size);
	return from.confidence ? `[${lo}, ${hi}]` : `${lo}–${hi}`;
}

function shownFigureInterval(cell, key) {
	const figure = figureOf(cell, key);
	return isPooled(key) ? '' : shownInterval(figure, unitOf(figure.unit).size);
}

// ---- comparing

const MORE_IS_BETTER = new Set(['sessions_per_gib', 'sessions_per_core']);

// Of cells that are alike but for the contender; null where none has the figure.
function bestOf(group, key) {
	let best = null;
	for (const cell of group) {
		const value = valueOf(cell, key);
		if (value === null || isYardstick(cell.contender)) continue;
		const ahead = best === null ? 1 : valueOf(best, key) - value;
		if ((MORE_IS_BETTER.has(key) ? -ahead : ahead) > 0 || best === null) best = cell;
	}
	return best;
}

const computed = new Map();

// cell ÷ other, as the summary has it or, of pairs that are not in it, computed here.
function ratioBetween(cell, other, key) {
	for (const place of Object.values(figureOf(cell, key).ratios ?? {})) {
		const ratio = summary.ratios[place];
		if (ratio.against === other.contender) return ratio;
	}
	const name = `${key}\n${summary.cells.indexOf(cell)}\n${summary.cells.indexOf(other)}`;
	let ratio = computed.get(name);
	if (!ratio) {
		const known = figureOf(cell, key).median !== null && figureOf(other, key).median !== null;
		ratio = known ? ratioOf(cell, other, key) : { missing: 'one side has no estimate' };
		computed.set(name, ratio);
	}
	return ratio;
}

function ratioToYardstick(cell, key) {
	const place = figureOf(cell, key).ratios?.yardstick;
	return place === undefined ? null : summary.ratios[place];
}

function shownRatio(ratio) {
	return typeof ratio?.ratio === 'number' ? `×${shown(ratio.ratio)}` : '';
}

// How the runs that did not end well ended: "3 of 6 runs: oom, wrong".
function failedWords(cell) {
	if (!cell.attempted) return 'no valid run';
	const outcomes = Object.keys(cell.outcomes).filter((name) => name !== 'ok');
	return `${cell.attempted - cell.completed} of ${cell.attempted} runs: ${outcomes.join(', ')}`;
}

function whyMissing(cell, key) {
	const failed = cell.completed !== cell.attempted || !cell.attempted;
	const reason = clean(figureOf(cell, key).missing);
	return failed ? failedWords(cell) : reason || 'not known';
}

// Of a cell's planned runs, those that never were valid.
function withoutRun(cell) {
	return Math.max((summary.plan.repetitions ?? 0) - cell.attempted, 0);
}

function plural(count, word) {
	return `${THOUSANDS.format(count)} ${word}${count === 1 ? '' : 's'}`;
}
