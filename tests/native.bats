#!/usr/bin/env bats
# The native agents: whole loops against the mock for the floor, the C agent however it is linked and, where `make
# rust` (which is part of `make check`) has built it, the Rust agent; and what the static programs must be. What else
# the wire may bring to agents is the conformance suite's, and nothing else comes to the floor.

bats_require_minimum_version 1.5.0

setup() {
  cd "$BATS_TEST_DIRNAME/.." || return
  build=${BUILD:-build}
  case $build in /*) ;; *) build=$PWD/$build ;; esac
  bin=$build/prefix/bin
  control=$BATS_TEST_TMPDIR/control.sock
  scratch=$BATS_TEST_TMPDIR/scratch
  mkdir "$scratch"
  "$bin/mockllm" --port 0 --control "$control" --tool "$bin/tmtool" --scenarios configs/scenarios \
    >"$BATS_TEST_TMPDIR/mock" 3>&- &
  mock_pid=$!
  until [ -s "$BATS_TEST_TMPDIR/mock" ]; do
    kill -0 $mock_pid || return
    sleep 0.02
  done
}

teardown() {
  kill $mock_pid
  wait $mock_pid || true
}

control() { # METHOD PATH [BODY]
  curl -sS --fail-with-body --unix-socket "$control" -X "$1" ${3:+--data "$3"} "http://mock$2"
}

# loop SCENARIO SESSIONS AGENT…: all sessions end well on a connection each, and the mock has no fault to find
loop() {
  local scenario=$1 sessions=$2
  shift 2
  control POST /control/run "{\"scenario\":\"$scenario\",\"sessions\":$sessions,\"seed\":7}" >"$BATS_TEST_TMPDIR/run"
  jq -j .system_prompt "$BATS_TEST_TMPDIR/run" >"$scratch/system_prompt.txt"
  (cd "$scratch" && env \
    OPENAI_BASE_URL="http://127.0.0.1:$(jq .port "$BATS_TEST_TMPDIR/mock")/v1" OPENAI_API_KEY=key OPENAI_MODEL="$scenario" \
    AGENT_SESSIONS="$sessions" AGENT_SYSTEM_PROMPT_FILE=system_prompt.txt AGENT_REPORT=1 \
    AGENT_TASK="$(jq -r .task "$BATS_TEST_TMPDIR/run")" "$@" </dev/null >"$BATS_TEST_TMPDIR/out")
  control POST /control/run/end >"$BATS_TEST_TMPDIR/ledger"
  jq -e --argjson n "$sessions" '.sessions_complete == $n and .connections == $n and ([.error_counts[]] | add) == 0' \
    "$BATS_TEST_TMPDIR/ledger"
  jq -es --slurpfile ledger "$BATS_TEST_TMPDIR/ledger" \
    '(map(select(.event == "turn")) | length) == ($ledger[0].rows | length) and .[-1] == {event: "done"}' "$BATS_TEST_TMPDIR/out"
}

bin_scenario='{"name": "bin", "description": "programs", "turns": 9, "system_prompt_bytes": 2048, "task": "session {session}", "ttft_ms": {"constant": 1},
  "chunk_interval_ms": {"constant": 1}, "chunks": 6, "chunk_bytes": {"min": 6, "max": 40},
  "tools": {"kind": "bin", "calls": {"min": 1, "max": 4}, "output_bytes": {"min": 64, "max": 1500}}}'
large_scenario='{"name": "large", "description": "large histories", "turns": 6, "system_prompt_bytes": 65536, "task": "session {session}", "ttft_ms": {"constant": 1},
  "chunk_interval_ms": {"constant": 1}, "chunks": 9, "chunk_bytes": {"min": 6, "max": 4000},
  "tools": {"kind": "tmtool", "calls": {"min": 2, "max": 4}, "sleep_ms": {"min": 0, "max": 2}, "output_bytes": {"min": 0, "max": 65536}}}'

every_loop() { # AGENT…
  loop smoke 20 "$@"
  control POST /control/scenario "$bin_scenario"
  loop bin 10 "$@"
  control POST /control/scenario "$large_scenario"
  loop large 4 "$@"
}

@test "the floor plays the suite's tool, the system's programs and large histories" {
  every_loop "$bin/agent-floor"
}

@test "the floor refuses what it cannot play in one line, status 2" {
  local row
  for row in AGENT_SESSIONS= AGENT_SESSIONS=0 AGENT_SESSIONS=-1 AGENT_SESSIONS=1e3 AGENT_SESSIONS=10001 "AGENT_SESSIONS= 5" \
    AGENT_SESSIONS=99999999999999999999 OPENAI_BASE_URL= OPENAI_BASE_URL=https://127.0.0.1:9/v1 OPENAI_BASE_URL=127.0.0.1:9 OPENAI_API_KEY=; do
    run -2 --separate-stderr env -i OPENAI_BASE_URL=http://127.0.0.1:9/v1 OPENAI_API_KEY=k OPENAI_MODEL=m AGENT_SESSIONS=1 \
      AGENT_TASK=t AGENT_SYSTEM_PROMPT_FILE=/dev/null "$row" "$bin/agent-floor"
    [ -z "$output" ]
    [ "${#stderr_lines[@]}" -eq 1 ]
    [[ $stderr == "agent-floor: ${row%%=*}: "* ]] || {
      echo "$row: $stderr"
      return 1
    }
  done
}

@test "the floor ends with a line when the server is not there" {
  run -1 --separate-stderr env OPENAI_BASE_URL=http://127.0.0.1:1/v1 OPENAI_API_KEY=k OPENAI_MODEL=m AGENT_SESSIONS=1 \
    AGENT_TASK=t AGENT_SYSTEM_PROMPT_FILE=/dev/null "$bin/agent-floor"
  [ "${#stderr_lines[@]}" -eq 1 ]
  [[ $stderr == "agent-floor: connect: "* ]]
}

@test "the C agent plays them, whatever it is linked with" {
  for agent in agent-c agent-c-min agent-c-dynamic; do
    echo "$agent"
    every_loop "$bin/$agent"
  done
}

@test "the static C agents are small, stripped, without an interpreter, position-independent and hardened" {
  while read -r program most; do
    file=$bin/$program
    size=$(stat -c %s "$file")
    echo "$program: $size bytes"
    [ "$size" -le "$most" ]
    run -0 readelf --wide --file-header --segments --sections --dynamic "$file"
    echo "$output"
    grep -q 'Type: *DYN' <<<"$output"
    grep -q 'Flags: .*NOW.*PIE\|FLAGS_1.*NOW.*PIE' <<<"$output"
    grep -q '^ *GNU_RELRO ' <<<"$output"
    grep -q '^ *GNU_STACK .* RW ' <<<"$output"
    for absent in INTERP NEEDED TEXTREL RPATH RUNPATH .symtab .debug; do
      ! grep -qw -- "$absent" <<<"$output" || return 1
    done
  done <<'TABLE'
agent-c 1509949
agent-c-min 199680
TABLE
}

@test "no program is shipped with more than it needs: all agents are stripped" {
  for file in "$bin"/agent-*; do
    echo "$file"
    run -0 readelf --wide --sections "$file"
    [[ $output != *.symtab* && $output != *.debug* ]]
  done
}

@test "an agent that was built without TLS says so of https:// in one line" {
  settings=(OPENAI_API_KEY=k OPENAI_MODEL=m AGENT_TASK=t AGENT_SYSTEM_PROMPT_FILE=VERSION AGENT_MAX_RETRIES=0)
  run -2 --separate-stderr env OPENAI_BASE_URL=HTTPS://127.0.0.1:1/v1 "${settings[@]}" "$bin/agent-c-min"
  echo "$stderr"
  [ -z "$output" ]
  [ "${#stderr_lines[@]}" -eq 1 ]
  [[ $stderr == "agent-c: OPENAI_BASE_URL: must be an http:// URL, this program was built without TLS"* ]]
  # the others get as far as the server that is not there
  for agent in agent-c agent-c-dynamic; do
    run -1 --separate-stderr env OPENAI_BASE_URL=https://127.0.0.1:1/v1 "${settings[@]}" "$bin/$agent" </dev/null
    [[ $output == *'"event":"error"'*'"event":"done"'* ]]
  done
}

@test "the Rust agent plays them on both of its runtimes" {
  [ -x "$bin/agent-rust" ] || skip "not built (make rust)"
  every_loop "$bin/agent-rust" st
  every_loop "$bin/agent-rust" mt
}
