// The one thing the page computes again: ratios to another best, when the selection leaves out the best of all.
// As collector/stats.c and collector/cells.c do it; tests/report holds one against the other.
'use strict';

const CONFIDENCE = 0.95;
const EXACT_MAX = 200;

// Pairs i <= j of the sorted values whose mean is at most x.
function meansAtMost(sorted, x) {
	let count = 0;
	for (let i = 0, j = sorted.length - 1; i < sorted.length; i++) {
		while (j >= i && (sorted[i] + sorted[j]) / 2 > x) j--;
		if (j < i) break;
		count += j - i + 1;
	}
	return count;
}

// The k-th smallest (from 1) of the n (n + 1) / 2 means of pairs, without making them: the smallest number that
// has k of them at or below it, found by halving.
function pairMean(sorted, k) {
	let below = sorted[0];
	let at = sorted[sorted.length - 1];
	if (meansAtMost(sorted, below) >= k) return below;
	for (;;) {
		const middle = below + (at - below) / 2;
		if (middle <= below || middle >= at) return at;
		if (meansAtMost(sorted, middle) >= k) at = middle;
		else below = middle;
	}
}

// Chances of the signed-rank sums 0 … n (n + 1) / 2.
function signedRankDistribution(n) {
	const chance = new Float64Array((n * (n + 1)) / 2 + 1);
	chance[0] = 1;
	for (let rank = 1; rank <= n; rank++) {
		for (let t = (rank * (rank + 1)) / 2; t >= 0; t--) {
			chance[t] = (chance[t] + (t >= rank ? chance[t - rank] : 0)) / 2;
		}
	}
	return chance;
}

// P(Z < -z), by the series of erf: good to 1e-15, which is all that is asked of it near 0.025.
function normalTail(z) {
	const x = z / Math.SQRT2;
	if (x > 5) return 0;
	let term = x;
	let sum = x;
	for (let i = 1; Math.abs(term) > 1e-17 * Math.abs(sum); i++) {
		term *= (-x * x) / i;
		sum += term / (2 * i + 1);
	}
	return (1 - (2 / Math.sqrt(Math.PI)) * sum) / 2;
}

const cuts = new Map();

// The largest c with P(T <= c - 1) <= (1 - CONFIDENCE) / 2 and the coverage it gives; c is 0 where there is none.
function signedRankCut(n) {
	const known = cuts.get(n);
	if (known) return known;
	const most = (1 - CONFIDENCE) / 2;
	const top = (n * (n + 1)) / 2;
	const chance = n <= EXACT_MAX ? signedRankDistribution(n) : null;
	const mean = (n * (n + 1)) / 4;
	const deviation = Math.sqrt((n * (n + 1) * (2 * n + 1)) / 24);
	const cut = { at: 0, coverage: 0 };
	let tail = 0;
	for (let t = 0; 2 * (t + 1) <= top; t++) {
		tail = chance ? tail + chance[t] : normalTail((mean - t - 0.5) / deviation);
		if (tail > most) break;
		cut.at = t + 1;
		cut.coverage = 1 - 2 * tail;
	}
	cuts.set(n, cut);
	return cut;
}

// Estimate and interval of Hodges and Lehmann; minimum and maximum, with confidence null, where n is too small.
function hodgesLehmann(values) {
	const sorted = Float64Array.from(values).sort();
	const n = sorted.length;
	const top = (n * (n + 1)) / 2;
	const position = (top - 1) / 2;
	const low = pairMean(sorted, Math.floor(position) + 1);
	const high = position % 1 ? pairMean(sorted, Math.floor(position) + 2) : low;
	const value = low + (position % 1) * (high - low);
	const cut = signedRankCut(n);
	if (!cut.at) return { value, lo: sorted[0], hi: sorted[n - 1], confidence: null, n };
	return {
		value,
		lo: pairMean(sorted, cut.at),
		hi: pairMean(sorted, top - cut.at + 1),
		confidence: cut.coverage,
		n,
	};
}

// The value of each block that has one: of the block's last completed run.
function byBlock(cell, key) {
	const values = new Map();
	const list = cell.figures[key].values ?? [];
	list.forEach((value, i) => {
		if (value !== null) values.set(cell.blocks[i], value);
	});
	return values;
}

// left ÷ right over the blocks that have both: {ratio, lo, hi, confidence, n}, or {missing: why}.
function ratioOf(left, right, key) {
	const others = byBlock(right, key);
	const logs = [];
	for (const [block, value] of byBlock(left, key)) {
		const other = others.get(block);
		if (other === undefined) continue;
		if (value <= 0 || other <= 0) return { missing: 'a value is not above zero: there is no ratio' };
		logs.push(Math.log(value / other));
	}
	if (!logs.length) return { missing: 'no block has both' };
	const { value, lo, hi, confidence, n } = hodgesLehmann(logs);
	return { ratio: Math.exp(value), lo: Math.exp(lo), hi: Math.exp(hi), confidence, n };
}
