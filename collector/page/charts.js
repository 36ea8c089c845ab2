// The charts, by Observable Plot: each returns pictures [{svg, title}] for cells of one setting.
'use strict';

const LINES_LEFT = 52;
const LABEL_WIDTH = 118;
const ROWS_LEFT = 132;
const ROWS_RIGHT = 92;
const LABEL_GAP = 14;
const SYMBOL_SIZE = 4.5;
const ROW_HEIGHT = 30;
const BELOW = 40; // the axis and its label
const TEXT_STYLE = { fontSize: '12px', fontFamily: 'inherit' };

function shortened(text, most) {
	const characters = [...text];
	return characters.length > most ? `${characters.slice(0, most - 1).join('')}…` : text;
}

// ---- axes

function evenTicks(lo, hi) {
	const rough = (hi - lo) / 5 || 1;
	const decade = 10 ** Math.floor(Math.log10(rough));
	const step = decade * [1, 2, 5, 10].find((multiple) => rough <= multiple * decade * 1.0001);
	const ticks = [];
	for (let i = Math.ceil(lo / step); i * step <= hi * 1.0001; i++)
		ticks.push(Number((i * step).toPrecision(12)));
	return ticks;
}

// Decades, and 2 and 5 of each where there are few; within one decade even steps tell more.
function logTicks(lo, hi) {
	const decades = Math.log10(hi / lo);
	if (decades < 0.8) return evenTicks(lo, hi);
	const ticks = [];
	for (let e = Math.floor(Math.log10(lo)); e <= Math.ceil(Math.log10(hi)); e++) {
		for (const multiple of decades > 3 ? [1] : [1, 2, 5])
			ticks.push(Number((multiple * 10 ** e).toPrecision(12)));
	}
	return ticks.filter((tick) => tick >= lo * 0.9999 && tick <= hi * 1.0001);
}

// Logarithmic unless a value is not above zero.
function valueAxis(values) {
	const lo = values.reduce((a, b) => Math.min(a, b), Infinity);
	const hi = values.reduce((a, b) => Math.max(a, b), -Infinity);
	if (lo > 0) {
		const pad = hi > lo ? (hi / lo) ** 0.06 : 2;
		return { type: 'log', domain: [lo / pad, hi * pad], ticks: logTicks(lo / pad, hi * pad) };
	}
	const pad = hi > lo ? (hi - lo) * 0.06 : 1;
	const from = lo < 0 ? lo - pad : 0;
	return { type: 'linear', domain: [from, hi + pad], ticks: evenTicks(from, hi + pad) };
}

function tickWords(value) {
	return value >= 10_000 ? THOUSANDS.format(value) : String(value);
}

// Ticks at the numbers of sessions that were measured.
function sessionsAxis(counts) {
	const lo = counts[0];
	const hi = counts[counts.length - 1];
	const pad = hi > lo ? (hi / lo) ** 0.05 : 2;
	return { type: 'log', domain: [lo / pad, hi * pad], ticks: counts };
}

const CHARACTER_WIDTH = 7.2;

// Ticks whose labels have room on `width`: the ends first, then whole decades, then the others.
function roomy({ type, domain, ticks }, width) {
	const [lo, hi] = domain;
	const share = (value) =>
		type === 'log' ? Math.log(value / lo) / Math.log(hi / lo) : (value - lo) / (hi - lo);
	const half = (tick) => (tickWords(tick).length * CHARACTER_WIDTH) / 2 + 4;
	const rank = (tick) =>
		tick === ticks[0] || tick === ticks.at(-1) ? 0 : Math.log10(tick) % 1 === 0 ? 1 : 2;
	const kept = [];
	for (const tick of [...ticks].sort((a, b) => rank(a) - rank(b))) {
		const free = (other) => Math.abs(share(tick) - share(other)) * width >= half(tick) + half(other);
		if (kept.every(free)) kept.push(tick);
	}
	return kept.sort((a, b) => a - b);
}

// The scale of an axis; its ticks are marks, since Plot leaves out labels of logarithmic ones.
function scaleOf({ type, domain }) {
	return { type, domain, axis: null };
}

function axisBelow(axis, label, width) {
	const ticks = roomy(axis, width);
	return [
		Plot.gridX(ticks),
		Plot.axisX(ticks, {
			text: tickWords,
			label: `${label} →`,
			labelAnchor: 'center',
			labelArrow: 'none',
			labelOffset: 36,
		}),
	];
}

// Where lengths are ratios, that is said.
function scaled({ type }, unit) {
	return type === 'log' ? `${unit}, logarithmic` : unit;
}

function axisLeft(axis, unit) {
	const label = `↑ ${scaled(axis, unit)}`;
	return [Plot.gridY(axis.ticks), Plot.axisY(axis.ticks, { text: tickWords, label, labelArrow: 'none' })];
}

function namesLeft() {
	return Plot.axisY({ tickSize: 0, label: null, text: (name) => shortened(titleOf(name), 19) });
}

// ---- marks of our own

/* Many points as one path a colour: ten thousand elements would be slow. */
function rawPoints(points, x, y) {
	return (index, scales, channels, dimensions) => {
		const group = svgEl('g', {
			'data-mark': 'single runs',
			'stroke-linecap': 'round',
			'stroke-width': 6,
			'stroke-opacity': 0.5,
			fill: 'none',
		});
		const paths = new Map();
		const middle = scales.y.bandwidth ? scales.y.bandwidth() / 2 : 0;
		for (const point of points) {
			const place = `M${scales.x(x(point)).toFixed(1)} ${(scales.y(y(point)) + middle).toFixed(1)}h0`;
			paths.set(point.contender, (paths.get(point.contender) ?? '') + place);
		}
		for (const [contender, d] of paths)
			group.append(svgEl('path', { d, stroke: styles.get(contender).colour }));
		return group;
	};
}

/* The name of each line at its end, moved apart where they meet. */
function lineLabels(series) {
	return (index, scales, channels, dimensions) => {
		const group = svgEl('g', { 'data-mark': 'names', 'font-size': 12.5, 'text-anchor': 'start' });
		const right = dimensions.width - dimensions.marginRight;
		const labels = series
			.map(({ contender, points }) => {
				const last = points[points.length - 1];
				return { contender, x: scales.x(last.x), from: scales.y(last.y), y: scales.y(last.y) };
			})
			.sort((a, b) => a.y - b.y);
		const gap = Math.min(
			LABEL_GAP,
			(dimensions.height - dimensions.marginTop - 4) / Math.max(labels.length, 1),
		);
		// down where they overlap, then up from the bottom where that went too far
		labels.forEach((label, i) => {
			label.y = Math.max(label.y, i ? labels[i - 1].y + gap : dimensions.marginTop + 4);
		});
		let limit = dimensions.height - dimensions.marginBottom + 4;
		for (const label of [...labels].reverse()) {
			label.y = Math.min(label.y, limit);
			limit = label.y - gap;
		}
		for (const { contender, x, from, y } of labels) {
			const colour = styles.get(contender).colour;
			if (Math.abs(from - y) > 1 || right - x > 20) {
				group.append(
					svgEl('path', {
						d: `M${x + 7} ${from}L${right + 5} ${y}`,
						stroke: colour,
						'stroke-opacity': 0.45,
						'stroke-width': 1,
						fill: 'none',
						...(right - x > 20 ? { 'stroke-dasharray': '2 3' } : {}),
					}),
				);
			}
			const text = svgEl(
				'text',
				{ x: right + 8, y, dy: '0.32em', fill: colour },
				shortened(titleOf(contender), 16),
			);
			text.append(svgEl('title', null, titleOf(contender)));
			group.append(text);
		}
		return group;
	};
}

// What the pointer or the arrow keys are nearest to, in words.
function hover(points, x, y) {
	return Plot.tip(
		points,
		Plot.pointer({
			x,
			y,
			title: 'words',
			fontSize: 12.5,
			lineHeight: 1.35,
			fill: 'var(--card)',
			stroke: 'var(--soft)',
			textPadding: 9,
			maxRadius: 60,
		}),
	);
}

// ---- charts

// Plot labels the groups of its marks, which only an element with a role may be: it is one picture.
function unlabel(svg) {
	for (const group of svg.querySelectorAll('[aria-label]')) {
		group.dataset.mark = group.getAttribute('aria-label');
		group.removeAttribute('aria-label');
	}
}

function describe(svg, label) {
	svg.classList.add('chart');
	svg.setAttribute('role', 'img');
	svg.setAttribute('aria-label', label);
	unlabel(svg);
	// what is hovered is drawn later
	new MutationObserver(() => unlabel(svg)).observe(svg, { childList: true, subtree: true });
	return svg;
}

function scalesOf(names) {
	return {
		color: { domain: names, range: names.map((name) => styles.get(name).colour) },
		symbol: { domain: names, range: names.map((name) => styles.get(name).symbol) },
	};
}

/*
 * Lines over the number of sessions. `series` is [{contender, points: [{contender, x, y, lo, hi, top, words}]}], `top`
 * the end of a band, lo and hi of an interval; `raw` are single runs {contender, x, y, words}.
 */
function linesChart({ label, unit, series, raw, width, height = 330 }) {
	const drawn = series.filter(({ points }) => points.length);
	const points = drawn.flatMap((one) => one.points);
	if (!points.length) return null;
	const known = (value) => typeof value === 'number';
	const counts = [...new Set(points.map((point) => point.x))].sort((a, b) => a - b);
	const banded = points.filter((point) => known(point.top));
	const ranged = points.filter((point) => known(point.lo) && point.lo < point.hi);
	const inner = width - LINES_LEFT - LABEL_WIDTH;
	const across = sessionsAxis(counts);
	const up = valueAxis([
		...points.flatMap((point) => [point.y, point.lo, point.hi, point.top].filter(known)),
		...raw.map((point) => point.y),
	]);
	const svg = Plot.plot({
		width,
		height,
		marginLeft: LINES_LEFT,
		marginRight: LABEL_WIDTH,
		marginTop: 26,
		marginBottom: BELOW,
		style: TEXT_STYLE,
		x: scaleOf(across),
		y: scaleOf(up),
		...scalesOf(drawn.map((one) => one.contender)),
		marks: [
			axisBelow(across, 'concurrent sessions', inner),
			axisLeft(up, unit),
			Plot.areaY(banded, {
				x: 'x',
				y1: 'y',
				y2: 'top',
				z: 'contender',
				fill: 'contender',
				fillOpacity: 0.14,
			}),
			Plot.ruleX(banded, { x: 'x', y1: 'y', y2: 'top', stroke: 'contender', strokeOpacity: 0.3 }),
			raw.length
				? rawPoints(
						raw,
						(point) => point.x,
						(point) => point.y,
					)
				: null,
			Plot.ruleX(ranged, {
				x: 'x',
				y1: 'lo',
				y2: 'hi',
				stroke: 'contender',
				strokeWidth: 1.7,
				strokeOpacity: 0.75,
			}),
			Plot.lineY(points, { x: 'x', y: 'y', z: 'contender', stroke: 'contender', strokeWidth: 2 }),
			Plot.dot(points, {
				x: 'x',
				y: 'y',
				symbol: 'contender',
				fill: 'contender',
				stroke: 'var(--card)',
				r: SYMBOL_SIZE,
			}),
			lineLabels(drawn),
			hover([...points, ...raw], 'x', 'y'),
		],
	});
	return {
		svg: describe(svg, label),
		points,
		place: (point) => [svg.scale('x').apply(point.x), svg.scale('y').apply(point.y)],
	};
}

/*
 * A row a contender on one axis, its name on the left and what `valued` ({contender, shown}) says on the right. `marks`
 * lie between; `points` ({contender, words, and x by the name `along`}) are hovered and walked, `raw` are hovered.
 */
function rowsPlot({ label, unit, axis, valued, points, raw = [], along, marks, top, scales, width }) {
	const names = valued.map((row) => row.contender);
	const svg = Plot.plot({
		width,
		height: ROW_HEIGHT * names.length + 14 + top + BELOW,
		marginLeft: ROWS_LEFT,
		marginRight: ROWS_RIGHT,
		marginTop: top,
		marginBottom: BELOW,
		style: TEXT_STYLE,
		x: scaleOf(axis),
		y: { type: 'band', domain: names, axis: null },
		...scales,
		marks: [
			axisBelow(axis, scaled(axis, unit), width - ROWS_LEFT - ROWS_RIGHT),
			namesLeft(),
			...marks,
			Plot.text(valued, {
				y: 'contender',
				text: 'shown',
				frameAnchor: 'right',
				textAnchor: 'start',
				dx: 8,
				fill: 'var(--ink)',
				fontWeight: 600,
			}),
			hover([...points, ...raw], along, 'contender'),
		],
	});
	const middle = svg.scale('y').bandwidth / 2;
	return {
		svg: describe(svg, label),
		points,
		place: (point) => [svg.scale('x').apply(point[along]), svg.scale('y').apply(point.contender) + middle],
	};
}

/* Single runs, interval or what is up to p99, and the median; the value in words at the end. */
function rowsChart({ label, unit, points, raw, width }) {
	if (!points.length) return null;
	const ranged = points
		.map((point) => ({ ...point, from: point.lo ?? point.y, to: point.hi ?? point.top ?? point.y }))
		.filter((point) => point.from < point.to);
	const axis = valueAxis([
		...points.map((point) => point.y),
		...ranged.flatMap((point) => [point.from, point.to]),
		...raw.map((point) => point.y),
	]);
	return rowsPlot({
		label,
		unit,
		axis,
		width,
		valued: points,
		points,
		raw,
		along: 'y',
		top: 8,
		scales: scalesOf(points.map((point) => point.contender)),
		marks: [
			raw.length
				? rawPoints(
						raw,
						(point) => point.y,
						(point) => point.contender,
					)
				: null,
			Plot.ruleY(ranged, { y: 'contender', x1: 'from', x2: 'to', stroke: 'contender', strokeWidth: 1.7 }),
			Plot.dot(points, {
				y: 'contender',
				x: 'y',
				symbol: 'contender',
				fill: 'contender',
				stroke: 'var(--card)',
				r: SYMBOL_SIZE,
			}),
		],
	});
}

/* Stacked parts from zero: rows {contender, parts: [{part, value, colour, words}], shown}. */
function stacksChart({ label, unit, rows, width }) {
	const bars = rows.flatMap(({ contender, parts }) => {
		let at = 0;
		return parts
			.filter(({ value }) => value > 0)
			.map(({ part, value, colour, words }) => ({
				contender,
				part,
				colour,
				words,
				x1: at,
				x2: (at += value),
				middle: at - value / 2,
			}));
	});
	const most = bars.reduce((max, bar) => Math.max(max, bar.x2), 0);
	if (!most) return null;
	return rowsPlot({
		label,
		unit,
		axis: { type: 'linear', domain: [0, most * 1.02], ticks: evenTicks(0, most * 1.02) },
		width,
		valued: rows,
		points: bars,
		along: 'middle',
		top: 4,
		marks: [
			Plot.barX(bars, { y: 'contender', x1: 'x1', x2: 'x2', fill: 'colour', insetTop: 4, insetBottom: 4 }),
		],
	});
}

/* The arrow keys go from point to point as the pointer would; `told` gets the words for those who do not see. */
function walkable(picture, told) {
	const { svg, points, place } = picture;
	let at = -1;
	const leave = () => svg.dispatchEvent(new PointerEvent('pointerleave', { pointerType: 'mouse' }));
	svg.setAttribute('tabindex', '0');
	svg.addEventListener('keydown', (event) => {
		const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
		if (event.key === 'Escape') {
			leave();
			return;
		}
		if (!step) return;
		event.preventDefault();
		at = at < 0 && step < 0 ? points.length - 1 : (at + step + points.length) % points.length;
		const [x, y] = place(points[at]);
		const matrix = svg.getScreenCTM();
		const spot = new DOMPoint(x, y).matrixTransform(matrix);
		svg.dispatchEvent(
			new PointerEvent('pointermove', {
				pointerType: 'mouse',
				clientX: spot.x,
				clientY: spot.y,
				bubbles: true,
			}),
		);
		told.textContent = points[at].words;
	});
	svg.addEventListener('blur', leave);
}
