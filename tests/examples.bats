#!/usr/bin/env bats
# The worked example of docs/contenders.md keeps the contract and is measured like any other. Needs the built
# tree ($BUILD, default build) with the JavaScript runtimes, which run the conformance suite; measuring needs root.

bats_require_minimum_version 1.5.0

setup_file() {
  cd "$BATS_TEST_DIRNAME/.." || return
  export ROOT=$PWD
  BUILD=$(realpath "${BUILD:-build}")
  export BUILD TMPDIR=$BATS_FILE_TMPDIR # the claim to measure is this file's own
  unset CONTENDERS SESSIONS SCENARIOS REPETITIONS TTFT_MS TOKENS_PER_S MEMORY CPU_QUOTA
}

setup() {
  cd "$ROOT" || return
  example=examples/python-agent
}

@test "the example's manifest can be used, and it takes nothing but the standard library" {
  run -0 "$BUILD/prefix/bin/collector" check "$example"/python.json
  [ "$output" = "$example/python.json: contender 'python' (Python, standard library)" ]
  # -I -S: no packages of the site or the user; a bad environment is told by the program itself
  run -2 env -i /usr/bin/python3 -I -S "$example"/agent.py
  [ "$output" = "agent.py: OPENAI_BASE_URL: must be set" ]
}

@test "the example keeps the contract: requests, answers, calls, tools" {
  local area
  for area in request/ session/ env/ output/ sse/ call/ end/done http/redirect; do
    run -0 "$BUILD/prefix/runtimes/node" tests/conformance/run.mjs --prefix "$BUILD/prefix" \
      --agents "$example"/python.json --jobs 4 --case $area
    [[ $output == *" 0 failed, 0 skipped, 0 missing"* ]]
  done
}

@test "the how-to's first command plays the example beside C" {
  [ "$(id -u)" -eq 0 ] || skip "needs root"
  [ -w /sys/fs/cgroup/cgroup.procs ] || [ -w /sys/fs/cgroup/memory/cgroup.procs ] || skip "cgroups cannot be written here"
  run -0 "$BUILD/prefix/bin/collector" run configs/smoke.json --contenders "c,$example/python.json" \
    --sessions 1,20 --quiet --out "$BATS_TEST_TMPDIR/out"
  jq -se 'map(select(.warm_up | not)) | length == 4 and all(.[]; .outcome == "ok" and .valid)' "$BATS_TEST_TMPDIR/out/runs.jsonl"
  jq -e '.contenders.python | .version | startswith("Python 3.")' "$BATS_TEST_TMPDIR/out/environment.json"
  # the command stands in the how-to as it is played here
  grep -q "make bench CONTENDERS=c,examples/python-agent/python.json" docs/contenders.md
}
