// Elements, tables and files. Nothing here reads markup: text stays text.
'use strict';

// el('a', {href: '#x', class: 'y', onclick: f}, 'text', otherElement, …): attributes that are null or false are left out.
function el(name, attributes, ...children) {
	const element = document.createElement(name);
	for (const [key, value] of Object.entries(attributes ?? {})) {
		if (value === null || value === undefined || value === false) continue;
		if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
		else element.setAttribute(key, value === true ? '' : value);
	}
	element.append(...children.flat().filter((child) => child !== null && child !== undefined));
	return element;
}

const SVG = 'http://www.w3.org/2000/svg';

function svgEl(name, attributes, ...children) {
	const element = document.createElementNS(SVG, name);
	for (const [key, value] of Object.entries(attributes ?? {})) element.setAttribute(key, value);
	element.append(...children);
	return element;
}

/*
 * A table of `rows` by columns {title, value: row => raw, shown: row => text, number, wrap, mark: row => class}.
 * `value` goes into saved files as it is, `shown` onto the page; the one stands in for the other. `hidden` ones are for
 * files only, where `name` is the title.
 */
function table(all, rows, caption) {
	const columns = all.filter((column) => !column.hidden);
	const shownIn = (column, row) => {
		const text = column.shown ? column.shown(row) : column.value(row);
		return text === null || text === undefined || text === '' ? '–' : clean(text);
	};
	const classes = (column, row) =>
		[column.number && 'n', column.wrap && 'wrap', row && column.mark?.(row)].filter(Boolean).join(' ') ||
		null;
	return el(
		'div',
		{ class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption },
		el(
			'table',
			null,
			el(
				'thead',
				null,
				el(
					'tr',
					null,
					columns.map((c) => el('th', { scope: 'col', class: classes(c) }, c.title)),
				),
			),
			el(
				'tbody',
				null,
				rows.map((row) =>
					el(
						'tr',
						null,
						columns.map((c) => el('td', { class: classes(c, row) }, shownIn(c, row))),
					),
				),
			),
		),
	);
}

// ---- files

function save(name, type, text) {
	const address = URL.createObjectURL(new Blob([text], { type }));
	el('a', { href: address, download: name }).click();
	setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

function fileName(...parts) {
	return parts
		.map((part) => String(part).replace(/[^A-Za-z0-9._-]+/g, '-'))
		.join('-')
		.replace(/-+/g, '-');
}

// One cell by RFC 4180; a text that a spreadsheet would take for a formula gets an apostrophe in front.
function csvCell(value) {
	if (value === null || value === undefined) return '';
	if (typeof value === 'number') return String(value);
	const text = clean(value);
	const safe = /^[=+\-@]/.test(text) ? `'${text}` : text;
	return /[",\r\n]|^ | $/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

function csvOf(columns, rows) {
	const lines = [
		columns.map((c) => csvCell(c.name ?? c.title)),
		...rows.map((row) => columns.map((c) => csvCell(c.value(row)))),
	];
	return lines.map((line) => `${line.join(',')}\r\n`).join('');
}

function jsonOf(columns, rows) {
	return `${JSON.stringify(
		rows.map((row) => Object.fromEntries(columns.map((c) => [c.name ?? c.title, c.value(row) ?? null]))),
		null,
		1,
	)}\n`;
}

// Colours of the page's own as they are now: a saved picture has no page around it.
function resolved(text) {
	const style = getComputedStyle(document.documentElement);
	return text.replace(/var\((--[a-z0-9-]+)\)/g, (all, name) => style.getPropertyValue(name).trim() || all);
}

// Pictures of one figure below one another, with title and legend.
function svgOf(title, pictures, legend) {
	const FONT = '13px system-ui, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif';
	let height = 34;
	const width = Math.max(...pictures.map((picture) => Number(picture.svg.getAttribute('width'))));
	const inner = [];
	for (const { svg, title: panel } of pictures) {
		if (panel) {
			inner.push(svgEl('text', { x: 12, y: height + 14, fill: 'var(--ink)', 'font-weight': '600' }, panel));
			height += 22;
		}
		const copy = svg.cloneNode(true);
		copy.querySelectorAll('[data-mark=tip]').forEach((tip) => tip.remove());
		copy.setAttribute('y', height);
		inner.push(copy);
		height += Number(svg.getAttribute('height')) + 6;
	}
	let x = 12;
	for (const { label, colour } of legend ?? []) {
		const long = 26 + 7.5 * label.length;
		if (x + long > width && x > 12) {
			x = 12;
			height += 20;
		}
		inner.push(svgEl('rect', { x, y: height + 2, width: 11, height: 11, rx: 2, fill: colour }));
		inner.push(svgEl('text', { x: x + 16, y: height + 12, fill: 'var(--ink)' }, label));
		x += long;
	}
	if (legend?.length) height += 22;
	const whole = svgEl(
		'svg',
		{
			xmlns: SVG,
			width,
			height: height + 6,
			viewBox: `0 0 ${width} ${height + 6}`,
			style: `font: ${FONT}; color: var(--ink)`,
		},
		svgEl('rect', { width: '100%', height: '100%', fill: 'var(--card)' }),
		svgEl('text', { x: 12, y: 22, fill: 'var(--ink)', 'font-weight': '600', 'font-size': 15 }, title),
		...inner,
	);
	return resolved(new XMLSerializer().serializeToString(whole));
}
