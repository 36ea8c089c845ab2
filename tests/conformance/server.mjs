// A scripted HTTP/1.1 server on raw TCP: what it sends is sent byte for byte and read by read as the
// case says. Each request, in the order of arrival, gets the next answer.
//
// An answer is an array of parts, played in order:
//   string or Buffer   one write
//   number             a pause in milliseconds
//   function           called with the exchange; may be async; what it returns is played (parts) or ignored
//   CLOSE              no more bytes: FIN
//   RESET              RST
//   HANG               nothing more, the connection stays open
// An answer without any of the last three leaves the connection open for the next request.

import net from 'node:net';
import tls from 'node:tls';

export const CLOSE = Symbol('close');
export const RESET = Symbol('reset');
export const HANG = Symbol('hang');

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export class ScriptedServer {
	requests = []; // {method, path, version, headers, rawHead, text, json, connection, atMs}
	connections = 0;
	problems = []; // what no agent may do, whatever the case
	answers; // an array, or a function of the request's number and the request
	#server;
	#sockets = new Set();

	constructor(answers, { secure, early = false } = {}) {
		this.answers = answers;
		this.early = early; // answer when the head has come, and read no body
		const accept = (socket) => this.#accept(socket);
		this.#server = secure ? tls.createServer(secure, accept) : net.createServer({ allowHalfOpen: true }, accept);
	}

	async listen(host = '127.0.0.1') {
		await new Promise((resolve, reject) => {
			this.#server.once('error', reject);
			this.#server.listen(0, host, resolve);
		});
		this.port = this.#server.address().port;
	}

	close() {
		for (const socket of this.#sockets) socket.destroy();
		this.#server.close();
	}

	#accept(socket) {
		const connection = ++this.connections;
		this.#sockets.add(socket);
		socket.setNoDelay(true);
		let received = Buffer.alloc(0);
		let pieces = [];
		let wanted = 0; // bytes still to come before it is worth looking again
		let head = null;
		let answering = Promise.resolve();
		socket.on('error', () => {});
		socket.on('close', () => this.#sockets.delete(socket));
		socket.on('end', () => socket.end());
		socket.on('data', (data) => {
			pieces.push(data);
			wanted -= data.length;
			if (wanted > 0) return;
			received = Buffer.concat([received, ...pieces]);
			pieces = [];
			for (;;) {
				if (!head) {
					const end = received.indexOf('\r\n\r\n');
					if (end < 0) return;
					head = this.#parseHead(received.subarray(0, end).toString('latin1'));
					received = received.subarray(end + 4);
					if (/100-continue/i.test(head.headers.expect ?? '')) socket.write('HTTP/1.1 100 Continue\r\n\r\n');
				}
				const body = this.early ? { bytes: Buffer.from('null'), used: received.length } : takeBody(head, received);
				if (typeof body === 'number') {
					wanted = body;
					return;
				}
				received = received.subarray(body.used);
				const text = body.bytes.toString();
				let json;
				try {
					json = JSON.parse(text);
				} catch {
					this.problems.push('a request body is not JSON');
				}
				if (Buffer.compare(Buffer.from(text), body.bytes) !== 0) this.problems.push('a request body is not UTF-8');
				const request = { ...head, text, json, connection, atMs: performance.now() };
				head = null;
				const number = this.requests.push(request);
				const answer = typeof this.answers === 'function' ? this.answers(number, request) : this.answers[number - 1];
				if (!answer) {
					this.problems.push(`request ${number} came and was not expected`);
					socket.end('HTTP/1.1 500 Unexpected\r\nContent-Length: 0\r\nConnection: close\r\n\r\n');
					return;
				}
				answering = answering
					.then(() => this.#play(answer, { socket, request, server: this }))
					.catch((error) => this.problems.push(`the answer to request ${number} failed: ${error.stack}`));
			}
		});
	}

	#parseHead(text) {
		const [start, ...lines] = text.split('\r\n');
		const [method, path, version] = start.split(' ');
		const headers = {};
		for (const line of lines) {
			const colon = line.indexOf(':');
			headers[line.slice(0, colon).toLowerCase()] = line.slice(colon + 1).trim();
		}
		return { method, path, version, headers, rawHead: text };
	}

	async #play(parts, exchange) {
		const { socket } = exchange;
		for (const part of parts) {
			if (socket.destroyed) return;
			if (typeof part === 'number') await sleep(part);
			else if (typeof part === 'function') {
				const more = await part(exchange);
				if (Array.isArray(more)) await this.#play(more, exchange);
			} else if (part === CLOSE) socket.end();
			else if (part === RESET) socket.resetAndDestroy();
			else if (part === HANG) return;
			else if (!socket.write(part)) await drained(socket);
		}
	}
}

function drained(socket) {
	return new Promise((resolve) => {
		const ready = () => {
			socket.off('drain', ready).off('close', ready);
			resolve();
		};
		socket.on('drain', ready).on('close', ready);
	});
}

// The body at the start of `bytes` as {bytes, used}, or how many bytes are missing at least.
function takeBody(head, bytes) {
	if (/chunked/i.test(head.headers['transfer-encoding'] ?? '')) {
		const chunks = [];
		let at = 0;
		for (;;) {
			const lineEnd = bytes.indexOf('\r\n', at);
			if (lineEnd < 0) return 1;
			const size = parseInt(bytes.subarray(at, lineEnd).toString('latin1'), 16);
			if (bytes.length < lineEnd + 4 + size) return lineEnd + 4 + size - bytes.length;
			if (size === 0) return { bytes: Buffer.concat(chunks), used: lineEnd + 4 };
			chunks.push(bytes.subarray(lineEnd + 2, lineEnd + 2 + size));
			at = lineEnd + 4 + size;
		}
	}
	const length = Number(head.headers['content-length'] ?? 0);
	return bytes.length < length ? length - bytes.length : { bytes: bytes.subarray(0, length), used: length };
}
