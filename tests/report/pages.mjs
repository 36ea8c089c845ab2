// What the tests of the report share: results folders made into pages by the collector, and Debian's Chromium.
//   BUILD: where the programs are; CHROMIUM: another browser

import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import process from 'node:process';
import { pathToFileURL } from 'node:url';

import { chromium } from 'playwright-core';

export const root = resolve(import.meta.dirname, '../..');
export const build = resolve(process.env.BUILD ?? join(root, 'build'));
// a folder of its own for each that runs
export const out = join(build, `report-${basename(process.argv[1], '.mjs')}`);
const fixtures = join(root, 'tests/fixtures/results');
const collector = join(build, 'prefix/bin/collector');

export function report(folder) {
	// 3 says that some runs are not ok or not valid, as is meant here
	execFileSync(collector, ['report', folder], { stdio: ['ignore', 'ignore', 'inherit'] });
	return {
		folder,
		page: pathToFileURL(join(folder, 'report.html')).href,
		summary: JSON.parse(readFileSync(join(folder, 'summary.json'), 'utf8')),
	};
}

function fresh(name) {
	const folder = join(out, name);
	rmSync(folder, { recursive: true, force: true });
	mkdirSync(folder, { recursive: true });
	return folder;
}

const made = new Map();

// A folder that is kept in the repository ("mixed") or made by its generator ("several"), once.
export function pageOf(name) {
	if (made.has(name)) return made.get(name);
	const folder = fresh(name);
	if (existsSync(join(fixtures, name))) cpSync(join(fixtures, name), folder, { recursive: true });
	else execFileSync('python3', [join(fixtures, 'make.py'), name, folder], { stdio: 'inherit' });
	made.set(name, report(folder));
	return made.get(name);
}

// The results of `name` with each record as `change` returns it; without those for which that is null. `around` does
// the same with the environment.
export function pageChanged(name, label, change, around = null) {
	const folder = fresh(`${name}-${label}`);
	pageOf(name);
	cpSync(join(out, name), folder, { recursive: true });
	const lines = readFileSync(join(folder, 'runs.jsonl'), 'utf8').split('\n').filter(Boolean);
	const kept = lines.map((line) => change(JSON.parse(line))).filter((run) => run !== null);
	writeFileSync(join(folder, 'runs.jsonl'), kept.map((run) => `${JSON.stringify(run)}\n`).join(''));
	if (around) {
		const environment = join(folder, 'environment.json');
		writeFileSync(environment, JSON.stringify(around(JSON.parse(readFileSync(environment, 'utf8')))));
	}
	return report(folder);
}

// The same results as if the runs of some contenders had never been.
export function pageWithout(name, contenders) {
	return pageChanged(name, `without-${contenders.join('-')}`, (run) =>
		contenders.includes(run.contender) ? null : run,
	);
}

export function launch() {
	const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';
	// as root, as in a container, Chromium has no sandbox of its own; the pages are ours
	return chromium.launch({ executablePath, args: process.getuid() === 0 ? ['--no-sandbox'] : [] });
}

// Opens a page; what it complains of is collected in `complaints`.
export async function open(browser, address, options = {}) {
	const context = await browser.newContext({ viewport: { width: 1280, height: 1000 }, ...options });
	context.setDefaultTimeout(180_000); // a machine that does other things is no fault of the page's
	const page = await context.newPage();
	page.complaints = [];
	page.on('console', (message) => {
		if (['error', 'warning'].includes(message.type())) page.complaints.push(message.text());
	});
	page.on('pageerror', (error) => page.complaints.push(error.stack));
	page.on('dialog', (dialog) => {
		page.complaints.push(`a dialog: ${dialog.message()}`);
		dialog.dismiss();
	});
	page.on('request', (request) => {
		if (!/^(file|blob|data):/.test(request.url())) page.complaints.push(`a request: ${request.url()}`);
	});
	await page.goto(address);
	return page;
}
