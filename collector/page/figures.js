// Figures: a chart, buttons that save it, and a table each.
'use strict';

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
	const button = (text, does) =>
		el('button', { type: 'button', 'aria-label': `Save ${title} as ${text}`, onclick: does }, text);
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
		legend
			? el(
					'ul',
					{ class: 'legend' },
					legend.map(({ label, colour }) =>
						el(
							'li',
							null,
							svgEl(
								'svg',
								{ class: 'key', viewBox: '0 0 11 11', 'aria-hidden': 'true' },
								svgEl('rect', { width: 11, height: 11, rx: 2, fill: colour }),
							),
							label,
						),
					),
				)
			: null,
		picturesOf(drawn, abreast),
		after ?? null,
		later('Table', () => table(columns, rows, `${title}, table`), `table-${id}`),
	);
}

const chosen = new Map(); // by id: whether its reader has opened or closed it
let printing = false;

/* A part that is made when it is opened; as its reader leaves it, it stays when the page is made again. */
function later(title, make, id, open = false) {
	const wanted = () => printing || (chosen.get(id) ?? open);
	const handle = el('summary', null, title);
	const part = el('details', { id }, handle);
	const fill = () => {
		if (part.open && part.childElementCount === 1) part.append(make());
	};
	part.settle = () => {
		part.open = wanted();
		fill();
	};
	// before it is toggled, by pointer or key
	handle.addEventListener('click', () => chosen.set(id, !part.open));
	// also by what is found in it
	part.addEventListener('toggle', fill);
	part.settle();
	return part;
}

function settleAll(inPrint) {
	printing = inPrint;
	for (const part of document.querySelectorAll('details')) part.settle();
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
		return !to || to === cell || isYardstick(cell.contender) || valueOf(cell, key) === null
			? null
			: ratioBetween(cell, to, key);
	};
	return [
		{
			title,
			name: `${key} median`,
			value: raw('median'),
			shown: (cell) => shownFigure(cell, key, figureOf(cell, key).median ?? null),
			number,
		},
		{
			title: 'interval',
			name: `${key} lo`,
			value: raw('lo'),
			shown: (cell) => shownInterval(figureOf(cell, key), unitOf(figureOf(cell, key).unit).size),
			number,
		},
		{ title: 'hi', name: `${key} hi`, value: raw('hi'), hidden: true },
		{ title: 'confidence', name: `${key} confidence`, value: raw('confidence'), hidden: true },
		{ title: 'unit', name: `${key} unit`, value: raw('unit'), hidden: true },
		{
			title: '× best',
			name: `${key} times best`,
			value: (cell) => (best(cell) === cell ? 1 : (ratio(cell)?.ratio ?? null)),
			shown: (cell) => (best(cell) === cell ? 'best' : shownRatio(ratio(cell))),
			number,
		},
		{
			title: 'its interval',
			name: `${key} times best lo`,
			value: (cell) => ratio(cell)?.lo ?? null,
			shown: (cell) => (ratio(cell) ? shownInterval(ratio(cell)) : ''),
			number,
		},
		{ title: '× hi', name: `${key} times best hi`, value: (cell) => ratio(cell)?.hi ?? null, hidden: true },
		{ title: 'runs', name: `${key} n`, value: raw('n'), number },
		{
			title: 'values',
			name: `${key} values`,
			value: (cell) => (figureOf(cell, key).values ?? []).map((value) => value ?? '').join(' '),
			hidden: true,
		},
	];
}

function outcomeColumns() {
	return [
		{
			title: 'completed',
			value: (cell) => cell.completed,
			number: true,
			mark: (cell) => (cell.completed < cell.attempted ? 'bad' : null),
		},
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
	const without = cells.filter(
		(cell) => figureOf(cell, key).median === null && (cell.completed < cell.attempted || !cell.attempted),
	);
	return without.length
		? el(
				'p',
				{ class: 'failed' },
				`No figures: ${without.map((cell) => `${titleOf(cell.contender)} at ${cell.sessions} (${failedWords(cell)})`).join('; ')}`,
			)
		: null;
}

function linesFigure({ id, title, explained, key, topKey, topTitle }, width) {
	const cells = selectedCells();
	const groupOf = (cell) => cells.filter((other) => other.sessions === cell.sessions);
	const known = cells.filter((cell) => figureOf(cell, key).median !== null);
	const unit = known.length ? unitOf(figureOf(known[0], key).unit).shown : '';
	const series = contenders.map((name) => ({
		contender: name,
		points: known.filter((cell) => cell.contender === name).map((cell) => pointOf(cell, key, topKey)),
	}));
	const all = [
		...cellColumns(),
		...figureColumns(key, `${topKey ? 'p50' : 'median'} ${unit}`, groupOf),
		...(topKey
			? [
					{
						title: topTitle,
						name: `${topKey} pooled`,
						value: (cell) => valueOf(cell, topKey),
						shown: (cell) => shownFigure(cell, topKey),
						number: true,
					},
				]
			: []),
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
				: linesChart({
						label: `${title} by number of sessions; the table below has the values`,
						unit,
						series,
						raw,
						width,
					}),
		],
		columns: all,
		rows: cells,
		after: failedNote(cells, key),
	});
}

function startupFigure(width) {
	const cells = startupCells();
	const known = cells
		.filter((cell) => figureOf(cell, 'startup_ms').median !== null)
		.sort((a, b) => valueOf(a, 'startup_ms') - valueOf(b, 'startup_ms'));
	return figure({
		id: 'startup',
		title: 'Startup',
		explained: `from just before exec to the first request at the mock, one session${whereStartup()}`,
		pictures: [
			rowsChart({
				label: 'Startup; the table below has the values',
				unit: 'ms',
				points: known.map((cell) => pointOf(cell, 'startup_ms')),
				raw: known.flatMap((cell) => runsOf(cell, 'startup_ms')),
				width,
			}),
		],
		columns: [
			...cellColumns(),
			...figureColumns('startup_ms', 'median ms', () => cells),
			...outcomeColumns(),
		],
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
	const value = (member) =>
		(at[member] ?? 0) - (member === 'file' ? Math.min(at.shmem ?? 0, at.file ?? 0) : 0);
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
		const picture = stacksChart({
			label: `Parts of the memory at its peak, ${plural(count, 'session')}; the table below has the values`,
			unit: 'MiB',
			rows,
			width: widthOf(across, true),
		});
		return picture && { ...picture, title: plural(count, 'session') };
	};
	const mib = (member) => ({
		value: (cell) => cell.memory_at_peak[member] ?? null,
		shown: (cell) =>
			typeof cell.memory_at_peak[member] === 'number' ? shown(cell.memory_at_peak[member] / MIB) : '',
		number: true,
	});
	return figure({
		id: 'memory-parts',
		title: 'What the memory is at its peak',
		explained:
			'of the run with the median peak, from the sample with the highest total; the remainder is what the samples do not explain',
		wide: true,
		abreast,
		legend: PARTS,
		pictures: first.map(pictureOf(abreast)),
		columns: [
			...cellColumns(),
			{ title: 'run', value: (cell) => cell.memory_at_peak.run, number: true },
			...PARTS.map(({ member, label }) => ({
				title: member === 'shmem' ? 'of files tmpfs' : label,
				name: `${member} bytes`,
				...mib(member),
			})),
			{ title: 'peak, MiB', name: 'memory_peak_bytes', ...mib('memory_peak_bytes') },
		],
		rows: cells,
		after: [
			unknown.size
				? el('p', { class: 'note' }, `* not told by the kernel: ${[...unknown].join(', ')}`)
				: null,
			rest.length
				? later(
						'At other numbers of sessions',
						() => picturesOf(rest.map(pictureOf(2)).filter(Boolean), 2),
						'parts-rest',
					)
				: null,
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
				const parts =
					typeof value === 'number'
						? [[label, value]]
						: Object.entries(value ?? {}).map(([part, bytes]) => [
								`${label}, ${clean(part).replaceAll('_', ' ').replace('compressed own layers', 'own layers, compressed')}`,
								bytes,
							]);
				return parts
					.filter(([, bytes]) => typeof bytes === 'number')
					.map(([kind, bytes]) => ({ contender: name, kind, bytes }));
			}),
		);
}

// Images of which sizes are missing, each reason once.
function unmeasuredImages() {
	const machine = summary.environment?.contenders ?? {};
	const reasons = new Map();
	for (const name of contenders) {
		const why = machine[name]?.image_bytes_missing;
		if (why && state.contenders.has(name)) reasons.set(why, [...(reasons.get(why) ?? []), name]);
	}
	if (!reasons.size) return null;
	const words = [...reasons].map(([why, names]) => `${names.map(titleOf).join(', ')} (${clean(why)})`);
	return el('p', { class: 'note' }, `No sizes of images: ${words.join('; ')}`);
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
		explained:
			'what must be shipped. Compressed: each layer by gzip; above base: without the layers of the common base image; own layers: those that no other contender’s image has',
		pictures: kinds.map((kind) => {
			const points = rows
				.filter((row) => row.kind === kind && row.bytes > 0)
				.sort((a, b) => a.bytes - b.bytes)
				.map(({ contender, bytes }) => ({
					contender,
					y: bytes / MIB,
					shown: `${shown(bytes / MIB)} MiB`,
					words: `${titleOf(contender)}\n${kind}: ${shown(bytes / MIB)} MiB, ${THOUSANDS.format(bytes)} bytes`,
				}));
			const picture = rowsChart({
				label: `Sizes, ${kind}; the table below has the values`,
				unit: 'MiB',
				points,
				raw: [],
				width,
			});
			return picture && { ...picture, title: kind };
		}),
		columns: [
			{ title: 'contender', value: (row) => row.contender },
			{ title: 'what', value: (row) => row.kind },
			{
				title: 'MiB',
				name: 'bytes',
				value: (row) => row.bytes,
				shown: (row) => shown(row.bytes / MIB),
				number: true,
			},
		],
		rows,
		after: unmeasuredImages(),
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
			const picture = linesChart({
				label: `Times the floor, ${label}; the table below has the values`,
				unit: '× floor',
				series,
				raw: [],
				width,
				height: 270,
			});
			return picture && { ...picture, title: label };
		}),
		columns: [
			{ title: 'contender', value: (row) => row.cell.contender },
			{ title: 'sessions', value: (row) => row.cell.sessions, number: true },
			{ title: 'figure', value: (row) => row.key },
			{
				title: '× floor',
				name: 'ratio',
				value: (row) => row.ratio.ratio,
				shown: (row) => shownRatio(row.ratio),
				number: true,
			},
			{
				title: 'interval',
				name: 'lo',
				value: (row) => row.ratio.lo,
				shown: (row) => shownInterval(row.ratio),
				number: true,
			},
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
				explained:
					'line: median over runs; band: up to the 99th percentile of all turns, where there are 1,000',
				key: `${headline}.p50`,
				topKey: `${headline}.p99`,
				topTitle: 'p99 ms',
			},
			width,
		),
		linesFigure(
			{ id: 'memory', title: 'Memory peak', explained: 'median over runs with its interval', key: memory },
			width,
		),
		linesFigure(
			{
				id: 'cpu',
				title: 'CPU per turn',
				explained: 'median over runs with its interval',
				key: 'cpu_usec_per_turn',
			},
			width,
		),
		startupFigure(width),
		partsFigure(),
		sizesFigure(),
		floorFigure(),
	);
}
