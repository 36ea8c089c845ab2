// Tool processes, and the bytes of a tool message.

import { execFileSync } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { assistant, calling, exec, final, shell, tool } from '../wire.mjs';

// A row: one call and the content of its tool message; a function of the context for what is not fixed.
const row = (name, about, toolCall, want, more = {}) => ({
	name: `tool/${name}`,
	about,
	answers: [calling(toolCall), final()],
	check: (context) => {
		const content = context.requests[1]?.json?.messages?.[3]?.content;
		if (typeof want === 'function') want(content, context);
		else context.check.equal(content, want, 'content');
		more.also?.(context);
	},
	...more,
});
const sh = (name, about, command, want, more) => row(name, about, shell(command), want, more);
const max = (bytes) => ({ env: { AGENT_TOOL_OUTPUT_MAX: String(bytes) } });
const timeout = (ms) => ({ env: { AGENT_TOOL_TIMEOUT_MS: String(ms) } });
const quick = (ms) => ({ also: ({ check, requests }) => check.between(requests[1].atMs - requests[0].atMs, 0, ms, 'milliseconds from request to request') });
const longer = (ms) => ({ also: ({ check, requests }) => check.between(requests[1].atMs - requests[0].atMs, ms, ms + 6000, 'milliseconds from request to request') });

// Octal escapes for printf of sh, so that any byte can be made.
const printf = (bytes) => `printf '${[...bytes].map((byte) => `\\${byte.toString(8).padStart(3, '0')}`).join('')}'`;
const decoded = (bytes) => new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);

const INVALID = [
	[0x61, 0x80, 0x62], // a lone continuation
	[0xc3], // a sequence cut at the end
	[0xe2, 0x82, 0x61], // two bytes of three, then another character: one U+FFFD
	[0xf0, 0x9f, 0x98, 0x61],
	[0xf0, 0x9f, 0x98],
	[0xc0, 0xaf, 0x21], // overlong: two
	[0xe0, 0x80, 0xaf],
	[0xed, 0xa0, 0xbd, 0xed, 0xb8, 0x80], // surrogates: six
	[0xf4, 0x90, 0x80, 0x80], // beyond U+10FFFF
	[0xf5, 0xff, 0xfe],
	[0xe2, 0xe2, 0x82, 0xac],
	[0xef, 0xbb, 0xbf, 0x61], // a byte order mark stays
	[0x61, 0xef, 0xbf, 0xbe], // a noncharacter stays
	[0xf0, 0x80, 0x80, 0x41],
	[0xf1, 0x80, 0x41, 0xf1],
];

// What a child of ours has open: 0 to 3 (ls reads the folder), and what this process was started with.
const OWN_DESCRIPTORS = new Set(execFileSync('ls', ['/proc/self/fd'], { encoding: 'utf8' }).trim().split('\n'));

const alive = (pid) => {
	try {
		return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
	} catch {
		return false;
	}
};
const diesSoon = async (pid) => {
	for (let k = 0; k < 100 && alive(pid); k++) await new Promise((resolve) => setTimeout(resolve, 50));
	return !alive(pid);
};

export default [
	sh('stdout', 'stdout as it is', 'echo one; echo two', 'one\ntwo\n'),
	sh('no-line-end', 'no line end is added', 'printf one', 'one'),
	sh('nothing', 'no output: an empty message', ':', ''),
	sh('streams', 'stdout, then stderr, whatever came first', 'echo e >&2; echo o; echo f >&2', 'o\ne\nf\n'),
	sh('streams-unterminated', 'nothing between them', 'printf e >&2; printf o', 'oe'),
	row('argv', 'exec passes arguments as they are', exec(['printf', '[%s]', '', 'a b', "q'\"", '$HOME *', 'é\n', '-n']), '[][a b][q\'"][$HOME *][é\n][-n]'),
	row('argv-one', 'a program without arguments', exec(['true']), ''),
	row('path', 'exec finds a program in PATH', exec(['expr', '1', '+', '1']), '2\n'),
	row('path-absolute', 'exec takes a path', exec(['/bin/sh', '-c', 'echo $0']), '/bin/sh\n'),
	row('path-relative', 'a path with a slash is taken from the working directory', exec(['./prompt']), '[exit 126]'),
	sh('shell', 'shell is /bin/sh -c', 'echo $0 $#', '/bin/sh 0\n'),
	sh('cwd', 'the working directory is the agent\'s', 'pwd -P', (content, { check, scratch }) => check.equal(content, `${scratch}\n`, 'content')),
	sh('environment', 'the environment is the agent\'s', 'echo "$PROBE:$OPENAI_MODEL"', 'a b:conformance\n', { env: { PROBE: 'a b' } }),
	sh('stdin', 'stdin is /dev/null', 'cat; readlink /proc/self/fd/0', '/dev/null\n'),
	row('descriptors', 'no other descriptors are inherited', exec(['ls', '/proc/self/fd']), (content, { check }) => {
		const had = content?.trim().split('\n') ?? [];
		for (const fd of ['0', '1', '2']) check.ok(had.includes(fd), `descriptor ${fd} is missing`);
		for (const fd of had) check.ok(OWN_DESCRIPTORS.has(fd), `descriptor ${fd} was inherited`);
	}),
	row('signals', 'no signal is blocked or ignored', exec(['grep', '-E', '^Sig(Blk|Ign)', '/proc/self/status']), (content, { check }) => {
		const masks = [...(content ?? '').matchAll(/^Sig...:\t([0-9a-f]{16})$/gm)].map((match) => BigInt(`0x${match[1]}`));
		check.equal(masks.length, 2, 'number of masks');
		// 32 and 33 are the C library's own; posix_spawn of whoever started the suite may have left them ignored.
		for (const mask of masks) check.equal((mask & ~(3n << 31n)).toString(16), '0', 'signals blocked or ignored');
	}),
	sh('sigpipe', 'a tool dies of SIGPIPE as in a shell', '(yes; echo "$?" >status) | head -n 1; sleep 0.2; cat status', 'y\n141\n'),
	row('process-group', 'a process group of its own', exec(['cut', '-d', ' ', '-f', '1,5', '/proc/self/stat']), (content, { check, result }) => {
		const [pid, group] = (content ?? '').trim().split(' ');
		check.equal(group, pid, 'process group');
		check.ok(pid !== String(result.pid), 'the agent itself ran the program');
	}),
	sh('exit', 'a status that is not 0', 'exit 3', '[exit 3]'),
	sh('exit-after-line', 'after text that ends in a line end', 'echo a; exit 1', 'a\n[exit 1]'),
	sh('exit-after-text', 'after text that does not', 'printf a; exit 255', 'a\n[exit 255]'),
	sh('exit-stderr', 'after stderr', 'echo a; printf b >&2; exit 2', 'a\nb\n[exit 2]'),
	sh('signal-kill', 'killed: 128 + 9', 'kill -KILL $$', '[exit 137]'),
	sh('signal-segv', 'crashed: 128 + 11', 'echo a; kill -SEGV $$', 'a\n[exit 139]'),
	sh('signal-term', 'terminated: 128 + 15', 'kill -TERM $$', '[exit 143]'),
	sh('signal-realtime', 'a real-time signal: 128 + 34, never success', 'kill -34 $$', '[exit 162]'),
	row('not-found', 'a program that was not found', exec(['no-such-program-anywhere']), '[exit 127]'),
	row('not-found-path', 'a path that was not found', exec(['/no/such/program', 'x']), '[exit 127]'),
	row('not-executable', 'a file that cannot be executed', exec(['/etc/passwd']), '[exit 126]'),
	row('directory', 'a directory', exec(['/']), '[exit 126]'),
	row('name-empty', 'an empty name', exec(['']), (content, { check }) => check.ok(/^\[exit 12[67]\]$/.test(content), `content is ${JSON.stringify(content)}`)),
	row('arguments-too-long', 'more than the kernel takes in one argument', exec(['echo', 'x'.repeat(200_000)]), '[exit 126]'),
	sh('shell-not-found', 'the shell says so itself', 'no-such-program-anywhere 2>/dev/null', '[exit 127]'),
	sh('exit-126', 'a 126 of the tool\'s own', 'exit 126', '[exit 126]'),
	{
		name: 'tool/not-found-beside-others',
		about: 'one call of several cannot be started',
		answers: [calling(shell('echo a', 'a', 0), exec(['no-such-program-anywhere'], 'b', 1), shell('echo c', 'c', 2)), final()],
		history: [assistant(null, shell('echo a', 'a', 0), exec(['no-such-program-anywhere'], 'b', 1), shell('echo c', 'c', 2)), tool('a\n', 'a'), tool('[exit 127]', 'b'), tool('c\n', 'c')],
	},
	{
		name: 'tool/invalid-utf8',
		about: 'every maximal invalid sequence becomes U+FFFD',
		answers: [calling(...INVALID.map((bytes, k) => shell(printf(bytes), `id${k}`, k))), final()],
		check: ({ check, requests }) => INVALID.forEach((bytes, k) => check.equal(requests[1].json.messages[3 + k].content, decoded(Buffer.from(bytes)), `bytes ${Buffer.from(bytes).toString('hex')}`)),
	},
	sh('invalid-utf8-across', 'each stream is decoded on its own', `${printf([0x61, 0xc3])}; ${printf([0xa9, 0x62])} >&2`, 'a\ufffd\ufffdb'),
	sh('nul', 'NUL bytes stay', "printf 'a\\000b'", 'a\0b'),
	sh('cap-exact', 'a text as long as the cap is whole', 'printf 0123456789abcdef', '0123456789abcdef', max(16)),
	sh('cap-exceeded', 'one byte more is cut', 'printf 0123456789abcdefg', '0123456789abcdef\n[truncated]', max(16)),
	sh('cap-at-line-end', 'no second line end after a cut that ends in one', "printf '0123456789abcde\\nfgh'", '0123456789abcde\n[truncated]', max(16)),
	sh('cap-in-character', 'a cut keeps whole characters', "printf '0123456789abcd\\360\\237\\230\\200x'", '0123456789abcd\n[truncated]', max(16)),
	sh('cap-in-character-2', 'the same with two bytes', "printf '0123456789abcde\\303\\251'", '0123456789abcde\n[truncated]', max(16)),
	sh('cap-character-fits', 'a character that just fits', "printf '0123456789abcd\\303\\251'", '0123456789abcdé', max(16)),
	sh('cap-across-streams', 'the cap counts both streams', 'printf 0123456789; printf abcdefghij >&2', '0123456789abcdef\n[truncated]', max(16)),
	sh('cap-between-streams', 'stdout fills the cap, stderr is cut whole', 'printf 0123456789abcdef; printf x >&2', '0123456789abcdef\n[truncated]', max(16)),
	sh('cap-replacements', 'U+FFFD counts as three bytes', "printf '\\377\\377\\377\\377\\377\\377'", '\ufffd'.repeat(5) + '\n[truncated]', max(16)),
	sh('cap-and-status', 'cut, and a status', 'printf 0123456789abcdefg; exit 7', '0123456789abcdef\n[truncated]\n[exit 7]', max(16)),
	sh('cap-default', 'the default cap is 65536 bytes', 'head -c 65537 /dev/zero | tr "\\0" x', 'x'.repeat(65_536) + '\n[truncated]'),
	sh('cap-default-exact', '65536 bytes are whole', 'head -c 65536 /dev/zero | tr "\\0" x', 'x'.repeat(65_536)),
	sh('drained', 'output still in the pipe at exit is not lost', 'head -c 60000 /dev/zero | tr "\\0" x; head -c 60000 /dev/zero | tr "\\0" y >&2', 'x'.repeat(60_000) + 'y'.repeat(60_000), max(200_000)),
	sh('both-large', 'both streams large at once: no deadlock', 'head -c 3000000 /dev/zero | tr "\\0" y >&2 & head -c 3000000 /dev/zero | tr "\\0" x; wait', 'x'.repeat(65_536) + '\n[truncated]'),
	sh('both-large-whole', 'both streams large and whole', 'head -c 700000 /dev/zero | tr "\\0" y >&2 & head -c 700000 /dev/zero | tr "\\0" x; wait', 'x'.repeat(700_000) + 'y'.repeat(700_000), max(2_000_000)),
	sh('endless', 'endless output is drained and dropped until the timeout', 'yes', 'y\n'.repeat(32_768) + '[truncated]\n[timeout]', timeout(700)),
	sh('background', 'a background child that keeps the pipe: ended at the exit, and it stays', 'sleep 20 & echo $!', (content, { check }) => {
		const pid = Number(content?.trim());
		check.ok(pid > 1, `content is ${JSON.stringify(content)}`);
		check.ok(alive(pid), 'the background child was ended');
		if (pid > 1 && alive(pid)) process.kill(pid, 'SIGKILL');
	}, quick(8000)),
	sh('background-status', 'the same with a status', '(sleep 20 & echo $! >bg); exit 4', '[exit 4]', {
		also: ({ check, requests, scratch }) => {
			check.between(requests[1].atMs - requests[0].atMs, 0, 8000, 'milliseconds from request to request');
			process.kill(Number(readFileSync(`${scratch}/bg`)), 'SIGKILL');
		},
	}),
	sh('background-writes', 'what comes within 100 ms of the exit counts', '(sleep 0.02; echo late; exec sleep 20) & echo $! >bg', 'late\n', {
		also: ({ scratch }) => process.kill(Number(readFileSync(`${scratch}/bg`)), 'SIGKILL'),
	}),
	sh('background-floods', 'a background child that floods the pipe: ended all the same', '(exec timeout 5 yes) & sleep 0.1', 'y\n'.repeat(32_768) + '[truncated]', quick(4500)),
	sh('closes-output', 'a tool that closes its output and works on', 'echo a; exec >&- 2>&-; sleep 0.5; exit 5', 'a\n[exit 5]', longer(500)),
	sh('timeout', 'the time limit: TERM to the whole group', 'echo a; sleep 30', 'a\n[timeout]', { ...timeout(300), ...quick(8000) }),
	{
		name: 'tool/timeout-group',
		about: 'children of the tool end with it',
		async run({ check, start, server }) {
			let pids = [];
			server.answers = [calling(shell('sleep 30 & sleep 31 & echo $! $$; wait')), [({ request }) => {
				pids = request.json.messages[3].content.split('\n')[0].split(' ').map(Number);
				check.equal(request.json.messages[3].content.split('\n')[1], '[timeout]', 'status line');
			}, ...final()]];
			const result = await start({ AGENT_TOOL_TIMEOUT_MS: '300' }).ended;
			check.equal(result.exit?.code, 0, 'exit code');
			check.equal(pids.length, 2, 'number of pids');
			for (const pid of pids) check.ok(await diesSoon(pid), `process ${pid} of the group lives on`);
		},
	},
	sh('timeout-handled', 'a tool that ends itself at TERM, with a last word', 'exec 2>/dev/null; trap "echo bye; exit 0" TERM; echo a; while :; do sleep 0.05; done', 'a\nbye\n[timeout]', timeout(500)),
	sh('timeout-ignored', 'a tool that ignores TERM: KILL after 500 ms', 'trap "" TERM; echo a; while :; do sleep 0.05; done', 'a\n[timeout]', { ...timeout(400), ...longer(890) }),
	{
		name: 'tool/timeout-child-ignores',
		about: 'the tool ends at TERM, a child of it ignores it: KILL reaches the child',
		async run({ check, start, server, scratch }) {
			server.answers = [calling(shell('(trap "" TERM; echo $$ >/dev/null; exec sleep 30) & echo $! >child; wait')), final()];
			const result = await start({ AGENT_TOOL_TIMEOUT_MS: '400' }).ended;
			check.equal(result.exit?.code, 0, 'exit code');
			check.equal(server.requests[1].json.messages[3].content, '[timeout]', 'content');
			const pid = Number(readFileSync(`${scratch}/child`));
			check.ok(await diesSoon(pid), 'the child lives on');
		},
	},
	{
		name: 'tool/timeout-one-of-two',
		about: 'the limit of one call does not touch the other',
		env: { AGENT_TOOL_TIMEOUT_MS: '1000' },
		answers: [calling(shell('sleep 30', 'a', 0), shell('sleep 0.2; echo b', 'b', 1)), final()],
		history: [assistant(null, shell('sleep 30', 'a', 0), shell('sleep 0.2; echo b', 'b', 1)), tool('[timeout]', 'a'), tool('b\n', 'b')],
	},
	{
		name: 'tool/no-zombies',
		about: 'ended tools are reaped',
		answers: ({ check, server }) => {
			const looked = ({ request }) => {
				const agent = server.agentPid;
				const zombies = readdirSync('/proc').filter((pid) => {
					try {
						const stat = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1].split(' ');
						return stat[0] === 'Z' && Number(stat[1]) === agent;
					} catch {
						return false;
					}
				});
				check.equal(zombies.length, 0, 'number of zombies');
				check.ok(request, 'no request');
			};
			return [calling(...Array.from({ length: 8 }, (_, k) => exec(['true'], `id${k}`, k))), [looked, ...final()]];
		},
	},
];
