// The sample report and the README's picture of it, from a folder of real results:
//   make report-sample RESULTS=results/quick-…
// docs/sample-report.html is the page of these results, docs/report.png its first screen. The results folder is left as it is.

import { cpSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';

import { launch, open, out, report, root } from './pages.mjs';

const results = process.env.RESULTS;
if (!results) {
	console.error('make report-sample: RESULTS is not set: must be a folder of results');
	process.exit(2);
}
const folder = join(out, 'results');
rmSync(folder, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
cpSync(results, folder, { recursive: true });
const { page: address } = report(folder);
cpSync(join(folder, 'report.html'), join(root, 'docs/sample-report.html'));

const browser = await launch();
const page = await open(browser, address, { viewport: { width: 1284, height: 1200 } });
// down to the end of the first two charts
const { y, height } = await page.locator('#figure-overhead').boundingBox();
const clip = { x: 0, y: 0, width: 1284, height: Math.ceil(y + height + 16) };
await page.screenshot({ path: join(root, 'docs/report.png'), fullPage: true, clip });
if (page.complaints.length) throw new Error(page.complaints.join('\n'));
await browser.close();
