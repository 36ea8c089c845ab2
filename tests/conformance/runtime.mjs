// Cases that a runtime's own HTTP or process layer decides, with the reason: {AGENT: {CASE: REASON}}.
// Such a case may fail and is then reported as "runtime"; one that passes must be removed here. A reason may be
// a function of what the agent's version command prints, which returns null where the case must pass.

const realtime = 'its child_process knows no real-time signals';

const http = (what) => `built with HTTP alone, without ${what}`;

const node = {
	'http/interim-100': 'undici takes an unasked 100 Continue for a bad response',
	'tool/signal-realtime': `${realtime}: reported as success`,
};

export const runtimeCases = {
	c: {
		'http/tls': (version) => (/mbedTLS\/(2|3\.[0-4])\./.test(version) ? 'mbedTLS before 3.5 finds no IP addresses in certificates' : null),
	},
	'c-min': {
		'http/gzip': http('gzip'),
		'http/gzip-cut-after-finish': http('gzip'),
		'http/gzip-error': http('gzip'),
		'http/tls': http('TLS'),
		'http/tls-localhost': http('TLS'),
		'http/tls-untrusted': http('TLS'),
		'http/tls-wrong-name': http('TLS'),
	},
	node,
	'node-cluster': node,
	'node-http': {
		'tool/signal-realtime': `${realtime}: reported as success`,
	},
	bun: {
		'tool/signal-realtime': `${realtime}: reported as success`,
	},
	python: {
		'http/interim-103': 'http.client takes any early answer but 100 for the answer',
	},
	deno: {
		'tool/signal-realtime': `${realtime}: an uncaught error ends the program`,
	},
};
