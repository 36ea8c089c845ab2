// Cases that a runtime's own HTTP or process layer decides, with the reason: {AGENT: {CASE: REASON}}.
// Such a case may fail and is then reported as "runtime"; one that passes must be removed here.

const realtime = 'its child_process knows no real-time signals';

export const runtimeCases = {
	node: {
		'http/interim-100': 'undici takes an unasked 100 Continue for a bad response',
		'tool/signal-realtime': `${realtime}: reported as success`,
	},
	bun: {
		'tool/signal-realtime': `${realtime}: reported as success`,
	},
	deno: {
		'tool/signal-realtime': `${realtime}: an uncaught error ends the program`,
	},
};
