#!/usr/bin/env python3
"""An agent in Python's standard library alone: one thread a session. It keeps agent/CONTRACT.md, whose sections
are named on the way; begin with session()."""

import codecs, http.client, json, os, random, select, selectors, signal, socket, ssl, subprocess, sys, threading, time, zlib
from email.utils import parsedate_to_datetime
from urllib.parse import urljoin, urlsplit

LINE_MAX = 16 << 20  # of an event stream
TOOLS = json.loads("""
[{"type":"function","function":{"name":"exec","description":"Run a program without a shell.","parameters":{"type":"object","properties":{"argv":{"type":"array","items":{"type":"string"},"minItems":1}},"required":["argv"]}}},
 {"type":"function","function":{"name":"shell","description":"Run a command with /bin/sh.","parameters":{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}}}]
""")


class Failure(Exception):
    """The turn failed; it may be tried again, after so many seconds if the server says so."""

    def __init__(self, message, again=True, after=None):
        super().__init__(message)
        self.again, self.after = again, after


# ---- section 1: the environment


def usage(message):
    print(f"agent.py: {message}", file=sys.stderr)
    sys.exit(2)


def required(name):
    return os.environ.get(name) or usage(f"{name}: must be set")


def number(name, default, low, high):
    text = os.environ.get(name) or str(default)
    if not (text.isascii() and text.isdigit() and len(text) < 12 and low <= int(text) <= high):
        usage(f"{name}: must be an integer of {low} to {high}, is '{text}'")
    return int(text)


def read_environment():
    global url, key, model, sessions, system, task, context
    global tool_timeout, output_max, idle_timeout, retries, report
    url = urlsplit(required("OPENAI_BASE_URL") + "/chat/completions")
    try:
        if url.scheme not in ("http", "https") or not url.hostname or (url.port or 1) < 1:
            raise ValueError
    except ValueError:
        usage("OPENAI_BASE_URL: must be a URL like http://127.0.0.1:8080/v1")
    key, model, task = (required(name) for name in ("OPENAI_API_KEY", "OPENAI_MODEL", "AGENT_TASK"))
    try:
        with open(required("AGENT_SYSTEM_PROMPT_FILE"), encoding="utf-8", newline="") as file:
            system = file.read()
    except (OSError, ValueError) as error:
        usage(f"AGENT_SYSTEM_PROMPT_FILE: {error}")
    sessions = number("AGENT_SESSIONS", 1, 1, 10000)
    tool_timeout = number("AGENT_TOOL_TIMEOUT_MS", 60000, 1, 86400000) / 1000
    output_max = number("AGENT_TOOL_OUTPUT_MAX", 65536, 16, 16777216)
    idle_timeout = number("AGENT_IDLE_TIMEOUT_MS", 60000, 1, 86400000) / 1000
    retries = number("AGENT_MAX_RETRIES", 4, 0, 100)
    report = os.environ.get("AGENT_REPORT") or ""
    if report not in ("", "0", "1"):
        usage(f"AGENT_REPORT: must be 1, is '{report}'")
    try:
        authority = os.environ.get("AGENT_CA_FILE") or None
        context = ssl.create_default_context(cafile=authority) if authority or url.scheme == "https" else None
    except (OSError, ssl.SSLError) as error:
        usage(f"AGENT_CA_FILE: {error}")


# ---- section 6: output. A line goes out in one write, at most 512 bytes long.


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def tell(event, message=None):
    line = compact(event)
    while message is not None:
        line = compact(event | {"message": message})
        if len(line.encode()) < 512:
            break
        message = message[:-8]
    os.write(1, line.encode() + b"\n")


# ---- section 4: tools

running, ending = set(), False
lock = threading.Lock()


def whole(text):
    """Halves of surrogate pairs joined, lone ones replaced."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def add_line(text, line):
    return text + ("\n" if text and not text.endswith("\n") else "") + line


def kill_group(process, number):
    """False if there is none any more."""
    try:
        os.killpg(process.pid, number)
        return True
    except OSError:
        return False


def run(argv):
    """Run a program; its tool message."""
    try:
        with lock:  # SIGTERM must know of it
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       start_new_session=True, bufsize=0)
            running.add(process)
    except FileNotFoundError:
        return "[exit 127]"
    except OSError:
        return "[exit 126]"
    pidfd = os.pidfd_open(process.pid)
    kept = {process.stdout: bytearray(), process.stderr: bytearray()}
    deadline, timed_out, ended = time.monotonic() + tool_timeout, False, False
    with selectors.DefaultSelector() as selector:
        for source in (process.stdout, process.stderr, pidfd):
            selector.register(source, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0, deadline - time.monotonic()))
            if not ready and (ended or timed_out):
                break  # something else holds the pipes
            if not ready:
                timed_out, deadline = True, time.monotonic() + 0.5
                kill_group(process, signal.SIGTERM)
            for item, _ in ready:
                if item.fileobj == pidfd:
                    selector.unregister(pidfd)
                    process.wait()
                    ended, deadline = True, deadline if timed_out else time.monotonic() + 0.1
                    continue
                piece = os.read(item.fd, 65536)
                room = output_max + 4 - len(kept[item.fileobj])
                kept[item.fileobj] += piece[: max(0, room)]
                if not piece:
                    selector.unregister(item.fileobj)
    if timed_out:  # what of the group did not heed SIGTERM
        while kill_group(process, 0) and time.monotonic() < deadline:
            time.sleep(0.01)
        kill_group(process, signal.SIGKILL)
        process.wait()
    with lock:
        running.discard(process)
    os.close(pidfd)
    process.stdout.close()
    process.stderr.close()
    text = "".join(bytes(kept[source]).decode("utf-8", "replace") for source in kept)
    if len(text.encode()) > output_max:
        text = add_line(text.encode()[:output_max].decode("utf-8", "ignore"), "[truncated]")
    if timed_out:
        return add_line(text, "[timeout]")
    status = process.returncode if process.returncode >= 0 else 128 - process.returncode
    return add_line(text, f"[exit {status}]") if status else text


def run_call(name, arguments):
    try:
        given = json.loads(arguments)
    except ValueError:
        given = None
    argv = given.get("argv") if isinstance(given, dict) else None
    command = given.get("command") if isinstance(given, dict) else None
    if name == "shell":
        argv = ["/bin/sh", "-c", command]
    elif name != "exec":
        return f"[error] unknown tool: {name}"
    if not isinstance(argv, list) or not argv or not all(isinstance(arg, str) and "\0" not in arg for arg in argv):
        return "[error] invalid arguments"
    return run([whole(arg) for arg in argv])


def run_calls(calls):
    """All at once; their messages in order."""
    contents = [None] * len(calls)

    def one(i):
        contents[i] = run_call(calls[i]["function"]["name"], calls[i]["function"]["arguments"])

    others = [threading.Thread(target=one, args=(i,), daemon=True) for i in range(1, len(calls))]
    for thread in others:
        thread.start()
    one(0)
    for thread in others:
        thread.join()
    return [{"role": "tool", "tool_call_id": call["id"], "content": content} for call, content in zip(calls, contents)]


# ---- section 3: the loop


class Answer:
    """What the events of one stream add up to."""

    def __init__(self):
        self.text, self.calls, self.current, self.finished, self.done = None, [], None, False, False

    def event(self, data):
        if data == "[DONE]":
            self.done = True
            return
        try:
            chunk = json.loads(data)
        except ValueError:
            raise Failure("an event is not JSON") from None
        if not isinstance(chunk, dict):
            raise Failure("an event is no JSON object")
        if chunk.get("error"):
            raise Failure(message_of(chunk))
        for choice in chunk.get("choices") or []:
            delta = choice.get("delta") or {}
            if isinstance(delta.get("content"), str):
                self.text = (self.text or "") + delta["content"]
            for fragment in delta.get("tool_calls") or []:
                self.fragment(fragment)
            self.finished |= bool(choice.get("finish_reason"))

    def fragment(self, fragment):
        index, name = fragment.get("index"), fragment.get("id") or ""
        function = fragment.get("function") or {}
        call = self.current
        if index is not None:
            call = next((c for c in reversed(self.calls) if c["index"] == index), None)
            if call and name and call["id"] and call["id"] != name:
                call = None
        elif name:
            call = next((c for c in self.calls if c["id"] == name), None)
        if call is None:
            call = {"index": index, "id": "", "name": "", "arguments": ""}
            self.calls.append(call)
        self.current = call
        call["id"] = call["id"] or name
        call["name"] = call["name"] or function.get("name") or ""
        arguments = function.get("arguments")
        if arguments:
            call["arguments"] += arguments if isinstance(arguments, str) else json.dumps(arguments)

    def message(self):
        calls = sorted(self.calls, key=lambda call: call["index"] if isinstance(call["index"], int) else 0)
        message = {"role": "assistant", "content": None if self.text is None else whole(self.text)}
        if calls:
            message["tool_calls"] = [{"id": whole(call["id"]), "type": "function",
                                      "function": {"name": whole(call["name"]), "arguments": whole(call["arguments"]) or "{}"}} for call in calls]
        return message


def message_of(body, otherwise="the server answered with an error"):
    error = body.get("error") if isinstance(body, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    return whole(message if isinstance(message, str) and message else otherwise).encode()[:500].decode("utf-8", "ignore")


def message_of_page(page, otherwise):
    """Of a body that is no stream: its error's message, or how it begins."""
    try:
        return message_of(json.loads(page), otherwise)
    except ValueError:
        return " ".join([f"{otherwise}:", *page.decode("utf-8", "replace").split()])[:300].removesuffix(":")


class Events:
    """Splits a stream into events, wherever it was cut."""

    def __init__(self, take):
        self.decoder, self.line, self.data, self.take = codecs.getincrementaldecoder("utf-8")("replace"), "", [], take
        self.begun = self.after_cr = False

    def feed(self, piece, last=False):
        text = self.decoder.decode(piece, last)
        if not text and not last:
            return
        if not self.begun and text:
            self.begun, text = True, text.removeprefix("\ufeff")
        if self.after_cr and text.startswith("\n"):
            text = text[1:]
            self.after_cr = False
        if text:
            self.after_cr = text.endswith("\r")
        # all of Python's line ends but the three of the format are text
        lines = (self.line + text).replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self.line = lines.pop()
        if len(self.line) > LINE_MAX:
            raise Failure("a line of the stream is longer than 16 MiB", again=False)
        for line in lines:
            self.end_of_line(line)
        if last:
            self.end_of_line(self.line)
            self.end_of_line("")

    def end_of_line(self, line):
        if line.startswith("data:"):
            self.data.append(line[5:].removeprefix(" "))
        elif line == "data":
            self.data.append("")
        elif not line and self.data:
            data, self.data = "\n".join(self.data), []
            if data:
                self.take(data)


class Session:
    def __init__(self, name):
        self.name, self.connection, self.used = name, None, False
        self.target = url

    def close(self):
        if self.connection:
            self.connection.close()
        self.connection, self.used = None, False

    def connect(self):
        if self.connection:
            waiting = select.poll()
            waiting.register(self.connection.sock, select.POLLIN)
            if waiting.poll(0):  # closed meanwhile
                self.close()
        if self.connection is None:
            kind = http.client.HTTPSConnection if self.target.scheme == "https" else http.client.HTTPConnection
            more = {"context": context or ssl.create_default_context()} if self.target.scheme == "https" else {}
            self.connection = kind(self.target.hostname, self.target.port, timeout=idle_timeout, **more)
            self.connection.connect()
        self.connection.sock.settimeout(idle_timeout)
        return self.connection

    def send(self, body):
        """Send a request; its answer's head. A connection that the server has closed meanwhile is replaced."""
        path = self.target.path + ("?" + self.target.query if self.target.query else "")
        headers = {"Content-Type": "application/json", "X-Session-Id": self.name}
        if (self.target.scheme, self.target.netloc) == (url.scheme, url.netloc):
            headers["Authorization"] = f"Bearer {key}"  # it is for the server that it was given for
        while True:
            kept = self.used
            try:
                connection = self.connect()
                self.sock = connection.sock
                self.used = True
                connection.request("POST", path, body, headers)
                return connection.getresponse()
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                self.close()
                if not kept:
                    raise

    def post(self, body):
        if self.target is not url:
            self.close()
            self.target = url
        for _ in range(10):
            response = self.send(body)
            if response.status not in (307, 308) or not response.headers.get("Location"):
                return response
            response.read()
            self.close()
            self.target = urlsplit(urljoin(self.target.geturl(), response.headers["Location"]))
        raise Failure("too many redirects", again=False)

    def attempt(self, body):
        response = self.post(body)
        packed = zlib.decompressobj(31) if response.headers.get("Content-Encoding") == "gzip" else None
        if response.status != 200:
            text, status = response.read(65536), response.status
            raise Failure(message_of_page(packed.decompress(text) if packed else text, f"status {status}"),
                          status in (408, 409, 429) or status >= 500 or 200 < status < 300, wait_of(response.headers))
        answer, page = Answer(), bytearray()
        last_event = time.monotonic()

        def take(data):
            nonlocal last_event
            last_event = time.monotonic()
            if not answer.done:
                answer.event(data)

        events = Events(take)
        try:
            while not answer.done:
                left = last_event + idle_timeout - time.monotonic()
                if left <= 0:
                    raise TimeoutError
                self.sock.settimeout(left)
                read = response.read1(65536)
                piece = packed.decompress(read) if packed else read
                if not events.begun or len(page) < 65536 and not answer.finished:
                    page += piece
                events.feed(piece, last=not read)
                if not read:
                    break
        except (OSError, http.client.HTTPException, zlib.error):
            self.close()
            if not answer.finished:
                raise
        if not answer.finished and not answer.done:
            raise Failure(message_of_page(page, "the stream was cut short"))
        self.drain(response)
        return answer

    def drain(self, response):
        """The end of the body comes with [DONE]; a connection on which it does not is given up."""
        try:
            self.sock.settimeout(0.02)
            response.read()
        except (OSError, ValueError, http.client.HTTPException):
            self.close()
        if response.will_close:
            self.close()

    def turn(self, history):
        """The answer to a history, and the attempt that got it."""
        body = compact({"model": model, "stream": True, "stream_options": {"include_usage": True}, "tools": TOOLS,
                        "messages": history}).encode()
        for attempt in range(retries + 1):
            try:
                return self.attempt(body), attempt + 1
            except Failure as error:
                failure = error
            except TimeoutError:
                failure = Failure("the server fell silent")
            except ssl.SSLCertVerificationError as error:
                failure = Failure(str(error))
            except (OSError, http.client.HTTPException, zlib.error) as error:
                failure = Failure(f"the connection failed: {error or type(error).__name__}")
            self.close()
            if not failure.again or attempt == retries:
                raise failure
            wait = failure.after
            time.sleep(min(0.5 * 2**attempt, 8) * random.uniform(0.75, 1) if wait is None else min(wait, 60))


def wait_of(headers):
    """Seconds that a server asks for, or None."""
    for name, unit in (("Retry-After-Ms", 1000), ("Retry-After", 1)):
        try:
            if float(headers[name]) >= 0:
                return float(headers[name]) / unit
        except (TypeError, ValueError):
            pass
    try:
        return max(0, parsedate_to_datetime(headers["Retry-After"]).timestamp() - time.time())
    except (TypeError, ValueError):
        return None


def session(name, failed):
    history = [{"role": "system", "content": system}, {"role": "user", "content": task.replace("{session}", name)}]
    self, turn = Session(name), 0
    try:
        while True:
            turn, begun = turn + 1, time.monotonic_ns()
            answer, attempt = self.turn(history)
            message = answer.message()
            history.append(message)
            if message.get("tool_calls"):
                history += run_calls(message["tool_calls"])
            if report == "1":
                tell({"event": "turn", "session": name, "turn": turn, "attempt": attempt, "turn_ns": time.monotonic_ns() - begun})
            if not message.get("tool_calls"):
                break
    except Exception as error:  # whatever it is, the other sessions go on
        failed.append(name)
        tell({"event": "error", "session": name, "turn": turn}, str(error) or type(error).__name__)
    self.close()


# ---- section 5: the end


def terminate(_number, _frame):
    for process in list(running):
        kill_group(process, signal.SIGKILL)
    os._exit(143)


def main():
    if sys.argv[1:] == ["--version"]:
        print(f"Python {sys.version.split()[0]}")
        return 0
    read_environment()
    signal.signal(signal.SIGTERM, terminate)
    threading.stack_size(256 << 10)
    failed = []
    threads = [threading.Thread(target=session, args=(f"s{i}", failed), daemon=True) for i in range(1, sessions + 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tell({"event": "done"})
    sys.stdin.buffer.read()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
