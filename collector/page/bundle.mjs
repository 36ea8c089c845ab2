// Makes plot.js: the part of Observable Plot that plot.mjs names, minified, with the licences of all that is in it.
//   node bundle.mjs FILE        (in a folder with node_modules as package-lock.json has them)

import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { argv } from 'node:process';

import { build } from 'esbuild';

const result = await build({
	entryPoints: ['plot.mjs'],
	bundle: true,
	minify: true,
	format: 'iife',
	globalName: 'Plot',
	target: 'es2022',
	charset: 'ascii', // a digest is of bytes: the page's encoding must not matter
	legalComments: 'none', // they stand below, once each
	metafile: true,
	write: false,
});

// Packages by their licence's text; many have the same but for the name.
const packages = new Map();
for (const path of Object.keys(result.metafile.inputs)) {
	const name = /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1];
	if (name) packages.set(name, join('node_modules', name));
}
const licences = new Map();
for (const [name, folder] of [...packages].sort()) {
	const { version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
	const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
	if (!file || !existsSync(join(folder, file))) throw new Error(`${name}: has no licence file`);
	const text = readFileSync(join(folder, file), 'utf8').trim();
	licences.set(text, [...(licences.get(text) ?? []), `${name} ${version}`]);
}
const words = [...licences].map(([text, names]) => `${names.join(', ')}\n\n${text}`).join('\n\n----\n\n');
if (/\*\/|<\/script|<!--/i.test(words))
	throw new Error('a licence would end the comment or the script element');

writeFileSync(argv[2], `/* Made by make page-bundle. */\n${result.outputFiles[0].text}/*\n${words}\n*/\n`);
