// The page: what is selected, and its parts, made again whenever that changes.
'use strict';

const OPEN_ROWS_MAX = 12;

// What is selected at first: the most sessions that were measured, as shipped.
function richest() {
	const most = (setting) => setting.cells.reduce((max, cell) => Math.max(max, cell.sessions), 0) + (setting.track === 'shipped' ? 0.5 : 0);
	return settings.reduce((best, one) => (most(one) > most(best) ? one : best), settings[0]);
}

const state = {
	setting: richest(),
	contenders: new Set(contenders),
	sessions: new Set(summary.cells.map((cell) => cell.sessions)),
	at: null, // the number of sessions of the overview; null: the highest
	runs: false, // draw single runs
	order: null, // of the overview: a column's key; null: the first
};

// ---- what is selected

function selectedCells(setting = state.setting) {
	return setting.cells.filter((cell) => state.contenders.has(cell.contender) && state.sessions.has(cell.sessions));
}

function countsOf(cells) {
	return [...new Set(cells.map((cell) => cell.sessions))].sort((a, b) => a - b);
}

function atNow() {
	const counts = countsOf(selectedCells());
	return counts.includes(state.at) ? state.at : counts[counts.length - 1];
}

/*
 * Startup is of one session, and until the first answer all scenarios are alike: it is taken from the selected setting,
 * or else from another that differs in nothing but the scenario.
 */
function startupSetting() {
	const has = (setting) => setting.cells.some((cell) => figureOf(cell, 'startup_ms').median !== null);
	const { track, conditions } = state.setting;
	const alike = settings.filter((other) => other.track === track && other.conditions === conditions);
	return [state.setting, ...alike.filter((other) => other.scenario === 'one'), ...alike].find(has) ?? state.setting;
}

function startupCells() {
	return startupSetting().cells.filter((cell) => cell.sessions === 1 && state.contenders.has(cell.contender));
}

function whereStartup() {
	const from = startupSetting();
	return from === state.setting ? '' : `, measured in scenario ${clean(from.scenario)}`;
}

// ---- overview

function columnsOf({ headline, memory }) {
	const overhead = headline === 'overhead_ms';
	return [
		{
			key: `${headline}.p50`,
			title: overhead ? 'Overhead per turn' : 'Turn gap',
			words: overhead
				? 'median; what the agent adds between a response’s end and its next request, beyond what its tools need'
				: 'median; from a response’s end to the next request, tools included',
			lead: overhead ? 'adds the least to a turn' : 'has the shortest gap between turns',
		},
		{ key: `${headline}.p99`, title: overhead ? 'Overhead, p99' : 'Turn gap, p99', words: 'one turn in a hundred takes longer; all turns together' },
		{ key: memory, title: 'Memory peak', words: 'highest memory of the run’s cgroup, tools included', lead: 'needs the least memory' },
		{ key: 'sessions_per_gib', title: 'Sessions per GiB', words: 'sessions ÷ memory peak: more is better', bare: true },
		{ key: 'cpu_usec_per_turn', title: 'CPU per turn', words: 'CPU time of the run’s cgroup after startup, tools included', lead: 'needs the least CPU a turn' },
		{ key: 'sessions_per_core', title: 'Sessions per core', words: 'at this scenario’s pace, by CPU time: more is better', bare: true },
		{ key: 'startup_ms', title: 'Startup', words: `from just before exec to the first request, one session${whereStartup()}`, startup: true },
	];
}

// The rows of the overview: for each contender the cell that a column's figure is of.
function overviewOf() {
	const at = atNow();
	const here = selectedCells().filter((cell) => cell.sessions === at);
	const starts = startupCells();
	const columns = columnsOf(state.setting)
		.map((column) => {
			const group = column.startup ? starts : here;
			const values = group.map((cell) => valueOf(cell, column.key)).filter((value) => value !== null);
			return { ...column, group, best: bestOf(group, column.key), most: Math.max(...values), any: values.length > 0 };
		})
		.filter((column) => column.any);
	const names = contenders.filter((name) => [...here, ...starts].some((cell) => cell.contender === name));
	return { at, columns, rows: names.map((name) => ({ contender: name, cell: here.find((cell) => cell.contender === name) })) };
}

function cellIn(column, contender) {
	return column.group.find((cell) => cell.contender === contender);
}

function sorted(rows, column) {
	if (!column) return rows;
	const value = ({ contender }) => {
		const cell = cellIn(column, contender);
		const known = cell ? valueOf(cell, column.key) : null;
		return known === null ? Infinity : MORE_IS_BETTER.has(column.key) ? -known : known;
	};
	return [...rows].sort((a, b) => (value(a) === value(b) ? 0 : value(a) - value(b)));
}

// The contender next to the best if its ratio may be 1; null where the runs tell them apart.
function notToldApart(column) {
	const next = sorted(column.group.map(({ contender }) => ({ contender })), column).find(
		({ contender }) => contender !== column.best.contender && !isYardstick(contender) && valueOf(cellIn(column, contender), column.key) !== null,
	);
	if (!next) return null;
	const ratio = ratioBetween(cellIn(column, next.contender), column.best, column.key);
	return ratio.lo > 1 ? null : titleOf(next.contender);
}

// What somebody would tell who looked for ten seconds.
function leadOf({ at, columns }) {
	const parts = [`At ${plural(at, 'concurrent session')} `];
	let last = null;
	for (const column of columns.filter((one) => one.lead && one.best)) {
		const name = column.best.contender;
		if (last !== null) parts.push(', ');
		if (last !== name) parts.push(el('strong', null, titleOf(name)), ' ');
		const other = notToldApart(column);
		parts.push(`${column.lead} (${shownFigure(column.best, column.key)} ${unitOf(figureOf(column.best, column.key).unit).shown}`);
		parts.push(other ? `; these runs do not tell it from ${other})` : ')');
		last = name;
	}
	return el('p', { class: 'lead' }, ...parts, last === null ? 'no contender has figures.' : '.', tooFew(columns));
}

// Minimum and maximum of a few blocks say nothing of what the next block would be.
function tooFew(columns) {
	const ratios = columns.flatMap(({ bare, best, group, key }) => (bare || !best ? [] : group.filter((cell) => cell !== best && valueOf(cell, key) !== null).map((cell) => ratioBetween(cell, best, key))));
	const blocks = ratios.filter((ratio) => typeof ratio.ratio === 'number' && !ratio.confidence).map((ratio) => ratio.n);
	if (!blocks.length) return null;
	return el('small', { class: 'few' }, ` Of ${Math.min(...blocks)} block${Math.min(...blocks) === 1 ? '' : 's'}: too few for intervals, so what is close may be chance.`);
}

function swatch(contender) {
	const { colour, symbol } = styles.get(contender);
	const shapes = {
		circle: 'M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z',
		square: 'M-3.7 -3.7h7.4v7.4h-7.4z',
		triangle: 'M0 -4.6l4.8 8.2h-9.6z',
		diamond: 'M0 -5.6l3.6 5.6l-3.6 5.6l-3.6 -5.6z',
		triangle2: 'M0 4.6l4.8 -8.2h-9.6z',
		diamond2: 'M0 -5l5 5l-5 5l-5 -5z',
	};
	return svgEl('svg', { class: 'swatch', viewBox: '-13 -6 26 12', 'aria-hidden': 'true' }, svgEl('path', { d: 'M-12 0H12', stroke: colour, 'stroke-width': 2 }), svgEl('path', { d: shapes[symbol], fill: colour, stroke: 'var(--card)' }));
}

function overviewCell(column, contender) {
	const cell = cellIn(column, contender);
	const label = { 'data-label': column.title };
	if (!cell) return el('td', { ...label, class: 'n' }, el('span', { class: 'soft' }, '–'));
	const value = valueOf(cell, column.key);
	if (value === null) {
		const failed = cell.completed !== cell.attempted || !cell.attempted;
		return el('td', { ...label, class: 'n' }, el('span', { class: failed ? 'why bad' : 'why' }, whyMissing(cell, column.key)));
	}
	const best = cell === column.best;
	const ratio = best || column.bare || isYardstick(contender) ? null : ratioBetween(cell, column.best, column.key);
	const interval = ratio ? shownInterval(ratio) : '';
	const second = best ? ['best'] : isYardstick(contender) ? ['yardstick'] : [el('b', null, shownRatio(ratio)), '\u00a0', interval];
	const share = Math.max((100 * value) / column.most, 0.6).toFixed(2);
	return el(
		'td',
		{ ...label, class: best ? 'n best' : 'n', 'data-figure': column.key, 'data-value': value },
		el('span', { class: 'value' }, shownFigure(cell, column.key), el('small', null, ` ${column.bare ? '' : unitOf(figureOf(cell, column.key).unit).shown}`)),
		el('span', { class: 'times' }, second),
		svgEl('svg', { class: 'bar', viewBox: '0 0 100 4', preserveAspectRatio: 'none', 'aria-hidden': 'true' }, svgEl('rect', { width: share, height: 4, fill: styles.get(contender).colour })),
	);
}

function overview() {
	const view = overviewOf();
	const { at, columns } = view;
	const by = columns.find((column) => column.key === state.order) ?? columns[0];
	const counts = countsOf(selectedCells());
	const pick = el(
		'fieldset',
		{ class: 'pick' },
		el('legend', null, 'at'),
		counts.map((count) =>
			el(
				'label',
				null,
				el('input', { type: 'radio', name: 'at', value: count, checked: count === at, onchange: () => update({ at: count }, 'at') }),
				el('span', null, THOUSANDS.format(count)),
			),
		),
		el('span', { class: 'soft' }, at === 1 ? 'session' : 'concurrent sessions'),
	);
	const head = columns.map((column) =>
		el(
			'th',
			{ scope: 'col', class: 'n', 'aria-sort': column === by ? (MORE_IS_BETTER.has(column.key) ? 'descending' : 'ascending') : null },
			el('button', { type: 'button', title: `Best first by this figure. ${column.words}`, onclick: () => update({ order: column.key }, `sort-${column.key}`), id: `sort-${column.key}` }, column.title),
		),
	);
	const body = sorted(view.rows, by).map(({ contender, cell }) =>
		el(
			'tr',
			{ 'data-contender': clean(contender) },
			el(
				'th',
				{ scope: 'row' },
				swatch(contender),
				el('span', { class: 'name', title: clean(contender) }, titleOf(contender)),
				el('span', { class: cell && cell.completed < cell.attempted ? 'times bad' : 'times' }, cell ? `${cell.completed}/${cell.attempted} runs` : ''),
			),
			columns.map((column) => overviewCell(column, contender)),
		),
	);
	return [
		leadOf(view),
		pick,
		el(
			'div',
			{ class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'At a glance, table' },
			el('table', { class: 'overview' }, el('thead', null, el('tr', null, el('th', { scope: 'col' }, 'Contender'), head)), el('tbody', null, body)),
		),
		el(
			'p',
			{ class: 'note' },
			'Medians over runs; p99 of all turns together. × is the ratio to the best of those selected, within blocks: [a, b] its exact interval (at least 95%), a–b minimum and maximum where there are fewer than 6 blocks. Sessions per GiB and per core are what one GiB or one CPU would carry.',
		),
	];
}

// ---- figures: a chart, buttons and a table each

function picturesOf(pictures, abreast) {
	const told = el('p', { class: 'told', 'aria-live': 'polite' });
	for (const picture of pictures) walkable(picture, told);
	return el(
		'div',
		{ class: 'pictures', 'data-columns': abreast },
		pictures.map(({ svg, title }) => el('div', null, title ? el('h4', null, title) : null, svg)),
		told,
	);
}

/* pictures may hold null (nothing to draw); a figure without any is left out. */
function figure({ id, title, explained, wide, pictures, abreast = 1, legend, columns, rows, after }) {
	const drawn = pictures.filter(Boolean);
	if (!drawn.length) return null;
	const name = fileName(summary.plan.name, id);
	const button = (text, does) => el('button', { type: 'button', 'aria-label': `Save ${title} as ${text}`, onclick: does }, text);
	return el(
		'figure',
		{ id: `figure-${id}`, class: wide ? 'wide' : null },
		el(
			'div',
			{ class: 'top' },
			el('h3', null, title, el('small', null, explained)),
			el(
				'div',
				{ class: 'buttons', role: 'group', 'aria-label': `Save ${title}` },
				button('SVG', () => save(`${name}.svg`, 'image/svg+xml', svgOf(title, drawn, legend))),
				button('CSV', () => save(`${name}.csv`, 'text/csv', csvOf(columns, rows))),
				button('JSON', () => save(`${name}.json`, 'application/json', jsonOf(columns, rows))),
			),
		),
		legend ? el('ul', { class: 'legend' }, legend.map(({ label, colour }) => el('li', null, svgEl('svg', { class: 'key', viewBox: '0 0 11 11', 'aria-hidden': 'true' }, svgEl('rect', { width: 11, height: 11, rx: 2, fill: colour })), label))) : null,
		picturesOf(drawn, abreast),
		after ?? null,
		later('Table', () => table(columns, rows, `${title}, table`), `table-${id}`),
	);
}

const opened = new Set();

/* A part that is made when it is opened, and stays open when the page is made again. */
function later(title, make, id, open = false) {
	const part = el('details', { id, open: open || opened.has(id) }, el('summary', null, title));
	const fill = () => {
		if (part.childElementCount === 1) part.append(make());
	};
	if (part.open) fill();
	part.addEventListener('toggle', () => {
		if (part.open) fill();
		opened[part.open ? 'add' : 'delete'](id);
	});
	part.fill = fill;
	return part;
}

function cellColumns() {
	const { scenario, track } = state.setting;
	return [
		{ title: 'contender', value: (cell) => cell.contender },
		{ title: 'sessions', value: (cell) => cell.sessions, number: true },
		{ title: 'scenario', name: 'scenario', value: () => scenario, hidden: true },
		{ title: 'track', name: 'track', value: () => track, hidden: true },
	];
}

// The columns of a figure over cells: for the page those that people read, for files all.
function figureColumns(key, title, groupOf) {
	const number = true;
	const raw = (member) => (cell) => figureOf(cell, key)[member] ?? null;
	const group = (cell) => groupOf(cell);
	const best = (cell) => bestOf(group(cell), key);
	const ratio = (cell) => {
		const to = best(cell);
		return !to || to === cell || isYardstick(cell.contender) || valueOf(cell, key) === null ? null : ratioBetween(cell, to, key);
	};
	return [
		{ title, name: `${key} median`, value: raw('median'), shown: (cell) => shownFigure(cell, key, figureOf(cell, key).median ?? null), number },
		{ title: 'interval', name: `${key} lo`, value: raw('lo'), shown: (cell) => shownInterval(figureOf(cell, key), unitOf(figureOf(cell, key).unit).size), number },
		{ title: 'hi', name: `${key} hi`, value: raw('hi'), hidden: true },
		{ title: 'confidence', name: `${key} confidence`, value: raw('confidence'), hidden: true },
		{ title: 'unit', name: `${key} unit`, value: raw('unit'), hidden: true },
		{
			title: '× best',
			name: `${key} times best`,
			value: (cell) => (best(cell) === cell ? 1 : ratio(cell)?.ratio ?? null),
			shown: (cell) => (best(cell) === cell ? 'best' : shownRatio(ratio(cell))),
			number,
		},
		{ title: 'its interval', name: `${key} times best lo`, value: (cell) => ratio(cell)?.lo ?? null, shown: (cell) => (ratio(cell) ? shownInterval(ratio(cell)) : ''), number },
		{ title: '× hi', name: `${key} times best hi`, value: (cell) => ratio(cell)?.hi ?? null, hidden: true },
		{ title: 'runs', name: `${key} n`, value: raw('n'), number },
		{ title: 'values', name: `${key} values`, value: (cell) => (figureOf(cell, key).values ?? []).map((value) => value ?? '').join(' '), hidden: true },
	];
}

function outcomeColumns() {
	return [
		{ title: 'completed', value: (cell) => cell.completed, number: true, mark: (cell) => (cell.completed < cell.attempted ? 'bad' : null) },
		{ title: 'attempted', value: (cell) => cell.attempted, number: true },
	];
}

const runPoints = new WeakMap();

// The single runs of a cell's figure; made once, there may be ten thousand of them.
function runsOf(cell, key) {
	if (!state.runs) return [];
	const figure = figureOf(cell, key);
	const known = runPoints.get(figure);
	if (known) return known;
	const { size, shown: unit } = unitOf(figure.unit);
	const points = [];
	(figure.values ?? []).forEach((value, i) => {
		if (value === null) return;
		const flagged = figure.flagged?.includes(cell.runs[i]) ? ', outside Tukey’s fences' : '';
		points.push({
			contender: cell.contender,
			x: cell.sessions,
			y: value / size,
			words: `${titleOf(cell.contender)}, run ${cell.runs[i]}, block ${cell.blocks[i]}\n${shown(value / size)} ${unit}${flagged}`,
		});
	});
	runPoints.set(figure, points);
	return points;
}

function pointOf(cell, key, topKey) {
	const figure = figureOf(cell, key);
	const { size, shown: unit } = unitOf(figure.unit);
	const top = topKey ? valueOf(cell, topKey) : null;
	const interval = shownFigureInterval(cell, key);
	const lines = [
		`${titleOf(cell.contender)}, ${plural(cell.sessions, 'session')}`,
		`${shownFigure(cell, key)} ${unit}${interval ? `  ${interval}` : ''}`,
		...(top === null ? [] : [`p99 ${shownFigure(cell, topKey)} ${unit}`]),
		`${cell.completed} of ${plural(cell.attempted, 'run')}`,
	];
	return {
		contender: cell.contender,
		x: cell.sessions,
		y: figure.median / size,
		lo: topKey || figure.n < 2 ? null : figure.lo / size,
		hi: topKey || figure.n < 2 ? null : figure.hi / size,
		top: top === null ? null : top / size,
		shown: `${shownFigure(cell, key)} ${unit}`,
		words: lines.join('\n'),
	};
}

// A line that just stops would hide who failed.
function failedNote(cells, key) {
	const without = cells.filter((cell) => figureOf(cell, key).median === null && (cell.completed < cell.attempted || !cell.attempted));
	return without.length
		? el('p', { class: 'failed' }, `No figures: ${without.map((cell) => `${titleOf(cell.contender)} at ${cell.sessions} (${failedWords(cell)})`).join('; ')}`)
		: null;
}

function linesFigure({ id, title, explained, key, topKey, topTitle }, width) {
	const cells = selectedCells();
	const groupOf = (cell) => cells.filter((other) => other.sessions === cell.sessions);
	const known = cells.filter((cell) => figureOf(cell, key).median !== null);
	const unit = known.length ? unitOf(figureOf(known[0], key).unit).shown : '';
	const series = contenders.map((name) => ({ contender: name, points: known.filter((cell) => cell.contender === name).map((cell) => pointOf(cell, key, topKey)) }));
	const all = [
		...cellColumns(),
		...figureColumns(key, `${topKey ? 'p50' : 'median'} ${unit}`, groupOf),
		...(topKey ? [{ title: topTitle, name: `${topKey} pooled`, value: (cell) => valueOf(cell, topKey), shown: (cell) => shownFigure(cell, topKey), number: true }] : []),
		...outcomeColumns(),
	];
	const raw = known.flatMap((cell) => runsOf(cell, key));
	const points = series.flatMap((one) => one.points).sort((a, b) => a.y - b.y);
	const single = countsOf(known).length === 1;
	return figure({
		id,
		title,
		explained,
		pictures: [
			single
				? rowsChart({ label: `${title}; the table below has the values`, unit, points, raw, width })
				: linesChart({ label: `${title} by number of sessions; the table below has the values`, unit, series, raw, width }),
		],
		columns: all,
		rows: cells,
		after: failedNote(cells, key),
	});
}

function startupFigure(width) {
	const cells = startupCells();
	const known = cells.filter((cell) => figureOf(cell, 'startup_ms').median !== null).sort((a, b) => valueOf(a, 'startup_ms') - valueOf(b, 'startup_ms'));
	return figure({
		id: 'startup',
		title: 'Startup',
		explained: `from just before exec to the first request at the mock, one session${whereStartup()}`,
		pictures: [
			rowsChart({ label: 'Startup; the table below has the values', unit: 'ms', points: known.map((cell) => pointOf(cell, 'startup_ms')), raw: known.flatMap((cell) => runsOf(cell, 'startup_ms')), width }),
		],
		columns: [...cellColumns(), ...figureColumns('startup_ms', 'median ms', () => cells), ...outcomeColumns()],
		rows: cells,
	});
}

const PARTS = [
	{ member: 'anon', label: 'anonymous' },
	{ member: 'file', label: 'files' },
	{ member: 'shmem', label: 'tmpfs' },
	{ member: 'kernel', label: 'kernel' },
	{ member: 'sock', label: 'sockets' },
	{ member: 'remainder', label: 'remainder' },
].map((part, i) => ({ ...part, colour: `var(--p${i})` }));

// The kernel counts shmem within file, so it is taken out there. What it does not tell has no width, and is named.
function partsRow(cell) {
	const at = cell.memory_at_peak;
	const unknown = PARTS.filter(({ member }) => typeof at[member] !== 'number').map(({ label }) => label);
	const value = (member) => (at[member] ?? 0) - (member === 'file' ? Math.min(at.shmem ?? 0, at.file ?? 0) : 0);
	return {
		contender: cell.contender,
		shown: `${shown(at.memory_peak_bytes / MIB)} MiB${unknown.length ? ' *' : ''}`,
		unknown,
		parts: PARTS.map(({ member, label, colour }) => ({
			part: label,
			colour,
			value: value(member) / MIB,
			words: `${titleOf(cell.contender)}, ${plural(cell.sessions, 'session')}, run ${at.run}\n${label} ${shown(value(member) / MIB)} MiB of ${shown(at.memory_peak_bytes / MIB)}`,
		})),
	};
}

/*
 * A picture for each number of sessions: a common scale would hide the small ones. Beyond three, those that are not
 * the overview's are drawn when they are asked for.
 */
function partsFigure() {
	const cells = selectedCells().filter((cell) => cell.memory_at_peak);
	const counts = countsOf(cells).reverse();
	const first = counts.length <= 3 ? counts : counts.filter((count) => count === atNow());
	const rest = counts.filter((count) => !first.includes(count));
	const unknown = new Set(cells.flatMap((cell) => partsRow(cell).unknown));
	const abreast = Math.min(first.length, 2);
	const pictureOf = (across) => (count) => {
		const rows = cells.filter((cell) => cell.sessions === count).map(partsRow);
		const picture = stacksChart({ label: `Parts of the memory at its peak, ${plural(count, 'session')}; the table below has the values`, unit: 'MiB', rows, width: widthOf(across, true) });
		return picture && { ...picture, title: plural(count, 'session') };
	};
	const mib = (member) => ({
		value: (cell) => cell.memory_at_peak[member] ?? null,
		shown: (cell) => (typeof cell.memory_at_peak[member] === 'number' ? shown(cell.memory_at_peak[member] / MIB) : ''),
		number: true,
	});
	return figure({
		id: 'memory-parts',
		title: 'What the memory is at its peak',
		explained: 'of the run with the median peak, from the sample with the highest total; the remainder is what the samples do not explain',
		wide: true,
		abreast,
		legend: PARTS,
		pictures: first.map(pictureOf(abreast)),
		columns: [
			...cellColumns(),
			{ title: 'run', value: (cell) => cell.memory_at_peak.run, number: true },
			...PARTS.map(({ member, label }) => ({ title: member === 'shmem' ? 'of files tmpfs' : label, name: `${member} bytes`, ...mib(member) })),
			{ title: 'peak, MiB', name: 'memory_peak_bytes', ...mib('memory_peak_bytes') },
		],
		rows: cells,
		after: [
			unknown.size ? el('p', { class: 'note' }, `* not told by the kernel: ${[...unknown].join(', ')}`) : null,
			rest.length ? later('At other numbers of sessions', () => picturesOf(rest.map(pictureOf(2)).filter(Boolean), 2), 'parts-rest') : null,
		],
	});
}

// Sizes of what must be shipped: {contender, kind, bytes}.
function sizes() {
	const machine = summary.environment?.contenders ?? {};
	const kinds = [
		['artifact_bytes', 'files beside the base image'],
		['image_bytes', 'image'],
	];
	return contenders
		.filter((name) => state.contenders.has(name))
		.flatMap((name) =>
			kinds.flatMap(([member, label]) => {
				const value = machine[name]?.[member];
				const parts = typeof value === 'number' ? [[label, value]] : Object.entries(value ?? {}).map(([part, bytes]) => [`${label}, ${clean(part).replaceAll('_', ' ')}`, bytes]);
				return parts.filter(([, bytes]) => typeof bytes === 'number').map(([kind, bytes]) => ({ contender: name, kind, bytes }));
			}),
		);
}

function sizesFigure() {
	const rows = sizes();
	const kinds = [...new Set(rows.map((row) => row.kind))];
	const width = widthOf(Math.min(kinds.length, 3));
	return figure({
		id: 'sizes',
		wide: kinds.length > 1,
		abreast: Math.min(kinds.length, 3),
		title: 'Sizes',
		explained: 'what must be shipped; logarithmic',
		pictures: kinds.map((kind) => {
			const points = rows
				.filter((row) => row.kind === kind && row.bytes > 0)
				.sort((a, b) => a.bytes - b.bytes)
				.map(({ contender, bytes }) => ({ contender, y: bytes / MIB, shown: `${shown(bytes / MIB)} MiB`, words: `${titleOf(contender)}\n${kind}: ${shown(bytes / MIB)} MiB, ${THOUSANDS.format(bytes)} bytes` }));
			const picture = rowsChart({ label: `Sizes, ${kind}; the table below has the values`, unit: 'MiB', points, raw: [], width });
			return picture && { ...picture, title: kind };
		}),
		columns: [
			{ title: 'contender', value: (row) => row.contender },
			{ title: 'what', value: (row) => row.kind },
			{ title: 'MiB', name: 'bytes', value: (row) => row.bytes, shown: (row) => shown(row.bytes / MIB), number: true },
		],
		rows,
	});
}

function floorFigure() {
	const { headline, memory } = state.setting;
	const width = widthOf(3);
	const figures = [
		[`${headline}.p50`, headline === 'overhead_ms' ? 'overhead, median' : 'turn gap, median'],
		[memory, 'memory peak'],
		['cpu_usec_per_turn', 'CPU per turn'],
	];
	const rows = selectedCells().flatMap((cell) =>
		figures.flatMap(([key, label]) => {
			const ratio = ratioToYardstick(cell, key);
			return typeof ratio?.ratio === 'number' ? [{ cell, key, label, ratio }] : [];
		}),
	);
	return figure({
		id: 'floor',
		title: 'Times the floor',
		explained: 'ratio to the yardstick, the loop on raw sockets, within blocks; with its interval',
		wide: true,
		abreast: 3,
		pictures: figures.map(([key, label]) => {
			const of = rows.filter((row) => row.key === key);
			const series = contenders.map((name) => ({
				contender: name,
				points: of
					.filter((row) => row.cell.contender === name)
					.map(({ cell, ratio }) => ({
						contender: name,
						x: cell.sessions,
						y: ratio.ratio,
						lo: ratio.n > 1 ? ratio.lo : null,
						hi: ratio.n > 1 ? ratio.hi : null,
						words: `${titleOf(name)}, ${plural(cell.sessions, 'session')}\n${label}: ${shownRatio(ratio)} the floor ${shownInterval(ratio)}`,
					})),
			}));
			const picture = linesChart({ label: `Times the floor, ${label}; the table below has the values`, unit: '× floor', series, raw: [], width, height: 270 });
			return picture && { ...picture, title: label };
		}),
		columns: [
			{ title: 'contender', value: (row) => row.cell.contender },
			{ title: 'sessions', value: (row) => row.cell.sessions, number: true },
			{ title: 'figure', value: (row) => row.key },
			{ title: '× floor', name: 'ratio', value: (row) => row.ratio.ratio, shown: (row) => shownRatio(row.ratio), number: true },
			{ title: 'interval', name: 'lo', value: (row) => row.ratio.lo, shown: (row) => shownInterval(row.ratio), number: true },
			{ title: 'hi', value: (row) => row.ratio.hi, hidden: true },
			{ title: 'blocks', name: 'n', value: (row) => row.ratio.n, number: true },
		],
		rows,
	});
}

function charts(width) {
	const { headline, memory } = state.setting;
	const overhead = headline === 'overhead_ms';
	return el(
		'div',
		{ class: room >= WIDE ? 'charts two' : 'charts' },
		linesFigure(
			{
				id: 'overhead',
				title: overhead ? 'Overhead per turn' : 'Turn gap',
				explained: 'line: median over runs; band: up to the 99th percentile of all turns, where there are 1,000',
				key: `${headline}.p50`,
				topKey: `${headline}.p99`,
				topTitle: 'p99 ms',
			},
			width,
		),
		linesFigure({ id: 'memory', title: 'Memory peak', explained: 'median over runs with its interval', key: memory }, width),
		linesFigure({ id: 'cpu', title: 'CPU per turn', explained: 'median over runs with its interval', key: 'cpu_usec_per_turn' }, width),
		startupFigure(width),
		partsFigure(),
		sizesFigure(),
		floorFigure(),
	);
}

// ---- words and tables

function hypotheses() {
	const list = summary.hypotheses ?? [];
	if (!list.length) return el('p', { class: 'soft' }, 'The plan makes none.');
	const size = (item) => unitOf(item.unit).size;
	const columns = [
		{ title: 'verdict', value: (item) => item.verdict, mark: (item) => ({ supported: 'good', rejected: 'bad' })[item.verdict] },
		{ title: 'statement', value: (item) => item.statement, wrap: true },
		{ title: 'figure', value: (item) => item.figure },
		{ title: 'claim', value: (item) => `${item.relation} ${shown(item.threshold / size(item))} ${unitOf(item.unit).shown}` },
		{ title: 'value', value: (item) => item.value, shown: (item) => (typeof item.value === 'number' ? shown(item.value / size(item)) : ''), number: true },
		{ title: 'interval', value: (item) => item.lo, shown: (item) => shownInterval(item, size(item)) || item.reason, wrap: true },
		{ title: 'blocks', value: (item) => item.n, number: true },
	];
	return [
		el('p', { class: 'soft' }, `Written into the plan before its first run; decided by the interval at ${(100 * list[0].confidence).toFixed(2)}% each.`),
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
		{ title: 'outcomes', value: (cell) => Object.entries(cell.outcomes).map(([name, count]) => `${name} ${count}`).join(', ') || 'no valid run' },
	];
	const failed = [
		{ title: 'run', value: (row) => row.run, number: true },
		{ title: 'contender', value: (row) => row.cell.contender },
		{ title: 'sessions', value: (row) => row.cell.sessions, number: true },
		{ title: 'outcome', value: (row) => row.outcome, mark: () => 'bad' },
		{ title: 'what happened', value: (row) => row.detail, wrap: true },
	];
	const attempted = cells.reduce((sum, cell) => sum + cell.attempted, 0);
	const completed = cells.reduce((sum, cell) => sum + cell.completed, 0);
	return [
		el('p', null, el('strong', { class: completed < attempted ? 'bad' : 'good' }, `${THOUSANDS.format(completed)} of ${THOUSANDS.format(attempted)}`), ' attempted runs ended well.'),
		el('p', { class: 'soft' }, 'What a contender causes is a result; a cell with more than 10% failed runs has no figures, since its best runs alone would flatter it.'),
		failures.length ? later(`Runs that did not end well (${failures.length})`, () => table(failed, failures, 'Runs that did not end well, table'), 'failures', failures.length <= OPEN_ROWS_MAX) : null,
		later('Completed of attempted, by cell', () => table(columns, cells, 'Completed of attempted, table'), 'table-outcomes', cells.length <= OPEN_ROWS_MAX),
	];
}

function excluded() {
	const list = (summary.excluded ?? []).filter((run) => state.contenders.has(run.contender) && state.sessions.has(run.sessions) && run.scenario === state.setting.scenario);
	if (!list.length) return el('p', { class: 'soft' }, 'None of those selected: no run was spoilt by the instrument or the machine.');
	const columns = [
		{ title: 'run', value: (run) => run.run, number: true },
		{ title: 'contender', value: (run) => run.contender },
		{ title: 'sessions', value: (run) => run.sessions, number: true },
		{ title: 'outcome', value: (run) => run.outcome },
		{ title: 'why it does not count', value: (run) => (run.reasons ?? []).join('; '), wrap: true },
	];
	return [
		el('p', { class: 'soft' }, 'Excluded for faults of the instrument or the machine, never for what a contender did; run again at the end of the plan.'),
		later(plural(list.length, 'run'), () => table(columns, list, 'Runs that do not count, table'), 'table-excluded', list.length <= OPEN_ROWS_MAX),
	];
}

// Any JSON value as lines of a definition list, with the path to it.
function facts(value, path = '', depth = 0) {
	if (value && typeof value === 'object' && !Array.isArray(value) && depth < 6) {
		return Object.entries(value).flatMap(([name, member]) => facts(member, path ? `${path}.${name}` : name, depth + 1));
	}
	const text = value === null || value === undefined ? 'not known' : typeof value === 'string' ? value : JSON.stringify(value);
	return [el('dt', null, clean(path)), el('dd', null, clean(text))];
}

function factList(value) {
	return el('dl', { class: 'facts' }, facts(value));
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
		{ title: 'files MiB', value: (name) => known(name).artifact_bytes, shown: (name) => (typeof known(name).artifact_bytes === 'number' ? shown(known(name).artifact_bytes / MIB) : ''), number: true },
		{ title: 'memory limit MiB', value: (name) => limits(name).memory_bytes, shown: (name) => (limits(name).memory_bytes > 0 ? THOUSANDS.format(limits(name).memory_bytes / MIB) : ''), number: true },
		{ title: 'CPUs', value: (name) => known(name).cpus ?? limits(name).cpus },
		{ title: 'executable', value: (name) => known(name).executable_sha256, shown: (name) => String(known(name).executable_sha256 ?? '').slice(0, 12) },
	];
	const beliefs = names.filter(believed);
	return [
		el('h3', null, 'Contenders, under these limits'),
		table(columns, names, 'Contenders, table'),
		beliefs.length ? el('h3', null, 'What they believe of their CPUs and memory') : null,
		beliefs.length ? factList(Object.fromEntries(beliefs.map((name) => [name, believed(name)]))) : null,
	];
}

function environment() {
	const { contenders: shownAbove, doctor, ...machine } = summary.environment ?? {};
	const { limits, bounds, run_timeout_s, repetitions, seed } = summary.plan;
	return [
		contendersTable(),
		el('h3', null, 'Limits and bounds of the plan'),
		factList({ limits, bounds, run_timeout_s, repetitions, seed }),
		el('h3', null, 'Scenarios'),
		factList(Object.fromEntries((summary.plan.scenarios ?? []).map(({ name, description }) => [name, description]))),
		doctorTable(),
		el('h3', null, 'Environment'),
		factList(machine),
	];
}

function definitions() {
	return [
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

function doctorTable() {
	const findings = Array.isArray(summary.environment?.doctor) ? summary.environment.doctor : [];
	const columns = [
		{ title: 'what', value: (finding) => finding.id },
		{ title: 'status', value: (finding) => finding.status, mark: (finding) => (finding.status === 'ok' ? 'good' : 'bad') },
		{ title: 'found', value: (finding) => finding.found, wrap: true },
	];
	return findings.length ? [el('h3', null, 'What the doctor found before the first run'), table(columns, findings, 'Findings of the doctor')] : [];
}

function warnings() {
	const list = summary.warnings ?? [];
	if (!list.length) return null;
	return later(`${plural(list.length, 'warning')} of the doctor about this machine`, () => el('ul', null, list.map(({ id, found }) => el('li', null, `${clean(id)}: ${clean(found)}`))), 'warnings');
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
		el('p', { class: 'soft' }, facts.filter(Boolean).map(clean).join(' · '), ' · plan ', el('code', null, clean(summary.plan_sha256).slice(0, 12))),
		notes.length ? el('ul', { class: 'notes' }, notes.map((note) => el('li', null, note))) : null,
		warnings(),
	];
}

// ---- filters

function choices(legend, name, options, chosen, choose) {
	if (options.length < 2) return null;
	return el(
		'fieldset',
		{ class: 'pick' },
		el('legend', null, legend),
		options.map((option) =>
			el('label', null, el('input', { type: 'radio', name, value: clean(option), checked: option === chosen, onchange: () => choose(option) }), el('span', null, clean(option))),
		),
	);
}

const unique = (list) => [...new Set(list)];

// The setting that has `wanted` and as much as can be of what is selected now.
function nearest(wanted) {
	const now = state.setting;
	const score = (setting) => ['scenario', 'track', 'conditions'].reduce((sum, member) => sum + (setting[member] === (wanted[member] ?? now[member]) ? (member in wanted ? 10 : 1) : 0), 0);
	return settings.reduce((best, setting) => (score(setting) > score(best) ? setting : best), now);
}

function toggled(set, item, on) {
	const copy = new Set(set);
	copy[on ? 'add' : 'delete'](item);
	return copy;
}

function box(name, value, checked, label, change) {
	return el('label', { class: 'chip' }, el('input', { type: 'checkbox', name, value, checked, onchange: (event) => change(event.target.checked) }), el('span', null, label));
}

function filters() {
	const { setting } = state;
	const names = contenders.filter((name) => setting.cells.some((cell) => cell.contender === name));
	const counts = countsOf(setting.cells);
	const all = names.every((name) => state.contenders.has(name)) && counts.every((count) => state.sessions.has(count));
	return el(
		'form',
		{ class: 'filters', 'aria-label': 'What is shown', onsubmit: (event) => event.preventDefault() },
		el(
			'fieldset',
			null,
			el('legend', null, 'Contenders'),
			names.map((name) =>
				box('contender', clean(name), state.contenders.has(name), [swatch(name), titleOf(name)], (on) => update({ contenders: toggled(state.contenders, name, on) })),
			),
		),
		choices('Scenario', 'scenario', unique(settings.map((one) => one.scenario)), setting.scenario, (scenario) => update({ setting: nearest({ scenario }) })),
		choices('Track', 'track', unique(settings.map((one) => one.track)), setting.track, (track) => update({ setting: nearest({ track }) })),
		choices(
			'Conditions',
			'conditions',
			unique(settings.filter((one) => one.scenario === setting.scenario && one.track === setting.track).map((one) => one.conditions)),
			setting.conditions,
			(conditions) => update({ setting: nearest({ conditions }) }),
		),
		counts.length > 1
			? el(
					'fieldset',
					null,
					el('legend', null, 'Sessions'),
					counts.map((count) => box('sessions', count, state.sessions.has(count), THOUSANDS.format(count), (on) => update({ sessions: toggled(state.sessions, count, on) }))),
				)
			: null,
		el(
			'div',
			{ class: 'more' },
			box('runs', 'runs', state.runs, 'Single runs', (runs) => update({ runs })),
			el('button', { type: 'button', name: 'reset', disabled: all, onclick: () => update({ contenders: new Set(contenders), sessions: new Set(summary.cells.map((cell) => cell.sessions)) }) }, 'Show all'),
		),
	);
}

// ---- the whole

const parts = {};

const GAP = 18; // between figures and between the pictures in one, as in page.css
const PADDING = 38;
const WIDE = 1000;

// Read once a change of the window's width: asking in the midst of a change would lay out the page each time.
let room = 1100;

// Of a picture in a figure of its own, two of which are side by side where there is room.
function chartWidth() {
	return Math.floor(room >= WIDE ? (room - GAP) / 2 : room) - PADDING;
}

// Of pictures in one figure, which is a wide one if several are abreast (or `wide`).
function widthOf(abreast, wide = false) {
	if (room < WIDE || (abreast === 1 && !wide)) return chartWidth();
	return Math.floor((room - PADDING - (abreast - 1) * GAP) / abreast);
}

function draw() {
	const { scenario, track, conditions } = state.setting;
	const any = selectedCells().length > 0;
	const words = `${clean(scenario)} · ${clean(track)} track · ${conditions}`;
	const nothing = el('p', { class: 'soft' }, 'Nothing is selected.');
	parts.filters.replaceChildren(filters());
	for (const place of parts.settings) place.textContent = words;
	parts.shown.textContent = `Shown: ${contenders.filter((name) => state.contenders.has(name)).map(titleOf).join(', ')}; sessions ${countsOf(selectedCells()).join(', ')}.`;
	parts.overview.replaceChildren(...(any ? overview() : [nothing]).flat());
	parts.charts.replaceChildren(any ? charts(chartWidth()) : nothing.cloneNode(true));
	parts.outcomes.replaceChildren(...outcomes().filter(Boolean));
	parts.excluded.replaceChildren(...[excluded()].flat());
	parts.environment.replaceChildren(...environment().flat().filter(Boolean));
}

/* Keyboard users stay where they are: the control that was used has the focus again. */
function update(change, id = null) {
	const focused = document.activeElement;
	Object.assign(state, change);
	draw();
	const same = id && document.getElementById(id);
	const again =
		same ??
		(focused?.name ? [...document.getElementsByName(focused.name)].find((element) => element.value === focused.value) : null);
	again?.focus({ preventScroll: true });
}

function section(id, title, withSetting) {
	const body = el('div');
	const setting = withSetting ? el('p', { class: 'setting' }) : null;
	if (setting) parts.settings.push(setting);
	parts[id] = body;
	return el('section', { 'aria-labelledby': id }, el('h2', { id }, title), setting, body);
}

function start() {
	parts.settings = [];
	parts.filters = el('div', { class: 'bar' });
	parts.shown = el('p', { class: 'shown' });
	const sections = [
		['overview', 'At a glance', true],
		['charts', 'Charts', true],
		['hypotheses', 'Hypotheses'],
		['outcomes', 'Outcomes', true],
		['excluded', 'Runs that do not count'],
		['environment', 'Limits and environment'],
		['definitions', 'Definitions'],
	];
	document.getElementById('head').append(
		...head().filter(Boolean),
		el('nav', { 'aria-label': 'Parts of the report' }, sections.map(([id, title]) => el('a', { href: `#${id}` }, title))),
	);
	const main = document.getElementById('main');
	main.append(parts.filters, parts.shown, ...sections.map((one) => section(...one)));
	document.getElementById('foot').append(
		el('button', { type: 'button', onclick: () => save(fileName(summary.plan.name, 'summary.json'), 'application/json', `${JSON.stringify(summary, null, 1)}\n`) }, 'Save summary.json'),
	);
	parts.hypotheses.append(...[hypotheses()].flat());
	parts.definitions.append(...definitions());
	const measure = () => parts.charts.clientWidth || room;
	room = measure();
	draw();
	new ResizeObserver(() => {
		if (measure() === room) return;
		room = measure();
		draw();
	}).observe(parts.charts);
	addEventListener('beforeprint', () => {
		for (const part of document.querySelectorAll('details')) {
			part.fill?.();
			part.dataset.was = part.open ? 'open' : '';
			part.open = true;
		}
	});
	addEventListener('afterprint', () => {
		for (const part of document.querySelectorAll('details')) part.open = part.dataset.was === 'open';
	});
}

start();
