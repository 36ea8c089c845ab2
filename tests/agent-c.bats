#!/usr/bin/env bats
# The C agent as a program: whole loops against the mock, from one session to two thousand, its process (signals,
# descriptors, PID 1) and its memory. What the wire may bring is the conformance suite's.

bats_require_minimum_version 1.5.0

setup() {
  cd "$BATS_TEST_DIRNAME/.." || return
  build=${BUILD:-build}
  case $build in /*) ;; *) build=$PWD/$build ;; esac
  agent=$build/prefix/bin/agent-c
  control=$BATS_TEST_TMPDIR/control.sock
  scratch=$BATS_TEST_TMPDIR/scratch
  mkdir "$scratch"
  mock_pid= agent_pid=
}

teardown() {
  local pid
  for pid in $agent_pid $mock_pid; do
    kill "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
}

# within SECONDS COMMAND…: until the command succeeds
within() {
  local until=$((SECONDS + $1))
  shift
  until "$@"; do
    [ $SECONDS -lt "$until" ] || return 1
    sleep 0.02
  done
}

control() { # METHOD PATH [BODY]
  curl -sS --fail-with-body --unix-socket "$control" -X "$1" ${3:+--data "$3"} "http://mock$2"
}

# begin SCENARIO SESSIONS: a mock, a run of it, and the environment of its agent
begin() {
  "$build/prefix/bin/mockllm" --port 0 --control "$control" --tool "$build/prefix/bin/tmtool" --scenarios configs/scenarios \
    >"$BATS_TEST_TMPDIR/mock" 3>&- &
  mock_pid=$!
  within 10 test -s "$BATS_TEST_TMPDIR/mock"
  control POST /control/run "{\"scenario\":\"$1\",\"sessions\":$2,\"seed\":7}" >"$BATS_TEST_TMPDIR/run"
  jq -j .system_prompt "$BATS_TEST_TMPDIR/run" >"$scratch/system_prompt.txt"
  settings=(
    OPENAI_BASE_URL="http://127.0.0.1:$(jq .port "$BATS_TEST_TMPDIR/mock")/v1" OPENAI_API_KEY=key OPENAI_MODEL="$1"
    AGENT_SESSIONS="$2" AGENT_SYSTEM_PROMPT_FILE="$scratch/system_prompt.txt" AGENT_TASK="$(jq -r .task "$BATS_TEST_TMPDIR/run")"
  )
}

# loop SCENARIO SESSIONS: all sessions end well, on as many connections at most, and the mock has no fault to find
loop() {
  begin "$1" "$2"
  (cd "$scratch" && env "${settings[@]}" AGENT_REPORT=1 "$agent" </dev/null >"$BATS_TEST_TMPDIR/out")
  control POST /control/run/end >"$BATS_TEST_TMPDIR/ledger"
  jq -e --argjson n "$2" '.sessions_complete == $n and .connections <= $n and ([.error_counts[]] | add) == 0' "$BATS_TEST_TMPDIR/ledger"
  jq -es --argjson n "$2" --slurpfile ledger "$BATS_TEST_TMPDIR/ledger" \
    'map(select(.event == "turn")) | length == ($ledger[0].rows | length) and all(.attempt == 1 and .turn_ns > 0)' "$BATS_TEST_TMPDIR/out"
  [ "$(tail -n 1 "$BATS_TEST_TMPDIR/out")" = '{"event":"done"}' ]
}

# start the agent in the background, with what follows as a prefix of its command; stdin stays open
start() {
  mkfifo "$BATS_TEST_TMPDIR/stdin"
  (cd "$scratch" && exec env "${settings[@]}" "$@" "$agent" <"$BATS_TEST_TMPDIR/stdin" >"$BATS_TEST_TMPDIR/out" 3>&-) &
  agent_pid=$!
  exec 9>"$BATS_TEST_TMPDIR/stdin"
}

# The agent ends, with this status. Not by `run`, whose shell has no children of ours to wait for.
ends_with() {
  local status=0
  wait "$agent_pid" || status=$?
  agent_pid=
  [ $status -eq "$1" ]
}

is_done() {
  grep -q '"event":"done"' "$BATS_TEST_TMPDIR/out"
}

# ---- the loop

@test "one session" { loop smoke 1; }

@test "ten sessions" { loop smoke 10; }

@test "500 sessions, also where 256 descriptors are the soft limit" {
  ulimit -S -n 256
  loop smoke 500
}

@test "2000 sessions" { loop smoke 2000; }

@test "ordinary tools, found by path and run by a shell" { loop steady-bin 2; }

@test "long histories" { loop long-history 3; }

@test "memory beside the histories is below 18 KB a session" {
  begin smoke 500
  start
  within 60 is_done
  peak_kb=$(awk '/VmHWM/ { print $2 }' "/proc/$agent_pid/status")
  exec 9>&-
  wait "$agent_pid"
  agent_pid=
  control POST /control/run/end >"$BATS_TEST_TMPDIR/ledger"
  # Libraries and what is there without any session: 16 MB at most.
  [ "$peak_kb" -lt $((16384 + 500 * 18 + $(jq .history_bytes "$BATS_TEST_TMPDIR/ledger") / 1024)) ]
}

# ---- the process

@test "--version and bad usage" {
  run -0 "$agent" --version
  [[ $output == "agent-c $(cat VERSION), libcurl/"* ]]
  run -2 "$agent" --sessions 3
  [ "${#lines[@]}" -eq 1 ]
}

@test "a setting that is missing ends it with one line and status 2" {
  run -2 --separate-stderr env -i "$agent"
  [ -z "$output" ]
  [ "$stderr" = "agent-c: OPENAI_BASE_URL: is required" ]
}

@test "it is idle at the barrier, and ends at the end of its input" {
  begin smoke 3
  start
  within 10 is_done
  before=$(awk '{ print $14 + $15 }' "/proc/$agent_pid/stat")
  sleep 0.3
  [ "$(awk '{ print $14 + $15 }' "/proc/$agent_pid/stat")" -le $((before + 1)) ]
  kill -0 "$agent_pid"
  exec 9>&-
  wait "$agent_pid"
  agent_pid=
}

@test "SIGTERM at the barrier: 143" {
  begin smoke 1
  start
  within 10 is_done
  kill "$agent_pid"
  ends_with 143
}

@test "SIGTERM while streams are open: 143, and the mock sees them go" {
  begin steady 20
  start
  streams_are_open() { [ "$(control GET /control/run | jq .open_streams)" -gt 5 ]; }
  within 10 streams_are_open
  kill "$agent_pid"
  ends_with 143
}

@test "a server that is not there: every session fails, with its line" {
  begin smoke 3
  settings+=(OPENAI_BASE_URL=http://127.0.0.1:1/v1 AGENT_MAX_RETRIES=0)
  run -1 --separate-stderr env "${settings[@]}" "$agent" </dev/null
  [ "${#lines[@]}" -eq 4 ]
  [[ ${lines[0]} == '{"event":"error","session":"s'?'","turn":1,"message":"connection failed: '* ]]
  [ "${lines[3]}" = '{"event":"done"}' ]
}

@test "as PID 1 it reaps what its tools leave behind" {
  unshare --pid --fork true 2>/dev/null || skip "may not make PID namespaces"
  # Answers that ask for a tool that leaves a child, and then wait long enough to look.
  cat >"$scratch/server.py" <<'END'
import http.server, json, sys, time
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *args): pass
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        turn = len(body["messages"]) // 2
        if turn == 2:
            time.sleep(1)
        arguments = ["(sleep 0.2 &) ; echo left", "ps -o stat= --ppid 1 2>/dev/null || cat /proc/[0-9]*/stat"][min(turn, 2) - 1]
        call = {"index": 0, "id": "c", "function": {"name": "shell", "arguments": json.dumps({"command": arguments})}}
        chunk = {"choices": [{"delta": {"tool_calls": [call]} if turn < 3 else {}, "finish_reason": "stop"}]}
        if turn == 3:
            open(sys.argv[1], "w").write(body["messages"][-1]["content"])
        data = ("data: %s\n\ndata: [DONE]\n\n" % json.dumps(chunk)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
END
  python3 "$scratch/server.py" "$scratch/seen" >"$BATS_TEST_TMPDIR/port" 3>&- &
  mock_pid=$!
  within 10 test -s "$BATS_TEST_TMPDIR/port"
  printf prompt >"$scratch/system_prompt.txt"
  env OPENAI_BASE_URL="http://127.0.0.1:$(cat "$BATS_TEST_TMPDIR/port")/v1" OPENAI_API_KEY=k OPENAI_MODEL=m AGENT_TASK=t \
    AGENT_SYSTEM_PROMPT_FILE="$scratch/system_prompt.txt" \
    unshare --pid --fork --mount-proc "$agent" </dev/null
  [ -s "$scratch/seen" ]
  run ! grep -E '^Z|\) Z ' "$scratch/seen"
}
