// report.html in a real browser: what it shows is what summary.json says, what is selected, saved and read out is
// right, outside text stays text, and nothing is complained of.
//   make report-test

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import vm from 'node:vm';

import { build, launch, open, out, pageChanged, pageOf, pageWithout, root } from './pages.mjs';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
let browser;

before(async () => {
	browser = await launch();
});

after(() => browser?.close());

// Runs `does` on a fresh page, which must have complained of nothing by then.
async function on(results, does, options) {
	const { page: address, summary } = typeof results === 'string' ? pageOf(results) : results;
	const page = await open(browser, address, options);
	try {
		await does(page, summary);
		assert.deepEqual(page.complaints, []);
	} finally {
		await page.context().close();
	}
}

// ---- the words of the page, worked out here again

const SIZES = {
	ms: [1, 'ms'],
	usec: [1000, 'ms'],
	bytes: [1 << 20, 'MiB'],
	'per GiB': [1, ''],
	'per core': [1, ''],
};

function words(value) {
	if (Math.abs(value) >= 99.95)
		return Math.abs(value) >= 9999.5 ? Math.round(value).toLocaleString('en') : value.toFixed(0);
	if (value === 0) return '0';
	const decimals = Math.min(
		6,
		Math.max(0, 2 - Math.floor(Math.log10(Math.abs(Number(value.toPrecision(3)))))),
	);
	return value.toFixed(decimals);
}

function intervalWords({ lo, hi, confidence, n }, size = 1) {
	if (typeof lo !== 'number' || n < 2) return '';
	return confidence
		? `[${words(lo / size)}, ${words(hi / size)}]`
		: `${words(lo / size)}–${words(hi / size)}`;
}

const yardstick = (name) => name === 'floor'; // by its manifest, in the plans of the generator

function figureOf(cell, key) {
	const figure = cell.figures[key];
	return { ...figure, value: key.includes('.p99') ? figure.pooled : figure.median };
}

const titleIn = (summary, name) => summary.plan.contenders.find((item) => item.name === name)?.title ?? name;

// The rows of a table as texts.
function texts(page, selector) {
	return page.$$eval(`${selector} tbody tr`, (rows) =>
		rows.map((row) => [...row.cells].map((cell) => cell.innerText.trim())),
	);
}

async function openTable(page, figure) {
	await page.locator(`#figure-${figure} > details[id^=table] > summary`).click();
	await page.locator(`#figure-${figure} > details[id^=table] table`).waitFor();
	return texts(page, `#figure-${figure} > details[id^=table]`);
}

async function choose(page, name, value, on = true) {
	const input = page.locator(`input[name="${name}"][value="${value}"]`);
	if ((await input.isChecked()) !== on) await input.click();
}

// ---- figures

// What each cell of the overview must say at `sessions` in `setting`, of the contenders that are not left out.
function overviewOf(summary, setting, sessions, without = []) {
	const cells = summary.cells.filter((cell) => cell.setting === setting && !without.includes(cell.contender));
	const here = cells.filter((cell) => cell.sessions === sessions);
	const expected = new Map();
	const { headline, memory } = {
		headline: summary.settings[setting].suite_tool ? 'overhead_ms' : 'turn_gap_ms',
		memory: 'memory_peak_bytes',
	};
	const more = ['sessions_per_gib', 'sessions_per_core'];
	for (const key of [`${headline}.p50`, `${headline}.p99`, memory, 'cpu_usec_per_turn', ...more]) {
		const known = here.filter((cell) => typeof figureOf(cell, key).value === 'number');
		const sign = more.includes(key) ? -1 : 1;
		const best = known
			.filter((cell) => !yardstick(cell.contender))
			.sort((a, b) => sign * (figureOf(a, key).value - figureOf(b, key).value))[0];
		for (const cell of known) {
			const { value, unit, ratios } = figureOf(cell, key);
			const atLimit = cell.figures[memory].at_least;
			const bound = !atLimit ? '' : key === memory ? '≥ ' : key === 'sessions_per_gib' ? '≤ ' : '';
			const ratio = summary.ratios[ratios?.best];
			let times = cell === best ? 'best' : yardstick(cell.contender) ? 'yardstick' : '';
			if (!times && ratio && ratio.against === best.contender && typeof ratio.ratio === 'number')
				times = `×${words(ratio.ratio)} ${intervalWords(ratio)}`.trim();
			// such as of the pooled p99, where runs have too few turns for one of their own
			if (!times && !more.includes(key)) times = 'no ratio';
			expected.set(`${cell.contender} ${key}`, {
				value,
				words: `${bound}${words(value / SIZES[unit][0])} ${SIZES[unit][1]}`.trim(),
				times,
			});
		}
	}
	return expected;
}

async function shownOverview(page) {
	const rows = await page.$$eval('table.overview td[data-figure]', (cells) =>
		cells.map((cell) => [
			`${cell.closest('tr').dataset.contender} ${cell.dataset.figure}`,
			{
				value: Number(cell.dataset.value),
				words: cell.querySelector('.value').innerText.replace(/\s+/g, ' ').trim(),
				times: cell.querySelector('.times').innerText.replace(/\s+/g, ' ').trim(),
			},
		]),
	);
	return new Map(rows.filter(([name]) => !name.endsWith(' startup_ms')));
}

test('the overview says what summary.json says, at each number of sessions', async () => {
	for (const name of ['several', 'mixed', 'large']) {
		await on(name, async (page, summary) => {
			const at = await page.$$eval('input[name=at]', (inputs) => inputs.map((input) => Number(input.value)));
			assert.ok(at.length >= 2);
			const shown = await page.textContent('.setting');
			const setting = summary.settings.findIndex((one) =>
				shown.startsWith(`${one.scenario} · ${one.track} track`),
			);
			for (const sessions of at) {
				await choose(page, 'at', sessions);
				const expected = overviewOf(summary, setting, sessions);
				assert.ok(expected.size >= 4);
				assert.deepEqual(await shownOverview(page), expected);
			}
		});
	}
});

test('startup comes from the scenario that measured it', async () => {
	await on('several', async (page, summary) => {
		const cell = summary.cells.find((one) => one.scenario === 'one' && one.contender === 'node');
		const startup = page.locator('tr[data-contender=node] td[data-figure=startup_ms] .value');
		assert.match(await startup.innerText(), new RegExp(`^${words(cell.figures.startup_ms.median)}\\s+ms$`));
		assert.match(await page.textContent('#figure-startup h3'), /measured in scenario one/);
	});
});

test('the table behind each chart says what summary.json says', async () => {
	await on('large', async (page, summary) => {
		for (const [figure, key] of [
			['overhead', 'overhead_ms.p50'],
			['memory', 'memory_peak_bytes'],
			['cpu', 'cpu_usec_per_turn'],
		]) {
			const expected = summary.cells.map((cell) => {
				const of = cell.figures[key];
				const [size] = SIZES[of.unit];
				const known = typeof of.median === 'number';
				const ratio = summary.ratios[of.ratios?.best];
				const best = known && !ratio && !yardstick(cell.contender);
				const row = [
					cell.contender,
					String(cell.sessions),
					known ? words(of.median / size) : '–',
					(known && intervalWords(of, size)) || '–',
				];
				row.push(
					best ? 'best' : ratio ? `×${words(ratio.ratio)}` : '–',
					(ratio && intervalWords(ratio)) || '–',
					String(of.n),
				);
				if (figure === 'overhead') row.push('–'); // fewer than 1,000 turns
				return [...row, String(cell.completed), String(cell.attempted)];
			});
			assert.deepEqual(await openTable(page, figure), expected, figure);
		}
	});
});

test('parts of the memory, sizes, times the floor, hypotheses, outcomes and exclusions say what summary.json says', async () => {
	await on('several', async (page, summary) => {
		const cells = summary.cells.filter((cell) => cell.scenario === 'quick' && cell.track === 'shipped');
		const mib = (bytes) => words(bytes / (1 << 20));
		assert.deepEqual(
			await openTable(page, 'memory-parts'),
			cells.map(({ contender, sessions, memory_at_peak: at }) => [
				contender,
				String(sessions),
				String(at.run),
				...['anon', 'file', 'shmem', 'kernel', 'sock', 'remainder', 'memory_peak_bytes'].map((part) =>
					mib(at[part]),
				),
			]),
		);
		const floor = await openTable(page, 'floor');
		assert.equal(floor.length, 9 * 3);
		for (const [contender, sessions, key, times, interval, blocks] of floor) {
			const cell = cells.find((one) => one.contender === contender && one.sessions === Number(sessions));
			const ratio = summary.ratios[cell.figures[key].ratios.yardstick];
			assert.deepEqual([times, interval, blocks], [`×${words(ratio.ratio)}`, intervalWords(ratio), '7']);
		}
		const sizes = await openTable(page, 'sizes');
		const machine = summary.environment.contenders;
		assert.deepEqual(
			sizes
				.filter(([, what]) => what === 'files beside the base image')
				.map(([name, , size]) => [name, size]),
			summary.plan.contenders.map(({ name }) => [name, mib(machine[name].artifact_bytes)]),
		);
		assert.deepEqual(
			sizes
				.filter(([, what]) => what === 'image, compressed above base')
				.map(([name, , size]) => [name, size]),
			['c', 'node', 'bun'].map((name) => [name, mib(machine[name].image_bytes.compressed_above_base)]),
		);
		const without = await page.innerText('#figure-sizes > .note');
		assert.equal(without, 'No sizes of images: Floor (this image was not measured)');
	});
	await on('mixed', async (page, summary) => {
		const hypotheses = await texts(page, 'section[aria-labelledby=hypotheses]');
		assert.deepEqual(
			hypotheses.map((row) => row.slice(0, 2)),
			summary.hypotheses.map((item) => [item.verdict, item.statement]),
		);
		const outcomes = await texts(page, '#table-outcomes');
		assert.deepEqual(
			outcomes.map((row) => row.slice(2, 4)),
			summary.cells.map((cell) => [String(cell.completed), String(cell.attempted)]),
		);
		const sum = (member) => summary.cells.reduce((all, cell) => all + cell[member], 0);
		assert.ok(
			(await page.textContent('section[aria-labelledby=outcomes]')).includes(
				`${sum('completed')} of ${sum('attempted')} attempted runs ended well`,
			),
		);
		const [excluded] = await texts(page, 'section[aria-labelledby=excluded]');
		assert.deepEqual([excluded[0], excluded.at(-1)], ['13', summary.excluded[0].reasons.join('; ')]);
		const failures = await texts(page, '#failures');
		assert.equal(
			failures.length,
			summary.cells.reduce((sum, cell) => sum + cell.failures.length, 0),
		);
	});
});

test('every figure is defined, machine and warnings are told, contenders with what they believe', async () => {
	await on('several', async (page, summary) => {
		const definitions = await page.textContent('section[aria-labelledby=definitions]');
		for (const [name, { definition }] of Object.entries(summary.definitions)) {
			assert.ok(definitions.includes(name) && definitions.includes(definition), name);
		}
		const environment = await page.textContent('section[aria-labelledby=environment]');
		for (const part of [
			'Example CPU',
			'limits.memory_bytes',
			'536870912',
			'node.heap_bytes',
			'125829120',
			'the manifest has none',
		])
			assert.ok(environment.includes(part), part);
		assert.equal(summary.warnings.length, 1);
		await page.locator('#warnings summary').click();
		await page.locator('#warnings ul').waitFor();
		assert.match(
			await page.locator('#warnings').innerText(),
			/^1 warning of the doctor about this machine\s+governor: powersave$/,
		);
		assert.deepEqual(
			await texts(page, 'section[aria-labelledby=environment] [aria-label="Findings of the doctor"]'),
			summary.environment.doctor.map(({ id, status, found }) => [id, status, found]),
		);
	});
});

test('what the doctor found later on stands beside what it found first', async () => {
	const later = [
		{ id: 'governor', status: 'warn', found: 'powersave', remedy: 'set it to performance' },
		{ id: 'swap', status: 'warn', found: '2 GiB of it', remedy: 'swapoff -a' },
	];
	const results = pageChanged(
		'several',
		'resumed',
		(run) => run,
		(environment) => ({
			...environment,
			base_image: null,
			base_image_missing: 'played without containers',
			resumed: [{ started_at: '2026-11-30T10:00:00Z', first_run: 41, doctor: later }],
		}),
	);
	await on(results, async (page, summary) => {
		// what it said before is not said again
		assert.deepEqual(
			summary.warnings.map(({ id, first_run }) => [id, first_run]),
			[
				['governor', undefined],
				['swap', 41],
			],
		);
		await page.locator('#warnings summary').click();
		await page.locator('#warnings ul').waitFor();
		assert.deepEqual(await page.locator('#warnings li').allInnerTexts(), [
			'governor: powersave',
			'swap: 2 GiB of it (when the plan was gone on with, before run 41)',
		]);
		const environment = page.locator('section[aria-labelledby=environment]');
		assert.match(
			await environment.innerText(),
			/What the doctor found before run 41, when the plan was gone on with \(2026-11-30T10:00:00Z\)/,
		);
		assert.deepEqual(
			await texts(page, 'section[aria-labelledby=environment] [aria-label="Findings of the doctor, look 2"]'),
			later.map(({ id, status, found }) => [id, status, found]),
		);
		// what is not known has its reason beside it
		assert.match(await environment.innerText(), /base_image\s+not known: played without containers/);
		assert.doesNotMatch(await environment.innerText(), /base_image_missing/);
	});
});

test('what a session does is told, and so are words, limits that are none, bytes', async () => {
	await on('several', async (page) => {
		const scenario = page.locator('p.scenario');
		assert.equal(
			await scenario.innerText(),
			'quick: 6 turns a session; the first token after 100 ms ±25%, then 9 sends, one every 10 ms ±25%; a system prompt of 8 KiB; ' +
				'1 tool call a turn but the last (the suite’s tool, 5–20 ms); results of 4–8 KiB.',
		);
		const environment = await page.innerText('section[aria-labelledby=environment]');
		assert.match(
			environment,
			/one session, one short turn\. 1 turn a session; the first token after 20 ms, then 3 sends, one every 5 ms; a system prompt of 1 KiB\n/,
		);
		assert.match(environment, /limits\.memory_bytes\s+536870912 \(512 MiB\)/);
		assert.match(environment, /limits\.cpu_quota\s+none/);
		assert.match(environment, /node\.heap_bytes\s+125829120 \(120 MiB\)/);
		await choose(page, 'scenario', 'one');
		assert.match(await scenario.innerText(), /^one: 1 turn a session; [^;]*; a system prompt of 1 KiB\.$/);
		// of this one the plan tells nothing
		await choose(page, 'scenario', 'burst');
		assert.equal(await scenario.count(), 0);
		await page.getByText('What the words mean').click();
		const words = await page.locator('.words dt').allInnerTexts();
		for (const word of ['contender', 'session', 'turn', 'shipped, equalised', 'split, shared', 'cgroup v1, v2', 'floor'])
			assert.ok(words.includes(word), word);
		// it scrolls there smoothly
		await page.waitForFunction(
			() => document.getElementById('definitions').getBoundingClientRect().top < innerHeight,
		);
	});
});

test('runs that were planned and never valid are missed, exclusions counted by reason', async () => {
	const spoilt = (run) => run.contender === 'node' && run.sessions === 3 && run.block <= 3;
	const results = pageChanged('mixed', 'spoilt', (run) =>
		spoilt(run)
			? { ...run, valid: false, invalid_reasons: ['steal: too much', ...(run.block === 1 ? ['late_self: by far'] : [])] }
			: run,
	);
	await on(results, async (page, summary) => {
		const { repetitions } = summary.plan;
		const without = summary.cells.reduce((sum, cell) => sum + repetitions - cell.attempted, 0);
		const cell = summary.cells.find(({ contender, sessions }) => contender === 'node' && sessions === 3);
		assert.equal(cell.attempted, repetitions - 3);
		const attempted = summary.cells.reduce((sum, one) => sum + one.attempted, 0);
		assert.ok(
			(await page.textContent('section[aria-labelledby=outcomes]')).includes(
				`attempted runs ended well. The plan has ${attempted + without}: of ${without} there is no valid run.`,
			),
		);
		assert.equal(
			await page.innerText('tr[data-contender=node] th .times'),
			`${cell.completed}/${cell.attempted} runs, ${repetitions} planned`,
		);
		assert.equal(await page.innerText('tr[data-contender=c] th .times'), `${repetitions}/${repetitions} runs`);
		assert.equal(
			await page.innerText('#table-excluded > summary'),
			'4 runs (steal 3, late_self 2)',
		);
	});
});

test('bars of what is zero or below have a width', async () => {
	const results = pageChanged('several', 'zero', (run) => ({
		...run,
		sessions_per_core: 0,
		cpu_usec_per_turn: run.contender === 'c' ? -2000 : -1000,
	}));
	await on(results, async (page) => {
		const widths = await page.$$eval('table.overview .bar rect', (all) =>
			all.map((one) => Number(one.getAttribute('width'))),
		);
		assert.ok(widths.length >= 20);
		assert.deepEqual(
			widths.filter((width) => !(width > 0 && width <= 100)),
			[],
		);
	});
});

// ---- filters

test('parts stay open or closed as their reader leaves them', async () => {
	await on('mixed', async (page) => {
		const isOpen = (id) => page.locator(`#${id}`).evaluate((part) => part.open);
		const toggle = (id) => page.locator(`#${id} > summary`).click();
		// few rows: open at first
		assert.equal(await isOpen('table-outcomes'), true);
		assert.equal(await isOpen('failures'), true);
		await toggle('table-outcomes');
		await page.locator('#failures > summary').focus();
		await page.keyboard.press('Enter');
		await toggle('table-memory');
		await toggle('table-cpu');
		await toggle('table-cpu');
		const left = async () => [
			await isOpen('table-outcomes'),
			await isOpen('failures'),
			await isOpen('table-memory'),
			await isOpen('table-cpu'),
		];
		assert.deepEqual(await left(), [false, false, true, false]);
		await choose(page, 'contender', 'node', false);
		assert.deepEqual(await left(), [false, false, true, false]);
		assert.equal(await page.locator('#table-memory table').isVisible(), true);
		// printing opens all, also what is made meanwhile, and is no wish of the reader's
		await page.evaluate(() => dispatchEvent(new Event('beforeprint')));
		await choose(page, 'contender', 'node');
		assert.equal(await page.locator('details:not([open])').count(), 0);
		await page.evaluate(() => dispatchEvent(new Event('afterprint')));
		assert.deepEqual(await left(), [false, false, true, false]);
		assert.equal(await isOpen('table-overhead'), false);
	});
});

test('without the best the ratios are those that the collector makes without it', async () => {
	const without = pageWithout('several', ['c']).summary;
	await on('several', async (page) => {
		await choose(page, 'contender', 'c', false);
		const setting = without.settings.findIndex((one) => one.scenario === 'quick' && one.track === 'shipped');
		const expected = overviewOf(without, setting, 40);
		assert.deepEqual(await shownOverview(page), expected);
		assert.equal(expected.get('node overhead_ms.p50').times[0], '×');
		assert.ok(expected.get('bun memory_peak_bytes').times === 'best');
	});
	const large = pageWithout('large', ['c-min', 'c', 'c-dynamic']).summary;
	await on('large', async (page) => {
		for (const name of ['c-min', 'c', 'c-dynamic']) await choose(page, 'contender', name, false);
		assert.deepEqual(await shownOverview(page), overviewOf(large, 0, 1000));
	});
});

test('every ratio of the collector comes out of the page’s own statistics', () => {
	const context = vm.createContext({});
	vm.runInContext(readFileSync(join(root, 'collector/page/statistics.js'), 'utf8'), context);
	let compared = 0;
	let missing = 0;
	const sizes = new Set();
	for (const name of ['mixed', 'several', 'blocks', 'large']) {
		const { summary } = pageOf(name);
		const cellOf = (ratio, contender) =>
			summary.cells.find(
				(cell) =>
					cell.setting === ratio.setting && cell.sessions === ratio.sessions && cell.contender === contender,
			);
		for (const ratio of summary.ratios) {
			const own = context.ratioOf(cellOf(ratio, ratio.contender), cellOf(ratio, ratio.against), ratio.figure);
			if (typeof ratio.ratio !== 'number') {
				assert.equal(own.missing, ratio.missing);
				missing++;
				continue;
			}
			assert.equal(own.n, ratio.n);
			for (const member of ['ratio', 'lo', 'hi', 'confidence']) {
				const close = own[member] === ratio[member] || Math.abs(own[member] / ratio[member] - 1) < 1e-9;
				assert.ok(
					close,
					`${name}: ${ratio.contender}, ${ratio.figure}: ${member} ${own[member]}, collector ${ratio[member]}`,
				);
			}
			sizes.add(own.n);
			compared++;
		}
	}
	assert.ok(compared > 500 && missing > 0);
	// too few for an interval, exact, and beyond
	assert.deepEqual(
		[...sizes].filter((n) => [2, 7, 8, 96, 250].includes(n)).sort((a, b) => a - b),
		[2, 7, 8, 96, 250],
	);
});

test('filters take contenders and sessions out of everything', async () => {
	await on('several', async (page) => {
		const names = () =>
			page.$$eval('figure [data-mark=names] text', (all) =>
				[...new Set(all.map((text) => text.firstChild.data))].sort(),
			);
		assert.deepEqual(await names(), ['Bun 1.4', 'C, libcurl', 'Floor', 'Node.js 24']);
		await choose(page, 'contender', 'node', false);
		await choose(page, 'sessions', 10, false);
		assert.deepEqual(await names(), ['Bun 1.4', 'C, libcurl', 'Floor']);
		assert.deepEqual(
			await page.$$eval('table.overview tbody tr', (rows) => rows.map((row) => row.dataset.contender)),
			['floor', 'c', 'bun'],
		);
		assert.deepEqual(await page.$$eval('input[name=at]', (inputs) => inputs.map((input) => input.value)), [
			'1',
			'40',
		]);
		for (const figure of ['overhead', 'memory', 'cpu', 'startup', 'memory-parts', 'sizes', 'floor']) {
			const rows = await openTable(page, figure);
			assert.ok(rows.length > 0, figure);
			assert.ok(
				rows.every(([name, sessions]) => name !== 'node' && sessions !== '10'),
				figure,
			);
		}
		const outcomes = await texts(page, '#table-outcomes');
		assert.deepEqual(
			outcomes.map((row) => row.slice(0, 2).join(' ')),
			['c 1', 'floor 1', 'bun 1', 'c 40', 'floor 40', 'bun 40'],
		);
		await page.locator('button[name=reset]').click();
		assert.equal((await names()).length, 4);
	});
});

test('scenario and track select other cells, and only such as exist', async () => {
	await on('several', async (page, summary) => {
		const setting = () => page.textContent('.setting');
		const at = (scenario, track) =>
			summary.settings.findIndex((one) => one.scenario === scenario && one.track === track);
		assert.match(await setting(), /^quick · shipped track/);
		await choose(page, 'track', 'equalised');
		assert.deepEqual(await shownOverview(page), overviewOf(summary, at('quick', 'equalised'), 40));
		// burst has no equalised track: the page goes to the one that there is
		await choose(page, 'scenario', 'burst');
		assert.match(await setting(), /^burst · shipped track/);
		const burst = overviewOf(summary, at('burst', 'shipped'), 40);
		assert.deepEqual(await shownOverview(page), burst);
		// its peak was at the limit
		assert.match(burst.get('bun memory_peak_bytes').words, /^≥ /);
		assert.match(burst.get('bun sessions_per_gib').words, /^≤ /);
		await choose(page, 'scenario', 'one');
		assert.deepEqual(await shownOverview(page), overviewOf(summary, at('one', 'shipped'), 1));
	});
	await on('backends', async (page) => {
		assert.deepEqual(
			await page.$$eval('input[name=conditions]', (inputs) =>
				inputs.map((input) => input.value.split(' · ').at(-1)),
			),
			['cgroup v1', 'cgroup v2'],
		);
	});
});

test('where nothing was measured the page says so', async () => {
	const { page } = pageChanged('mixed', 'invalid', (run) => ({
		...run,
		valid: false,
		invalid_reasons: ['steal: too much'],
	}));
	await on({ page }, async (opened) => {
		const lead = await opened.textContent('.lead');
		const [, count] = lead.match(/: of (\d+) runs none is valid \(steal (\d+)\)\. See Runs that do not count\.$/) ?? [];
		assert.match(lead, /^At 3 concurrent sessions no contender has figures: /);
		assert.equal(Number(count), 24);
		assert.equal(await opened.getAttribute('section[aria-labelledby=outcomes] strong', 'class'), 'bad');
		assert.equal(await opened.locator('figure').count(), 0);
		assert.match(await opened.textContent('section[aria-labelledby=outcomes]'), /0 of 0 attempted/);
		assert.equal((await texts(opened, '#table-excluded')).length, 0); // opened on demand
		await opened.locator('#table-excluded summary').click();
		await opened.locator('#table-excluded table').waitFor();
		assert.equal((await texts(opened, '#table-excluded')).length, 52);
	});
});

test('where all failed the page says where that is told', async () => {
	const { page } = pageChanged('mixed', 'failed', (run) => ({ ...run, outcome: 'crashed', outcome_detail: 'died' }));
	await on({ page }, async (opened) =>
		assert.match(
			await opened.textContent('.lead'),
			/^At 3 concurrent sessions no contender has figures\. See Outcomes\.$/,
		),
	);
});

test('few blocks are said to be few', async () => {
	const { page } = pageChanged('several', 'few', (run) => (run.block <= 2 ? run : null));
	await on({ page }, async (opened) =>
		assert.match(await opened.textContent('.lead'), /Of 2 blocks: too few for intervals/),
	);
	await on('several', async (opened) => assert.equal(await opened.locator('.few').count(), 0));
});

test('nothing selected is said, and can be undone', async () => {
	await on('several', async (page) => {
		for (const name of ['c', 'floor', 'node', 'bun']) await choose(page, 'contender', name, false);
		assert.match(await page.textContent('section[aria-labelledby=overview]'), /Nothing is selected/);
		await choose(page, 'contender', 'c');
		assert.equal(await page.locator('table.overview tbody tr').count(), 1);
	});
});

test('single runs are drawn on demand, each', async () => {
	await on('large', async (page, summary) => {
		assert.equal(await page.locator('[data-mark="single runs"]').count(), 0);
		await choose(page, 'runs', 'runs');
		const drawn = await page.$$eval('#figure-memory [data-mark="single runs"] path', (paths) =>
			paths.reduce((sum, path) => sum + path.getAttribute('d').split('M').length - 1, 0),
		);
		assert.equal(
			drawn,
			summary.cells.reduce(
				(sum, cell) =>
					sum + (cell.figures.memory_peak_bytes.values ?? []).filter((value) => value !== null).length,
				0,
			),
		);
	});
});

// ---- pointer and keyboard

// Plot breaks lines with spaces of no width.
async function tipOf(page, figure) {
	return (await page.locator(`#figure-${figure} [data-mark=tip]`).textContent()).replaceAll('\u200b', '');
}

test('values show under the pointer', async () => {
	await on('several', async (page, summary) => {
		const cell = summary.cells.find(
			(one) =>
				one.scenario === 'quick' &&
				one.track === 'shipped' &&
				one.sessions === 40 &&
				one.contender === 'node',
		);
		await page.locator('#figure-memory .chart').scrollIntoViewIfNeeded();
		const dots = page.locator('#figure-memory [data-mark=dot] path');
		const boxes = await dots.evaluateAll((all) => all.map((dot) => dot.getBoundingClientRect().toJSON()));
		const highest = boxes
			.filter((one) => one.x > Math.max(...boxes.map((box) => box.x)) - 3)
			.sort((a, b) => a.y - b.y)[0];
		await page.mouse.move(highest.x + highest.width / 2, highest.y + highest.height / 2);
		await page.locator('#figure-memory [data-mark=tip] text').waitFor();
		const tip = await tipOf(page, 'memory');
		const { median, lo, hi } = cell.figures.memory_peak_bytes;
		const mib = (bytes) => words(bytes / (1 << 20));
		assert.equal(tip, `Node.js 24, 40 sessions${mib(median)} MiB  [${mib(lo)}, ${mib(hi)}]7 of 7 runs`);
	});
});

test('all of it can be had by keyboard', async () => {
	await on('several', async (page) => {
		await page.keyboard.press('Tab');
		const seen = new Set();
		for (let i = 0; i < 60; i++) {
			seen.add(
				await page.evaluate(() =>
					[
						document.activeElement.tagName,
						document.activeElement.name,
						document.activeElement.closest('figure')?.id,
					]
						.filter(Boolean)
						.join(' '),
				),
			);
			await page.keyboard.press('Tab');
		}
		for (const one of [
			'A',
			'INPUT contender',
			'INPUT scenario',
			'INPUT track',
			'INPUT sessions',
			'INPUT runs',
			'BUTTON figure-overhead',
			'svg figure-overhead',
			'SUMMARY figure-overhead',
			'svg figure-startup',
		]) {
			assert.ok(seen.has(one), `${one} has no place in ${[...seen].join(', ')}`);
		}
		// the focus stays on what was used, which the page has made anew
		await page.locator('input[name=contender][value=node]').focus();
		await page.keyboard.press('Space');
		assert.deepEqual(
			await page.evaluate(() => [document.activeElement.value, document.activeElement.checked]),
			['node', false],
		);
		await page.locator('#figure-cpu .chart').focus();
		await page.keyboard.press('ArrowRight');
		const told = page.locator('#figure-cpu .told');
		assert.match(await told.textContent(), /^C, libcurl, 1 session\n/);
		assert.match(await tipOf(page, 'cpu'), /^C, libcurl, 1 session/);
		await page.keyboard.press('ArrowLeft');
		assert.match(await told.textContent(), /^Bun 1.4, 40 sessions\n/);
		await page.keyboard.press('Escape');
		await page.locator('#sort-startup_ms').focus();
		await page.keyboard.press('Enter');
		assert.equal(await page.evaluate(() => document.activeElement.id), 'sort-startup_ms');
		assert.equal(await page.getAttribute('th:has(#sort-startup_ms)', 'aria-sort'), 'ascending');
	});
});

// ---- access

for (const [view, options] of Object.entries({
	light: {},
	dark: { colorScheme: 'dark' },
	narrow: { viewport: { width: 390, height: 844 } },
	'high contrast': { forcedColors: 'active' },
})) {
	test(`axe finds nothing, ${view}`, async () => {
		for (const name of ['several', 'mixed']) {
			const { page: address } = pageOf(name);
			// axe is brought in by the debugger, past the policy, which stays as it is for the page
			const page = await open(browser, address, options);
			await page.evaluate(() => document.querySelectorAll('details').forEach((part) => (part.open = true)));
			await page.evaluate(axe);
			const { violations } = await page.evaluate(() => window.axe.run());
			assert.deepEqual(
				violations.map(
					({ id, impact, nodes }) => `${impact} ${id}: ${nodes[0].html}: ${nodes[0].failureSummary}`,
				),
				[],
			);
			const wide = await page.evaluate(
				() => document.documentElement.scrollWidth - document.documentElement.clientWidth,
			);
			assert.ok(wide <= 0, `${name}: the page is ${wide} px wider than the window`);
			assert.deepEqual(page.complaints, []);
			await page.context().close();
		}
	});
}

// ---- hostile names

const FORBIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/;

async function saved(page, button) {
	const [download] = await Promise.all([page.waitForEvent('download'), button.click()]);
	return { name: download.suggestedFilename(), text: readFileSync(await download.path(), 'utf8') };
}

test('hostile names stay text', async () => {
	await on('mixed', async (page) => {
		for (const part of await page.locator('details').all()) await part.evaluate((one) => (one.open = true));
		const elements = await page.$$eval('body *', (all) => [...new Set(all.map((one) => one.localName))]);
		for (const name of ['img', 'iframe', 'object', 'embed', 'i', 'link'])
			assert.ok(!elements.includes(name), name);
		assert.equal(await page.locator('script').count(), 3);
		assert.equal(
			await page.evaluate(
				() =>
					[...document.querySelectorAll('*')].filter((one) =>
						[...one.attributes].some((at) => /^on/i.test(at.name)),
					).length,
			),
			0,
		);
		const text = await page.evaluate(() => document.body.innerText);
		for (const part of [
			'<script>alert(1)</script>',
			'Bun <img src=x onerror=alert(2)>',
			"=cmd|' /C calc'!A0",
			'?[31m<b>expected</b> |a|',
			'<b>and</b> hostile',
		])
			assert.ok(text.includes(part), part);
		assert.doesNotMatch(text, FORBIDDEN);
	});
});

test('injected markup could not run', async () => {
	const page = await open(browser, pageOf('mixed').page);
	const failed = [];
	page.on('requestfailed', (request) => failed.push(request.failure().errorText));
	await page.evaluate(() => {
		const script = document.createElement('script');
		script.textContent = 'window.ran = true';
		document.body.append(script);
		document.body.insertAdjacentHTML(
			'beforeend',
			'<img src="http://127.0.0.1:9/x" onerror="window.ran = true">',
		);
	});
	await page.waitForTimeout(100);
	assert.equal(await page.evaluate(() => window.ran), undefined);
	assert.ok(page.complaints.some((text) => /Content Security Policy/.test(text)));
	assert.deepEqual(failed, ['csp']);
	await page.context().close();
});

test('what the page says without a script', async () => {
	await on(
		'mixed',
		async (page) => {
			const text = await page.textContent('noscript');
			assert.match(text, /contender +sessions/);
			assert.match(text, /<script>alert\(1\)/);
		},
		{ javaScriptEnabled: false },
	);
});

// ---- files

// RFC 4180
function parseCsv(text) {
	const rows = [[]];
	for (const [, quoted, plain, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n)/g)) {
		rows.at(-1).push(quoted === undefined ? plain : quoted.replaceAll('""', '"'));
		if (end !== ',') rows.push([]);
	}
	rows.pop();
	return rows;
}

test('saved files hold what is selected', async () => {
	await on('mixed', async (page, summary) => {
		const figure = page.locator('#figure-memory');
		const csv = await saved(page, figure.getByText('CSV'));
		assert.equal(csv.name, 'mixed-memory.csv');
		const [titles, ...rows] = parseCsv(csv.text);
		assert.equal(rows.length, summary.cells.length);
		const column = (name) => titles.indexOf(name);
		rows.forEach((row, i) => {
			const cell = summary.cells[i];
			const { median, lo, hi, n, values } = cell.figures.memory_peak_bytes;
			const expected = [median, lo, hi].map((value) => (value === null ? '' : String(value)));
			assert.deepEqual(
				['median', 'lo', 'hi'].map((name) => row[column(`memory_peak_bytes ${name}`)]),
				expected,
			);
			assert.equal(row[column('memory_peak_bytes n')], String(n));
			assert.equal(row[column('memory_peak_bytes values')], (values ?? []).join(' '));
			assert.ok(!/^[=+\-@]/.test(row[0]), row[0]);
		});
		assert.ok(rows.some((row) => row[0] === "'=cmd|' /C calc'!A0"));
		assert.doesNotMatch(csv.text.replaceAll('\r\n', ''), FORBIDDEN);

		await choose(page, 'contender', 'node', false);
		const json = JSON.parse((await saved(page, figure.getByText('JSON'))).text);
		assert.deepEqual(
			json.map((row) => [row.contender, row.sessions, row['memory_peak_bytes median']]),
			summary.cells
				.filter((cell) => cell.contender !== 'node')
				.map((cell) => [cell.contender, cell.sessions, cell.figures.memory_peak_bytes.median]),
		);

		const whole = await saved(page, page.getByText('Save summary.json'));
		assert.deepEqual(JSON.parse(whole.text), summary);
	});
});

test('saved pictures stand alone', async () => {
	await on('several', async (page) => {
		for (const figure of ['overhead', 'memory-parts', 'floor']) {
			const { name, text } = await saved(page, page.locator(`#figure-${figure}`).getByText('SVG'));
			assert.equal(name, `several-${figure}.svg`);
			assert.doesNotMatch(text, /var\(|NaN|undefined/);
			const parsed = await page.evaluate((svg) => {
				const whole = new DOMParser().parseFromString(svg, 'image/svg+xml');
				return {
					error: whole.querySelector('parsererror')?.textContent,
					root: whole.documentElement.localName,
					texts: [...whole.querySelectorAll('text')].map((one) => one.firstChild?.data),
				};
			}, text);
			assert.equal(parsed.error, undefined);
			assert.equal(parsed.root, 'svg');
			assert.ok(parsed.texts.includes('Node.js 24'), figure);
		}
	});
});

test('charts have no value that is none', async () => {
	for (const name of ['several', 'mixed', 'large', 'backends']) {
		await on(name, async (page) => {
			for (const scenario of await page
				.$$eval('input[name=scenario]', (all) => all.map((one) => one.value))
				.then((all) => (all.length ? all : [null]))) {
				if (scenario) await choose(page, 'scenario', scenario);
				const markup = await page.$$eval('.chart', (all) => all.map((one) => one.outerHTML).join(''));
				assert.ok(markup.length > 1000);
				assert.doesNotMatch(markup, /NaN|Infinity|undefined/);
			}
		});
	}
});

test('contenders differ in shape, in the charts as in the legend', async () => {
	await on('large', async (page) => {
		const corners = (paths) => [...new Set(paths)].map((path) => (path.match(/[LlHhVv]/g) ?? []).length).sort((a, b) => a - b);
		const drawn = await page.$$eval('#figure-memory [data-mark=dot] path', (all) => all.map((one) => one.getAttribute('d')));
		const swatches = await page.$$eval('.filters .swatch path:last-child', (all) => all.map((one) => one.getAttribute('d')));
		// circle; triangle; square and two diamonds; star: one each, so that none is taken for another
		assert.deepEqual(corners(drawn), [0, 2, 3, 3, 3, 9]);
		assert.equal(new Set(swatches).size, 6);
		assert.equal(swatches.filter((path) => (path.match(/[Ll]/g) ?? []).length === 9).length > 0, true);
	});
});

test('an axis says what its scale is', async () => {
	await on('several', async (page) => {
		const labels = (figure, axis) => page.locator(`#figure-${figure} [data-mark="${axis}-axis label"]`).allTextContents();
		assert.deepEqual(await labels('overhead', 'y'), ['↑ ms, logarithmic']);
		assert.deepEqual(await labels('startup', 'x'), ['ms, logarithmic →']);
		assert.equal((await labels('memory-parts', 'x'))[0], 'MiB →');
		// values below zero have no logarithm
		await choose(page, 'scenario', 'burst');
		assert.deepEqual(await labels('overhead', 'y'), ['↑ ms']);
	});
});

test('labels of an axis do not run into each other', async () => {
	for (const viewport of [
		{ width: 1280, height: 1000 },
		{ width: 390, height: 844 },
	]) {
		const overlaps = (charts) =>
			charts.flatMap((chart) => {
				const labels = [...chart.querySelectorAll('[data-mark="x-axis tick label"] text')];
				const boxes = labels.map((label) => label.getBoundingClientRect()).sort((a, b) => a.x - b.x);
				return boxes
					.slice(1)
					.filter((box, i) => box.x < boxes[i].right)
					.map(() => chart.ariaLabel);
			});
		for (const name of ['several', 'large', 'mixed']) {
			await on(
				name,
				async (page) => {
					assert.ok((await page.locator('[data-mark="x-axis tick label"] text').count()) > 4);
					assert.deepEqual(await page.$$eval('.chart', overlaps), []);
				},
				{ viewport },
			);
		}
	}
});

// ---- print, sizes, and what the page is made of

test('in print there are no controls, and tables are open', async () => {
	await on('several', async (page) => {
		await page.emulateMedia({ media: 'print' });
		await page.pdf({ path: join(out, 'print.pdf'), format: 'A4', printBackground: true });
		for (const one of ['.bar', '.buttons', 'nav'])
			assert.equal(await page.locator(one).first().isVisible(), false, one);
		assert.match(
			await page.locator('.shown').innerText(),
			/^Shown: C, libcurl, Floor, Node.js 24, Bun 1.4; sessions 1, 10, 40/,
		);
		await page.evaluate(() => dispatchEvent(new Event('beforeprint')));
		assert.equal(await page.locator('details:not([open])').count(), 0);
		assert.equal(await page.locator('#table-overhead table').isVisible(), true);
		await page.evaluate(() => dispatchEvent(new Event('afterprint')));
		assert.equal(await page.locator('#table-overhead table').isVisible(), false);
	});
});

// Times are bench-report's; here it is that the page does not grow with the runs.
test('ten thousand runs make no larger page than a thousand', async () => {
	await on('large', async (page, summary) => {
		assert.ok(summary.runs > 9900);
		await choose(page, 'runs', 'runs');
		const count = await page.evaluate(() => document.querySelectorAll('*').length);
		assert.ok(count < 12_000, `${count} elements`);
	});
});

test('the sample report opens', async () => {
	await on({ page: pathToFileURL(join(root, 'docs/sample-report.html')).href }, async (page) => {
		const summary = await page.evaluate(() =>
			JSON.parse(document.getElementById('turnmeter-data').textContent),
		);
		assert.ok(summary.cells.length >= 8);
		const at = await page.$$eval('input[name=at]', (inputs) =>
			Math.max(...inputs.map((input) => Number(input.value))),
		);
		assert.deepEqual(await shownOverview(page), overviewOf(summary, 0, at));
	});
});

test('plot.js is what its lock file makes', () => {
	const committed = readFileSync(join(root, 'collector/page/plot.js'));
	assert.ok(committed.equals(readFileSync(join(build, 'page/plot.js'))), 'run make page-bundle');
});
