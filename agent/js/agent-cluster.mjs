// The agent of agent.mjs in as many processes as Node.js believes to have CPUs, each with its part of the
// sessions. To the outside it is one agent: this process reads the settings, says `done` once, waits for the
// end of stdin, hands signals on, and exits for all.

import { fork } from 'node:child_process';
import { availableParallelism } from 'node:os';
import process from 'node:process';
import { doneUntilEndOfInput, exit, main, onSignals, runSessions, sessions } from './agent.mjs';

// A process with a part of the sessions: it reports how they ended, and itself ends with its parent.
async function runPart(first, last) {
	let code = 1;
	onSignals((signalled) => exit(signalled, true));
	process.on('disconnect', () => exit(code, true));
	code = (await runSessions(first, last)) ? 0 : 1;
	process.send({ code });
}

function runAll(processes) {
	const workers = [];
	let working = processes;
	let alive = processes;
	let code = 0;
	let ending = false;
	const end = (with_, signal) => {
		ending = true;
		code = with_;
		for (const worker of workers) signal ? worker.kill(signal) : worker.disconnect();
	};
	onSignals((signalled) => end(signalled, 'SIGTERM'));
	for (let k = 0; k < processes; k++) {
		const first = Math.floor((k * sessions) / processes) + 1;
		const last = Math.floor(((k + 1) * sessions) / processes);
		const worker = fork(import.meta.filename, [String(first), String(last)], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
		workers.push(worker);
		worker.on('message', (ended) => {
			code ||= ended.code;
			if (--working === 0 && !ending) doneUntilEndOfInput(() => end(code));
		});
		worker.on('error', () => {}); // a signal or message to one that has ended meanwhile
		worker.on('exit', (status, signal) => {
			alive--;
			if (!ending) {
				process.stderr.write(`agent: the process with sessions s${first} to s${last} ended with ${signal ?? status}\n`);
				end(1, 'SIGTERM');
			}
			if (alive === 0) process.exit(code);
		});
	}
}

const processes = Math.min(availableParallelism(), sessions);
if (process.argv.length === 4) await runPart(Number(process.argv[2]), Number(process.argv[3]));
else if (processes === 1) await main();
else runAll(processes);
