// The first screen: which contender, at how many sessions, at what cost.
'use strict';

function columnsOf({ headline, memory }) {
	const overhead = headline === 'overhead_ms';
	return [
		{
			key: `${headline}.p50`,
			title: overhead ? 'Overhead per turn' : 'Turn gap',
			under: overhead ? 'median, beyond what tools need' : 'median, tools included',
			words: overhead
				? 'median; what the agent adds between a response’s end and its next request, beyond what its tools need'
				: 'median; from a response’s end to the next request, tools included',
			lead: overhead ? 'adds the least to a turn' : 'has the shortest gap between turns',
		},
		{
			key: `${headline}.p99`,
			title: overhead ? 'Overhead, p99' : 'Turn gap, p99',
			under: '1 turn in 100 takes longer',
			words: 'one turn in a hundred takes longer; all turns together',
		},
		{
			key: memory,
			title: 'Memory peak',
			under: 'of the cgroup, tools included',
			words: 'highest memory of the run’s cgroup, tools included',
			lead: 'needs the least memory',
		},
		{
			key: 'sessions_per_gib',
			title: 'Sessions per GiB',
			under: 'more is better',
			words: 'sessions ÷ memory peak: more is better',
			bare: true,
		},
		{
			key: 'cpu_usec_per_turn',
			title: 'CPU per turn',
			under: 'of the cgroup, tools included',
			words: 'CPU time of the run’s cgroup after startup, tools included',
			lead: 'needs the least CPU a turn',
		},
		{
			key: 'sessions_per_core',
			title: 'Sessions per core',
			under: 'more is better',
			words: 'at this scenario’s pace, by CPU time: more is better',
			bare: true,
		},
		{
			key: 'startup_ms',
			title: 'Startup',
			under: 'to the first request, of one session',
			alone: 'Startup, one session',
			words: `from just before exec to the first request, one session${whereStartup()}`,
			startup: true,
		},
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
			return {
				...column,
				group,
				best: bestOf(group, column.key),
				most: Math.max(...values),
				any: values.length > 0,
			};
		})
		.filter((column) => column.any);
	const names = contenders.filter((name) => [...here, ...starts].some((cell) => cell.contender === name));
	return {
		at,
		columns,
		rows: names.map((name) => ({ contender: name, cell: here.find((cell) => cell.contender === name) })),
	};
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
	const next = sorted(
		column.group.map(({ contender }) => ({ contender })),
		column,
	).find(
		({ contender }) =>
			contender !== column.best.contender &&
			!isYardstick(contender) &&
			valueOf(cellIn(column, contender), column.key) !== null,
	);
	if (!next) return null;
	const ratio = ratioBetween(cellIn(column, next.contender), column.best, column.key);
	return ratio.lo > 1 ? null : titleOf(next.contender);
}

// Where nobody has figures: what became of the runs, and where it is told.
function withoutFigures(at) {
	const spoilt = selectedExclusions().filter((run) => run.sessions === at);
	const see = (id, title) => el('a', { href: `#${id}` }, title);
	return spoilt.length
		? [
				`no contender has figures: of ${plural(spoilt.length, 'run')} none is valid (${reasonsOf(spoilt)}). See `,
				see('excluded', 'Runs that do not count'),
				'.',
			]
		: ['no contender has figures. See ', see('outcomes', 'Outcomes'), '.'];
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
		parts.push(
			`${column.lead} (${shownFigure(column.best, column.key)} ${unitOf(figureOf(column.best, column.key).unit).shown}`,
		);
		parts.push(other ? `; these runs do not tell it from ${other})` : ')');
		last = name;
	}
	return el(
		'p',
		{ class: 'lead' },
		...parts,
		...(last === null ? withoutFigures(at) : ['.']),
		tooFew(columns),
	);
}

// Minimum and maximum of a few blocks say nothing of what the next block would be.
function tooFew(columns) {
	const ratios = columns.flatMap(({ bare, best, group, key }) =>
		bare || !best
			? []
			: group
					.filter((cell) => cell !== best && valueOf(cell, key) !== null)
					.map((cell) => ratioBetween(cell, best, key)),
	);
	const blocks = ratios
		.filter((ratio) => typeof ratio.ratio === 'number' && !ratio.confidence)
		.map((ratio) => ratio.n);
	if (!blocks.length) return null;
	return el(
		'small',
		{ class: 'few' },
		` Of ${Math.min(...blocks)} block${Math.min(...blocks) === 1 ? '' : 's'}: too few for intervals, so what is close may be chance.`,
	);
}

function swatch(contender) {
	const { colour, symbol } = styles.get(contender);
	const shapes = {
		circle: 'M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z',
		square: 'M-3.7 -3.7h7.4v7.4h-7.4z',
		triangle: 'M0 -4.6l4.8 8.2h-9.6z',
		diamond: 'M0 -5.6l3.6 5.6l-3.6 5.6l-3.6 -5.6z',
		star: 'M0 -5.4L1.3 -1.8L5.1 -1.7L2.1 0.7L3.2 4.4L0 2.2L-3.2 4.4L-2.1 0.7L-5.1 -1.7L-1.3 -1.8z',
		diamond2: 'M0 -5l5 5l-5 5l-5 -5z',
	};
	return svgEl(
		'svg',
		{ class: 'swatch', viewBox: '-13 -6 26 12', 'aria-hidden': 'true' },
		svgEl('path', { d: 'M-12 0H12', stroke: colour, 'stroke-width': 2 }),
		svgEl('path', { d: shapes[symbol], fill: colour, stroke: 'var(--card)' }),
	);
}

const BAR_LEAST = 0.6; // of 100: also what is zero, or less, is there

function overviewCell(column, contender) {
	const cell = cellIn(column, contender);
	// where there is no room for a head
	const label = { 'data-label': column.alone ?? column.title };
	if (!cell) return el('td', { ...label, class: 'n' }, el('span', { class: 'soft' }, '–'));
	const value = valueOf(cell, column.key);
	if (value === null) {
		const failed = cell.completed !== cell.attempted || !cell.attempted;
		return el(
			'td',
			{ ...label, class: 'n' },
			el('span', { class: failed ? 'why bad' : 'why' }, whyMissing(cell, column.key)),
		);
	}
	const best = cell === column.best;
	const ratio =
		best || column.bare || isYardstick(contender) ? null : ratioBetween(cell, column.best, column.key);
	const interval = ratio ? shownInterval(ratio) : '';
	const second = best
		? ['best']
		: isYardstick(contender)
			? ['yardstick']
			: ratio && typeof ratio.ratio !== 'number'
				? ['no ratio']
				: [el('b', null, shownRatio(ratio)), interval ? ` ${interval}` : ''];
	const share = column.most > 0 ? Math.max((100 * value) / column.most, BAR_LEAST) : BAR_LEAST;
	return el(
		'td',
		{ ...label, class: best ? 'n best' : 'n', 'data-figure': column.key, 'data-value': value },
		el(
			'span',
			{ class: 'value' },
			shownFigure(cell, column.key),
			el('small', null, ` ${column.bare ? '' : unitOf(figureOf(cell, column.key).unit).shown}`),
		),
		el('span', { class: 'times', title: ratio?.missing ? clean(ratio.missing) : null }, second),
		svgEl(
			'svg',
			{ class: 'bar', viewBox: '0 0 100 4', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
			svgEl('rect', { width: share.toFixed(2), height: 4, fill: styles.get(contender).colour }),
		),
	);
}

function runsWords(cell) {
	const planned = withoutRun(cell) ? `, ${summary.plan.repetitions} planned` : '';
	return `${cell.completed}/${cell.attempted} runs${planned}`;
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
				el('input', {
					type: 'radio',
					name: 'at',
					value: count,
					checked: count === at,
					onchange: () => update({ at: count }, 'at'),
				}),
				el('span', null, THOUSANDS.format(count)),
			),
		),
		el('span', { class: 'soft' }, at === 1 ? 'session' : 'concurrent sessions'),
	);
	const head = columns.map((column) =>
		el(
			'th',
			{
				scope: 'col',
				class: 'n',
				'aria-sort': column === by ? (MORE_IS_BETTER.has(column.key) ? 'descending' : 'ascending') : null,
			},
			el(
				'button',
				{
					type: 'button',
					title: `Best first by this figure. ${column.words}`,
					onclick: () => update({ order: column.key }, `sort-${column.key}`),
					id: `sort-${column.key}`,
				},
				column.title,
			),
			el('small', null, column.under),
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
				el(
					'span',
					{ class: cell && cell.completed < cell.attempted ? 'times bad' : 'times' },
					cell ? runsWords(cell) : '',
				),
			),
			columns.map((column) => overviewCell(column, contender)),
		),
	);
	const told = scenarioWords(scenarioOf(state.setting.scenario));
	return [
		told ? el('p', { class: 'setting scenario' }, `${clean(state.setting.scenario)}: ${told}.`) : null,
		leadOf(view),
		pick,
		el(
			'div',
			{ class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'At a glance, table' },
			el(
				'table',
				{ class: 'overview' },
				el('thead', null, el('tr', null, el('th', { scope: 'col' }, 'Contender'), head)),
				el('tbody', null, body),
			),
		),
		el(
			'p',
			{ class: 'note' },
			'Medians over runs; p99 of all turns together. × is the ratio to the best of those selected, within blocks: [a, b] its exact interval (at least 95%), a–b minimum and maximum where there are fewer than 6 blocks. There is no ratio where a run has too few turns (1,000 for p99) or a value is not above zero. Sessions per GiB and per core are what one GiB or one CPU would carry.',
		),
	];
}
