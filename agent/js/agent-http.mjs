// The agent of agent.mjs with node:http and a keep-alive agent in the place of `fetch`: the same requests
// without undici and without web streams, as long-lived programs on Node.js are often written.

import http from 'node:http';
import https from 'node:https';
import { createGunzip, constants } from 'node:zlib';
import { main } from './agent.mjs';

const agents = {
	'http:': [http, new http.Agent({ keepAlive: true, maxSockets: Infinity, maxFreeSockets: Infinity })],
	'https:': [https, new https.Agent({ keepAlive: true, maxSockets: Infinity, maxFreeSockets: Infinity })],
};

// What agent.mjs uses of a response's body: a reader whose read() is a promise of {done, value}.
class Body {
	#stream;
	#chunks = []; // that came before they were asked for
	#waiting = null;
	#ended = false;
	#error = null;

	constructor(stream) {
		this.#stream = stream;
		stream.on('data', (value) => {
			if (this.#waiting) {
				const { resolve } = this.#waiting;
				this.#waiting = null;
				resolve({ done: false, value });
			} else {
				this.#chunks.push(value);
				stream.pause();
			}
		});
		stream.on('end', () => this.#end(null));
		stream.on('error', (error) => this.#end(error));
		stream.on('close', () => this.#end(null));
	}

	#end(error) {
		if (this.#ended) return;
		this.#ended = true;
		this.#error = error;
		if (this.#waiting) this.#last(this.#waiting);
		this.#waiting = null;
	}

	#last({ resolve, reject }) {
		if (this.#error) reject(this.#error);
		else resolve({ done: true, value: undefined });
	}

	read() {
		if (this.#chunks.length > 0) {
			const value = this.#chunks.shift();
			if (this.#chunks.length === 0) this.#stream.resume();
			return Promise.resolve({ done: false, value });
		}
		return new Promise((resolve, reject) => {
			if (this.#ended) this.#last({ resolve, reject });
			else this.#waiting = { resolve, reject };
		});
	}

	getReader(options) {
		if (options) throw new TypeError('its chunks come in buffers of their own');
		return this;
	}

	async cancel() {
		this.#stream.destroy();
	}
}

function respond(message) {
	const { headers, statusCode: status } = message;
	let stream = message;
	if (headers['content-encoding'] === 'gzip') {
		stream = createGunzip({ flush: constants.Z_SYNC_FLUSH });
		message.on('error', (error) => stream.destroy(error));
		message.pipe(stream);
		stream.on('close', () => message.complete || message.destroy());
	}
	return { status, ok: status >= 200 && status < 300, headers: { get: (name) => headers[name] ?? null }, body: new Body(stream) };
}

globalThis.fetch = (url, { method, headers, body, signal }) =>
	new Promise((resolve, reject) => {
		const { protocol } = new URL(url);
		const [module, agent] = agents[protocol] ?? [];
		if (!module) throw new TypeError(`no http:// or https:// URL: ${url}`);
		const request = module.request(url, { method, headers, signal, agent });
		request.on('response', (message) => resolve(respond(message)));
		// as fetch tells it; the socket says whether an answer had come on it before
		request.on('error', (error) => {
			error.cause = { code: error.code, socket: request.socket };
			reject(error);
		});
		request.end(body);
	});

await main();
