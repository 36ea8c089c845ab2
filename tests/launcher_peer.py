"""launcher_peer.py SOCKET SCENARIO: a collector for tests/launcher.bats, well-behaved or not. It
listens at SOCKET, talks to the launcher that connects, and prints "ok" when all went as it should."""

import array
import os
import select
import signal
import socket
import struct
import sys
import time

HELLO, SPAWN, EXITED, KILL, PROBE, CLEAN, WRITE, OPEN, OK, FAILED = range(1, 11)
HEADER = struct.Struct("=IIII")
path, scenario = sys.argv[1:]
if os.path.exists(path):
    os.unlink(path)
server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
server.bind(path)
server.listen()
server.settimeout(20)


def accept():
    peer = server.accept()[0]
    peer.settimeout(20)
    kind, _, payload, _ = receive(peer)
    assert kind == HELLO, kind
    texts = payload[4:].split(b"\0")
    assert texts[0] == b"name" and len(texts) == 5, texts
    return peer


def receive(peer):
    data, rights, _, _ = peer.recvmsg(65536, socket.CMSG_SPACE(6 * 4))
    if not data:
        return None, 0, b"", []
    version, kind, ident, length = HEADER.unpack(data[:16])
    assert version == 1 and length == len(data) - 16
    fds = array.array("i")
    for _, _, value in rights:
        fds.frombytes(value)
    return kind, ident, data[16:], list(fds)


def send(peer, kind, ident, payload=b""):
    peer.send(HEADER.pack(1, kind, ident, len(payload)) + payload)


def ask(peer, kind, payload=b""):
    """The answer to one request; events that come first are dropped."""
    ask.ident += 1
    send(peer, kind, ask.ident, payload)
    while True:
        answer, ident, body, fds = receive(peer)
        assert answer is not None, "the launcher hung up"
        if ident == ask.ident and answer in (OK, FAILED):
            return answer, body, fds


ask.ident = 0


def texts(*all_texts):
    return b"".join(text.encode() + b"\0" for text in all_texts)


def spawn(peer, *argv):
    payload = struct.pack("=II", len(argv), 1) + texts(*argv, "LEVEL=7")
    answer, body, fds = ask(peer, SPAWN, payload)
    assert answer == OK and len(fds) == 6, (answer, body)
    return struct.unpack("=i", body)[0], fds


def go(fds):
    os.write(fds[1], b"x")


def read_all(fd):
    parts = []
    while part := os.read(fd, 65536):
        parts.append(part)
    return b"".join(parts)


def await_exited(peer):
    while True:
        kind, _, body, _ = receive(peer)
        assert kind is not None, "the launcher hung up"
        if kind == EXITED:
            spawn_ns, status, _ = struct.unpack("=qii", body)
            return spawn_ns, status


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def await_death(pid):
    deadline = time.monotonic() + 20
    while is_alive(pid):
        assert time.monotonic() < deadline, f"process {pid} lives on"
        time.sleep(0.01)


def runs_a_program():
    peer = accept()
    pid, fds = spawn(peer, "/bin/sh", "-c", "echo $LEVEL; cat; echo e >&2; exit 5")
    assert not select.select([fds[2]], [], [], 0.05)[0], "it ran before GO"
    before = time.monotonic_ns()
    go(fds)
    assert os.read(fds[2], 4) == b""
    os.write(fds[3], b"in")
    os.close(fds[3])
    assert read_all(fds[4]) == b"7\nin" and read_all(fds[5]) == b"e\n"
    spawn_ns, status = await_exited(peer)
    assert before <= spawn_ns <= time.monotonic_ns() and os.waitstatus_to_exitcode(status) == 5
    assert not is_alive(pid)
    # a second one only when the first has ended
    pid, fds = spawn(peer, "/bin/sleep", "1000")
    go(fds)
    assert ask(peer, SPAWN, struct.pack("=II", 1, 0) + texts("/bin/true"))[0] == FAILED
    answer, body, _ = ask(peer, PROBE)
    assert answer == OK and struct.unpack("=qqq", body)[0] > 0 and struct.unpack("=qqq", body)[2] == 1
    assert ask(peer, KILL)[0] == OK and not is_alive(pid)
    assert ask(peer, PROBE)[0] == FAILED


def serves_files():
    peer = accept()
    assert ask(peer, WRITE, struct.pack("=q", 0) + texts("f") + b"abc")[0] == OK
    assert ask(peer, WRITE, struct.pack("=q", 3) + texts("f") + b"def")[0] == OK
    _, fds = spawn(peer, "/bin/cat", "f")
    go(fds)
    assert read_all(fds[4]) == b"abcdef"
    await_exited(peer)
    answer, _, fds = ask(peer, OPEN, texts("/etc/passwd"))
    assert answer == OK and os.pread(fds[0], 4, 0) == b"root"
    try:
        os.write(fds[0], b"x")
        raise AssertionError("it can be written")
    except OSError:
        pass
    for name in ("relative", "/nonexistent", "/dev/null", ""):
        assert ask(peer, OPEN, texts(name))[0] == FAILED, name
    assert ask(peer, CLEAN)[0] == OK
    _, fds = spawn(peer, "/bin/ls", "-A")
    go(fds)
    assert read_all(fds[4]) == b""


def vanishes():
    """A collector that goes away ends what was started, daemons too; the launcher comes back."""
    peer = accept()
    pid, fds = spawn(peer, "/bin/sh", "-c", "setsid sleep 1000 & echo $!; sleep 1000")
    go(fds)
    daemon = int(os.read(fds[4], 64))
    # a program that was never told to go
    peer.close()
    await_death(pid)
    await_death(daemon)
    peer = accept()
    pid, fds = spawn(peer, "/bin/sleep", "1000")
    for fd in fds:
        os.close(fd)
    await_exited(peer)
    assert not is_alive(pid)
    peer.close()
    accept()


def is_signalled():
    """A launcher that is ended in a run hangs up: it does not tell its own kill as the program's end."""
    peer = accept()
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    launcher = struct.unpack("=iII", credentials)[0]
    answer = ask(peer, WRITE, struct.pack("=q", 0) + texts("left") + b"x")[0]
    assert answer == OK
    pid, fds = spawn(peer, "/bin/sleep", "1000")
    go(fds)
    os.kill(launcher, signal.SIGTERM)
    assert receive(peer)[0] is None, "it told an end"
    await_death(pid)


def talks_nonsense():
    """Refused, or hung up on; never the launcher's end."""
    peer = accept()
    bad = [
        (SPAWN, b""),
        (SPAWN, struct.pack("=II", 0, 0)),
        (SPAWN, struct.pack("=II", 1, 0) + b"/bin/true"),
        (SPAWN, struct.pack("=II", 2, 0) + texts("/bin/true")),
        (SPAWN, struct.pack("=II", 1, 0) + texts("/bin/true", "more")),
        (SPAWN, struct.pack("=II", 0xFFFFFFFF, 1) + texts("a", "b")),
        (SPAWN, struct.pack("=II", 1, 0xFFFFFFFF) + texts("a", "b")),
        (WRITE, b"123"),
        (WRITE, struct.pack("=q", 0) + b"no end"),
        (WRITE, struct.pack("=q", -1) + texts("f") + b"x"),
        (WRITE, struct.pack("=q", 1 << 62) + texts("f") + b"x"),
        (WRITE, struct.pack("=q", 0) + texts("../f") + b"x"),
        (OPEN, b"/etc/passwd"),
        (OPEN, texts("/etc/passwd", "more")),
        (HELLO, b""),
        (OK, b""),
        (0, b""),
        (4711, b"x" * 1000),
    ]
    for kind, payload in bad:
        answer, body, fds = ask(peer, kind, payload)
        assert answer == FAILED and not fds and body.endswith(b"\0"), (kind, payload)
    for raw in (
        b"x",
        HEADER.pack(2, KILL, 1, 0),
        HEADER.pack(1, KILL, 1, 5),
        HEADER.pack(1, KILL, 1, 0xFFFFFFFF),
        HEADER.pack(1, WRITE, 1, 70000) + b"x" * 70000,
        os.urandom(5000),
    ):
        peer.send(raw)
        try:
            assert receive(peer)[0] is None, raw[:32]
        except ConnectionResetError:
            pass
        peer.close()
        peer = accept()
    # descriptors that come along are not taken
    message = HEADER.pack(1, CLEAN, 9, 0)
    peer.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * 100))])
    assert receive(peer)[0] == OK
    runs = spawn(peer, "/bin/true")[1]
    go(runs)
    await_exited(peer)


{
    "runs-a-program": runs_a_program,
    "serves-files": serves_files,
    "vanishes": vanishes,
    "is-signalled": is_signalled,
    "talks-nonsense": talks_nonsense,
}[scenario]()
print("ok")
