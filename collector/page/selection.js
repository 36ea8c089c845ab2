// What is selected, and which cells that are.
'use strict';

// What is selected at first: the most sessions that were measured, as shipped.
function richest() {
	const most = (setting) =>
		setting.cells.reduce((max, cell) => Math.max(max, cell.sessions), 0) +
		(setting.track === 'shipped' ? 0.5 : 0);
	return settings.reduce((best, one) => (most(one) > most(best) ? one : best), settings[0]);
}

const state = {
	setting: richest(),
	contenders: new Set(contenders),
	sessions: new Set(summary.cells.map((cell) => cell.sessions)),
	at: null, // the number of sessions of the overview; null: the highest
	runs: false, // draw single runs
	order: null, // of the overview: a column's key; null: the first
};

function selectedCells(setting = state.setting) {
	return setting.cells.filter(
		(cell) => state.contenders.has(cell.contender) && state.sessions.has(cell.sessions),
	);
}

function countsOf(cells) {
	return [...new Set(cells.map((cell) => cell.sessions))].sort((a, b) => a - b);
}

function atNow() {
	const counts = countsOf(selectedCells());
	return counts.includes(state.at) ? state.at : counts[counts.length - 1];
}

/*
 * Startup is of one session, and until the first answer all scenarios are alike: it is taken from the selected setting,
 * or else from another that differs in nothing but the scenario.
 */
function startupSetting() {
	const has = (setting) => setting.cells.some((cell) => figureOf(cell, 'startup_ms').median !== null);
	const { track, conditions } = state.setting;
	const alike = settings.filter((other) => other.track === track && other.conditions === conditions);
	return (
		[state.setting, ...alike.filter((other) => other.scenario === 'one'), ...alike].find(has) ?? state.setting
	);
}

function startupCells() {
	return startupSetting().cells.filter((cell) => cell.sessions === 1 && state.contenders.has(cell.contender));
}

function whereStartup() {
	const from = startupSetting();
	return from === state.setting ? '' : `, measured in scenario ${clean(from.scenario)}`;
}
