#!/usr/bin/env python3
"""Agents side by side on the mock LLM, without the collector: quick enough for development.

Every block runs each agent once on each cell (scenario and sessions), in a shuffled order, with one
seed for all: ratios are taken within blocks. One JSON line for each figure and pair of agents:
  {"figure","scenario","sessions","left","right","ratio","lo","hi","must","pass", ...}
ratio is the Hodges-Lehmann estimate of left / right with its exact signed-rank interval; values are
medians over blocks. A run in which the mock itself was late (its p99 beyond --late-us, the bound of plans)
is played again, as the collector does; one that stays so is left out. p99 is given where the cells have
1,000 turns (docs/method.md). A line with a "must" that is missed makes the exit code 1; musts of cells that
were not played are told.

All that musts.json speaks of, the rest beside it, in about an hour (--store lets it be broken up):
  --cells one:1,steady:1,steady:10,steady:100,steady:500,steady:2000,steady-bin:500,burst:500,long-history:500
and the same with --mock-cpus= --agent-cpus= for agents and mock that are not pinned.
"""

import argparse
import http.client
import itertools
import json
import math
import os
import pathlib
import random
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

P99_SAMPLES_MIN = 1000
MAX_ATTEMPTS = 4  # of a run that the instrument spoils

# figure -> unit
FIGURES = {
    "startup_ms": "ms",
    "overhead_p50_ms": "ms",
    "overhead_mean_ms": "ms",
    "overhead_p99_ms": "ms",
    "cpu_usec_per_turn": "us",
    "rss_peak_bytes": "bytes",
    "rss_less_history_bytes": "bytes",
    "first_request_p50_ms": "ms",
}


def percentile(values, share):
    """Nearest rank."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


class Control(http.client.HTTPConnection):
    """The mock's control API over its Unix socket."""

    def __init__(self, path):
        super().__init__("mock")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(self.path)

    def call(self, method, path, body=None):
        self.request(method, path, None if body is None else json.dumps(body))
        response = self.getresponse()
        answer = json.loads(response.read())
        if response.status != 200:
            raise RuntimeError(f"mock: {method} {path}: {answer}")
        return answer


class Mock:
    def __init__(self, prefix, directory, cpus):
        control = os.path.join(directory, "control")
        command = [f"{prefix}/bin/mockllm", "--port", "0", "--control", control]
        command += ["--tool", f"{prefix}/bin/tmtool", "--scenarios", str(ROOT / "configs/scenarios")]
        self.process = subprocess.Popen(pinned(command, cpus), stdout=subprocess.PIPE)
        self.port = json.loads(self.process.stdout.readline())["port"]
        self.control = Control(control)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def pinned(command, cpus):
    return ["taskset", "-c", cpus, *command] if cpus else command


def manifest_command(name, prefix):
    manifest = json.loads((ROOT / f"configs/contenders/{name}.json").read_text())
    return [part.replace("{prefix}", prefix) for part in manifest["command"]], manifest["environment"]


def run_agent(options, mock, directory, name, scenario, sessions, seed):
    """One run; its figures, or what went wrong."""
    begun = mock.control.call("POST", "/control/run", {"scenario": scenario, "sessions": sessions, "seed": seed})
    scratch = pathlib.Path(directory, "scratch")
    scratch.mkdir(exist_ok=True)
    prompt = scratch / "system_prompt.txt"
    prompt.write_text(begun["system_prompt"])
    command, environment = options.commands[name]
    env = {
        "PATH": "/usr/bin:/bin",
        "AGENT_CONTRACT": "1",
        "OPENAI_BASE_URL": f"http://127.0.0.1:{mock.port}/v1",
        "OPENAI_API_KEY": "key",
        "OPENAI_MODEL": scenario,
        "AGENT_SESSIONS": str(sessions),
        "AGENT_SYSTEM_PROMPT_FILE": str(prompt),
        "AGENT_TASK": begun["task"],
        **environment,
    }
    stamp_read, stamp_write = os.pipe()
    child = subprocess.Popen(
        pinned([options.stamp, str(stamp_write), *command], options.agent_cpus),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, cwd=scratch, pass_fds=[stamp_write],
    )
    os.close(stamp_write)
    problem = None
    signal.setitimer(signal.ITIMER_REAL, options.limit_s)
    try:
        (started_ns,) = struct.unpack("q", os.read(stamp_read, 8))
        for line in child.stdout:
            event = json.loads(line)
            if event["event"] == "done":
                break
            problem = problem or event
    except TimeoutError:
        problem = f"no end within {options.limit_s} s"
        child.kill()
    signal.setitimer(signal.ITIMER_REAL, 0)
    os.close(stamp_read)
    try:
        status = pathlib.Path(f"/proc/{child.pid}/status").read_text()
        rss = int(status.split("VmHWM:")[1].split()[0]) * 1024
    except (OSError, IndexError):
        rss = None
    child.stdin.close()
    _, exit_status, usage = os.wait4(child.pid, 0)
    child.returncode = exit_status
    ledger = mock.control.call("POST", "/control/run/end")
    if any(ledger["error_counts"].values()) or ledger["sessions_complete"] != sessions or exit_status or problem:
        return {"problem": problem or ledger["errors"][:1] or f"exit status {exit_status}"}
    return figures_of(ledger, started_ns, rss, usage)


def spoilt(run, options):
    """By the instrument: no more is to be learned from such a run than from the collector's invalid ones."""
    return run.get("late_self_p99_us", 0) > options.late_us


def run_validly(options, *run):
    for _ in range(MAX_ATTEMPTS):
        result = run_agent(options, *run)
        if not spoilt(result, options):
            break
    return result


def figures_of(ledger, started_ns, rss, usage):
    columns = {column: at for at, column in enumerate(ledger["columns"])}
    sessions = {}
    for row in ledger["rows"]:
        sessions.setdefault(row[columns["session"]], []).append(row)
    overhead, first = [], []
    for rows in sessions.values():
        rows.sort(key=lambda row: row[columns["turn"]])
        first.append(rows[0][columns["read_ns"]] - started_ns)
        for row, after in zip(rows, rows[1:]):
            gap = after[columns["read_ns"]] - row[columns["end_before_ns"]]
            demand = row[columns["tool_demand_ns"]]
            overhead.append((gap - (demand or 0)) / 1e6)
    startup = min(row[columns["headers_ns"]] for row in ledger["rows"]) - started_ns
    late = ledger["late_self_us"]
    figures = {
        "startup_ms": startup / 1e6,
        "cpu_usec_per_turn": (usage.ru_utime + usage.ru_stime) * 1e6 / len(ledger["rows"]),
        "rss_peak_bytes": rss,
        "rss_less_history_bytes": rss - ledger["history_bytes"],
        "first_request_p50_ms": statistics.median(first) / 1e6,
        "late_self_p99_us": late["p99"],
        "samples": overhead,
    }
    if overhead:
        figures |= {
            "overhead_p50_ms": percentile(overhead, 0.5),
            "overhead_mean_ms": statistics.fmean(overhead),
            "overhead_p99_ms": percentile(overhead, 0.99),
        }
    return figures


def signed_rank_interval(values, confidence=0.95):
    """Hodges-Lehmann estimate and the exact interval (None below 6 values)."""
    walsh = sorted((a + b) / 2 for a, b in itertools.combinations_with_replacement(values, 2))
    n = len(values)
    if n < 6:
        return statistics.median(walsh), None, None
    ways = [1]  # of reaching each rank sum
    for rank in range(1, n + 1):
        more = ways + [0] * rank
        for at, count in enumerate(ways):
            more[at + rank] += count
        ways = more
    tail, drop = 0, 0
    for at, count in enumerate(ways):
        tail += count
        if tail / 2**n > (1 - confidence) / 2:
            break
        drop = at + 1
    return statistics.median(walsh), walsh[drop - 1] if drop else -math.inf, walsh[-drop] if drop else math.inf


def compare(options, results, cell, musts):
    scenario, sessions = cell
    missed = False

    def samples(of):
        return sum(len(run.get("samples", [])) for run in results[of] if not spoilt(run, options))

    for figure in FIGURES:
        for left, right in options.pairs:
            both = [
                (a[figure], b[figure])
                for a, b in zip(results[left, cell], results[right, cell])
                if a.get(figure) is not None and b.get(figure) is not None
                and not spoilt(a, options) and not spoilt(b, options)
            ]
            both = [(a, b) for a, b in both if a > 0 and b > 0]
            if not both or (figure == "overhead_p99_ms" and min(map(samples, ((left, cell), (right, cell)))) < P99_SAMPLES_MIN):
                continue
            ratio, lo, hi = signed_rank_interval([math.log(a / b) for a, b in both])
            lo, hi = (None if x is None or math.isinf(x) else round(math.exp(x), 4) for x in (lo, hi))
            must = next((m["at_most"] for m in musts if matches(m, figure, cell, left, right)), None)
            good = must is None or (hi if hi is not None else math.exp(ratio)) <= must
            missed |= not good
            print(json.dumps({
                "figure": figure, "scenario": scenario, "sessions": sessions, "left": left, "right": right,
                "ratio": round(math.exp(ratio), 4), "lo": lo, "hi": hi, "must": must, "pass": good,
                "left_median": statistics.median(a for a, _ in both),
                "right_median": statistics.median(b for _, b in both),
                "unit": FIGURES[figure], "blocks": len(both),
            }), flush=True)
    return missed


def matches(must, figure, cell, left, right):
    return (
        must["figure"] == figure
        and must["scenario"] == cell[0]
        and cell[1] in must.get("sessions", [cell[1]])
        and (must["left"], must["right"]) == (left, right)
    )


def table(options, results, cells, agents):
    """Medians for people, on stderr."""
    for cell in cells:
        print(f"\n{cell[0]}, {cell[1]} sessions", file=sys.stderr)
        for agent in agents:
            runs = [run for run in results[agent, cell] if "problem" not in run and not spoilt(run, options)]
            late = sum(spoilt(run, options) for run in results[agent, cell])
            if late:
                print(f"  {agent:10} {late} runs left out: the mock was late", file=sys.stderr)
            problems = [run["problem"] for run in results[agent, cell] if "problem" in run]
            if problems:
                print(f"  {agent:10} {len(problems)} runs failed: {problems[0]}", file=sys.stderr)
            if not runs:
                continue
            middle = {key: statistics.median(run[key] for run in runs) for key in runs[0] if key != "samples"}
            pooled = [value for run in runs for value in run["samples"]]
            text = f"  {agent:10} startup {middle['startup_ms']:6.2f} ms  cpu {middle['cpu_usec_per_turn']:7.0f} us/turn"
            text += f"  rss {middle['rss_peak_bytes'] / 2**20:6.1f} MiB, less history {middle['rss_less_history_bytes'] / 2**20:6.1f}"
            if pooled:
                text += f"  overhead p50 {middle['overhead_p50_ms']:6.2f} mean {middle['overhead_mean_ms']:6.2f} p99 {percentile(pooled, 0.99):7.2f} ms"
            print(f"{text}  mock late p99 {middle['late_self_p99_us']:.0f} us", file=sys.stderr)


def stored(options, agents, cells):
    """The blocks of earlier calls with the same agents and cells."""
    results = {(agent, cell): [] for agent in agents for cell in cells}
    if options.store and os.path.exists(options.store):
        for agent, scenario, sessions, runs in json.loads(pathlib.Path(options.store).read_text()):
            if (agent, (scenario, sessions)) in results:
                results[agent, (scenario, sessions)] = runs
    if len({len(runs) for runs in results.values()}) > 1:
        sys.exit(f"{options.store}: must hold as many blocks of each agent and cell")
    return results


def store(options, results):
    if options.store:
        rows = [[agent, *cell, runs] for (agent, cell), runs in results.items()]
        pathlib.Path(options.store).write_text(json.dumps(rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prefix", default=str(ROOT / "build/prefix"))
    parser.add_argument("--stamp", default=str(ROOT / "build/bench/stamp"), help="stamp.c, built")
    parser.add_argument("--agents", default="c,rust-st,rust-mt,floor", help="manifests; NAME=COMMAND for others")
    parser.add_argument("--pairs", help="LEFT/RIGHT,…; the first agent against each other one by default")
    parser.add_argument("--cells", default="quick:1,quick:10,quick:100", help="SCENARIO:SESSIONS,…")
    parser.add_argument("--blocks", type=int, default=7)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mock-cpus", default="0", help="empty: anywhere")
    parser.add_argument("--agent-cpus", default="1", help="empty: anywhere")
    parser.add_argument("--nice", type=int, help="of mock and agents; a negative one where other work runs beside (root)")
    parser.add_argument("--musts", help="JSON list of {figure, scenario, sessions, left, right, at_most}, the first that fits counts: musts.json")
    parser.add_argument("--limit-s", type=int, default=300)
    parser.add_argument("--late-us", type=float, default=1000, help="the mock's own lateness, p99, that a run may have")
    parser.add_argument("--store", help="file that keeps the blocks: they are added to those of earlier calls, so that a long comparison fits into short quiet times")
    options = parser.parse_args()
    options.prefix, options.stamp = (os.path.abspath(path) for path in (options.prefix, options.stamp))
    if options.nice is not None:
        os.setpriority(os.PRIO_PROCESS, 0, options.nice)
    options.commands = {}
    for agent in options.agents.split(","):
        name, _, command = agent.partition("=")
        options.commands[name] = (command.split(), {}) if command else manifest_command(name, options.prefix)
    agents = list(options.commands)
    options.pairs = [tuple(pair.split("/")) for pair in options.pairs.split(",")] if options.pairs else [(agents[0], a) for a in agents[1:]]
    cells = [(name, int(number)) for name, number in (cell.split(":") for cell in options.cells.split(","))]
    musts = json.loads(pathlib.Path(options.musts).read_text()) if options.musts else []

    def on_alarm(_signal, _frame):
        raise TimeoutError

    signal.signal(signal.SIGALRM, on_alarm)
    results = stored(options, agents, cells)
    done = len(results[agents[0], cells[0]])
    order = random.Random(f"{options.seed} {done}")
    with tempfile.TemporaryDirectory() as directory:
        mock = Mock(options.prefix, directory, options.mock_cpus)
        try:
            for agent in agents:  # warm: its files
                run_agent(options, mock, directory, agent, "one", 1, options.seed)
            for block in range(done, done + options.blocks):
                runs = [(agent, cell) for agent in agents for cell in cells]
                order.shuffle(runs)
                for agent, cell in runs:
                    seed = options.seed * 1000 + block
                    results[agent, cell].append(run_validly(options, mock, directory, agent, *cell, seed))
                store(options, results)
        finally:
            mock.stop()
    missed = False
    for cell in cells:
        missed |= compare(options, results, cell, musts)
    table(options, results, cells, agents)
    unplayed = {f"{must['scenario']}:{n}" for must in musts for n in must.get("sessions", [])} - {f"{s}:{n}" for s, n in cells}
    if unplayed:
        print(f"musts of cells that were not played: {', '.join(sorted(unplayed))}", file=sys.stderr)
    failed = any("problem" in run for runs in results.values() for run in runs)
    sys.exit(1 if missed or failed else 0)


if __name__ == "__main__":
    main()
