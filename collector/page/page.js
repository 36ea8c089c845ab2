// The page: filters, and its parts, made again whenever what is selected changes.
'use strict';

// ---- filters

function choices(legend, name, options, chosen, choose) {
	if (options.length < 2) return null;
	return el(
		'fieldset',
		{ class: 'pick' },
		el('legend', null, legend),
		options.map((option) =>
			el(
				'label',
				null,
				el('input', {
					type: 'radio',
					name,
					value: clean(option),
					checked: option === chosen,
					onchange: () => choose(option),
				}),
				el('span', null, clean(option)),
			),
		),
	);
}

const unique = (list) => [...new Set(list)];

// The setting that has `wanted` and as much as can be of what is selected now.
function nearest(wanted) {
	const now = state.setting;
	const score = (setting) =>
		['scenario', 'track', 'conditions'].reduce(
			(sum, member) =>
				sum + (setting[member] === (wanted[member] ?? now[member]) ? (member in wanted ? 10 : 1) : 0),
			0,
		);
	return settings.reduce((best, setting) => (score(setting) > score(best) ? setting : best), now);
}

function toggled(set, item, on) {
	const copy = new Set(set);
	copy[on ? 'add' : 'delete'](item);
	return copy;
}

function box(name, value, checked, label, change) {
	return el(
		'label',
		{ class: 'chip' },
		el('input', {
			type: 'checkbox',
			name,
			value,
			checked,
			onchange: (event) => change(event.target.checked),
		}),
		el('span', null, label),
	);
}

function filters() {
	const { setting } = state;
	const names = contenders.filter((name) => setting.cells.some((cell) => cell.contender === name));
	const counts = countsOf(setting.cells);
	const all =
		names.every((name) => state.contenders.has(name)) && counts.every((count) => state.sessions.has(count));
	return el(
		'form',
		{ class: 'filters', 'aria-label': 'What is shown', onsubmit: (event) => event.preventDefault() },
		el(
			'fieldset',
			null,
			el('legend', null, 'Contenders'),
			names.map((name) =>
				box('contender', clean(name), state.contenders.has(name), [swatch(name), titleOf(name)], (on) =>
					update({ contenders: toggled(state.contenders, name, on) }),
				),
			),
		),
		choices(
			'Scenario',
			'scenario',
			unique(settings.map((one) => one.scenario)),
			setting.scenario,
			(scenario) => update({ setting: nearest({ scenario }) }),
		),
		choices('Track', 'track', unique(settings.map((one) => one.track)), setting.track, (track) =>
			update({ setting: nearest({ track }) }),
		),
		choices(
			'Conditions',
			'conditions',
			unique(
				settings
					.filter((one) => one.scenario === setting.scenario && one.track === setting.track)
					.map((one) => one.conditions),
			),
			setting.conditions,
			(conditions) => update({ setting: nearest({ conditions }) }),
		),
		counts.length > 1
			? el(
					'fieldset',
					null,
					el('legend', null, 'Sessions'),
					counts.map((count) =>
						box('sessions', count, state.sessions.has(count), THOUSANDS.format(count), (on) =>
							update({ sessions: toggled(state.sessions, count, on) }),
						),
					),
				)
			: null,
		el(
			'div',
			{ class: 'more' },
			box('runs', 'runs', state.runs, 'Single runs', (runs) => update({ runs })),
			el(
				'button',
				{
					type: 'button',
					name: 'reset',
					disabled: all,
					onclick: () =>
						update({
							contenders: new Set(contenders),
							sessions: new Set(summary.cells.map((cell) => cell.sessions)),
						}),
				},
				'Show all',
			),
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
	parts.shown.textContent = `Shown: ${contenders
		.filter((name) => state.contenders.has(name))
		.map(titleOf)
		.join(', ')}; sessions ${countsOf(selectedCells()).join(', ')}.`;
	parts.overview.replaceChildren(...(any ? overview() : [nothing]).flat().filter(Boolean));
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
		(focused?.name
			? [...document.getElementsByName(focused.name)].find((element) => element.value === focused.value)
			: null);
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
		el(
			'nav',
			{ 'aria-label': 'Parts of the report' },
			sections.map(([id, title]) => el('a', { href: `#${id}` }, title)),
		),
	);
	const main = document.getElementById('main');
	main.append(parts.filters, parts.shown, ...sections.map((one) => section(...one)));
	document.getElementById('foot').append(
		el(
			'button',
			{
				type: 'button',
				onclick: () =>
					save(
						fileName(summary.plan.name, 'summary.json'),
						'application/json',
						`${JSON.stringify(summary, null, 1)}\n`,
					),
			},
			'Save summary.json',
		),
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
	addEventListener('beforeprint', () => settleAll(true));
	addEventListener('afterprint', () => settleAll(false));
}

start();
