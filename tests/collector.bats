#!/usr/bin/env bats
# The collector as a program: what it refuses, what a run leaves, how wrong agents are found, what
# happens when it is interrupted or killed. Needs the built tree ($BUILD, default build) with the
# JavaScript runtimes; measuring needs root or a delegated cgroup.

bats_require_minimum_version 1.5.0

setup_file() {
  cd "$BATS_TEST_DIRNAME/.." || return
  export ROOT=$PWD
  BUILD=$(realpath "${BUILD:-build}")
  export BUILD
  export COLLECTOR=$BUILD/prefix/bin/collector
  # Working folders, and the claim to measure: what runs on this machine meanwhile is no matter here.
  export TMPDIR=$BATS_FILE_TMPDIR
  # Settings of whoever runs the tests must not decide them.
  unset CONTENDERS SESSIONS SCENARIOS REPETITIONS TTFT_MS TOKENS_PER_S MEMORY CPU_QUOTA NO_COLOR
}

setup() {
  cd "$ROOT" || return
  out=$BATS_TEST_TMPDIR/out
  pids=()
}

teardown() {
  local pid
  for pid in "${pids[@]}"; do
    if kill -KILL "$pid" 2>/dev/null; then wait "$pid" || true; fi
  done
  remove_containers
}

needs_cgroups() {
  [ "$(id -u)" -eq 0 ] || skip "needs root"
  [ -w /sys/fs/cgroup/cgroup.procs ] || [ -w /sys/fs/cgroup/memory/cgroup.procs ] ||
    skip "cgroups cannot be written here"
}

# Cgroups and folders that a collector with this pid made.
left_of() {
  find /sys/fs/cgroup -maxdepth 6 -name "turnmeter-$1-*" 2>/dev/null
  find "${TMPDIR:-/tmp}" -maxdepth 1 -name "turnmeter-$1-*"
}

# one_line: the output is one line
one_line() {
  [ "${#lines[@]}" -eq 1 ] || {
    printf 'not one line: %s\n' "$output"
    return 1
  }
}

# is FILTER FILE: the jq filter is true of every value of the file
is() {
  jq -es "length > 0 and all(.[]; $1)" "$2" >/dev/null || {
    echo "not so: $1"
    jq -c '{contender, outcome, outcome_detail, valid, invalid_reasons}' "$2"
    return 1
  }
}

# wait_for COMMAND…: until it succeeds, at most 30 s
wait_for() {
  local deadline=$((SECONDS + 30))
  until "$@"; do
    [ $SECONDS -lt $deadline ] || {
      echo "waited in vain: $*"
      return 1
    }
    sleep 0.05
  done
}

has_records() { # FILE COUNT
  [ -e "$1" ] && [ "$(wc -l <"$1")" -ge "$2" ]
}

plan_with() { # CONTENDER-MANIFEST…: a plan of this test's own
  jq -n --args '{name: "test", contenders: $ARGS.positional, sessions: [1], scenarios: ["smoke"],
    repetitions: 1, seed: 1, run_timeout_s: 20, limits: {memory_bytes: 268435456}, placement: "shared",
    bounds: {late_self_p99_us: 60000000, loop_p99_us: 60000000, steal_percent: 100, other_load_percent: 100}}' \
    -- "$@" >"$BATS_TEST_TMPDIR/plan.json"
  ln -sfn "$ROOT/configs/scenarios" "$BATS_TEST_TMPDIR/scenarios"
  ln -sfn "$ROOT/configs/contenders" "$BATS_TEST_TMPDIR/contenders"
  echo "$BATS_TEST_TMPDIR/plan.json"
}

# ---- what it says and refuses

@test "help is on stdout, bad usage is one line and status 2" {
  local command
  for command in "" run doctor check schema report; do
    # shellcheck disable=SC2086 # no word or one
    run -0 "$COLLECTOR" $command --help
    [[ $output == usage:* ]]
  done
  run -0 "$COLLECTOR" --version
  [ "$output" = "collector $(cat VERSION)" ]
  run -2 "$COLLECTOR"
  run -2 "$COLLECTOR" dance
  run -2 "$COLLECTOR" run
  one_line
  run -2 "$COLLECTOR" run a b
  run -2 "$COLLECTOR" run --no-such-option plan
  run -2 "$COLLECTOR" run configs/smoke.json --listen /tmp/s
  [ "$output" = "collector: run: --listen and --mock-control go together" ]
  run -2 "$COLLECTOR" check
  run -2 "$COLLECTOR" schema
  one_line
  run -2 "$COLLECTOR" schema none
  [ "$output" = "collector: schema: needs one NAME of plan, scenario, manifest, run, summary" ]
  run -2 "$COLLECTOR" report
}

@test "check takes every plan, manifest and scenario of the suite" {
  run -0 "$COLLECTOR" check configs/*.json configs/{contenders,scenarios}/*.json tests/wrong-agents/plan.json
  [[ $output == *"configs/smoke.json: plan 'smoke': "* ]]
  [[ $output == *"configs/contenders/node.json: contender 'node' (Node.js 24)"* ]]
  [[ $output == *"configs/scenarios/quick.json: scenario 'quick': 6 turns"* ]]
}

@test "bad plans, manifests and scenarios: one line with file and field, status 2" {
  local bad=$BATS_TEST_TMPDIR/bad.json
  plan_with c >/dev/null # and its neighbours
  cp configs/scenarios/smoke.json "$BATS_TEST_TMPDIR/other.json"
  run -2 --separate-stderr "$COLLECTOR" check "$BATS_TEST_TMPDIR/other.json"
  [[ $stderr == "collector: $BATS_TEST_TMPDIR/other.json: name: "* ]]
  local row
  for row in '.repetitions = 0|repetitions: must be an integer of 1 to 1000, is 0' \
    '.sessions = [0]|sessions[0]: must be an integer of 1 to 10000, is 0' \
    '.speed = 1|speed: unknown field' \
    'del(.seed)|seed: must be an integer' \
    '.limits.memory_bytes = "1G"|limits.memory_bytes: must be an integer of' \
    '.hypotheses = [{}]|hypotheses[0]'; do
    jq "${row%%|*}" configs/smoke.json >"$bad"
    run -2 --separate-stderr "$COLLECTOR" run "$bad" --out "$out"
    [ "${#stderr_lines[@]}" -eq 1 ]
    [[ $stderr == "collector: $bad: ${row#*|}"* ]] || {
      echo "got: $stderr"
      return 1
    }
    [ ! -e "$out" ]
  done
  run -2 --separate-stderr "$COLLECTOR" run "$BATS_TEST_TMPDIR/none.json"
  [[ $stderr == *"cannot open '$BATS_TEST_TMPDIR/none.json': No such file or directory" ]]
  run -2 --separate-stderr "$COLLECTOR" run configs/smoke.json --contenders=c,nod --dry-run
  [[ $stderr == "collector: configs/smoke.json: contenders: there is no 'nod' in configs/contenders; there are: bun, "* ]]
  run -2 --separate-stderr "$COLLECTOR" run configs/smoke.json --scenarios=quik --dry-run
  [[ $stderr == "collector: configs/smoke.json: scenarios: there is no 'quik' in configs/scenarios; there are: burst, "* ]]
  echo '{"name": "x", "contract": 1, "comand": ["x"], "title": "X"}' >"$bad"
  run -2 --separate-stderr "$COLLECTOR" check "$bad"
  [ "$stderr" = "collector: $bad: comand: unknown field" ]
  echo '{"name": "x", "contract": 1, "command": ["x"]}' >"$bad"
  run -2 --separate-stderr "$COLLECTOR" check "$bad"
  [[ $stderr == "collector: $bad: command[0]: must be a path that begins with"* ]]
  run -2 --separate-stderr "$COLLECTOR" run configs/smoke.json --contenders c,nobody
  [[ $stderr == *"there is no 'nobody' in configs/contenders"* ]]
}

@test "what is read is shown as text, whatever is in it" {
  local bad=$BATS_TEST_TMPDIR/bad.json
  jq '.title = "\u001b[31mred\u0007\n\u202eend"' configs/contenders/c.json >"$bad"
  run -0 "$COLLECTOR" check "$bad"
  [ "$output" = "$bad: contender 'c' (?[31mred? ?end)" ]
  cp configs/scenarios/smoke.json "$BATS_TEST_TMPDIR/a"$'\n'"b.json"
  run -2 "$COLLECTOR" check "$BATS_TEST_TMPDIR/a"$'\n'"b.json"
  one_line
}

@test "paths that options give must not be empty; messages of options begin with the program" {
  local option
  for option in out listen mock-control image-sizes cgroup-parent cgroup-root; do
    run -2 "$COLLECTOR" run configs/smoke.json "--$option="
    [ "$output" = "collector: --$option: must not be empty" ]
  done
  for option in out cgroup-parent cgroup-root; do
    run -2 "$COLLECTOR" doctor "--$option="
    [ "$output" = "collector: --$option: must not be empty" ]
  done
  for option in --json=1 --out --none; do
    run -2 "$COLLECTOR" run configs/smoke.json "$option"
    one_line
    [[ $output == "collector: "*"${option%=*}"* ]]
  done
}

@test "a scenario by the name of what is played beforehand is refused" {
  mkdir "$BATS_TEST_TMPDIR/own"
  jq '.name = "warm-up"' configs/scenarios/smoke.json >"$BATS_TEST_TMPDIR/own/warm-up.json"
  run -2 "$COLLECTOR" check "$BATS_TEST_TMPDIR/own/warm-up.json"
  [[ $output == "collector: $BATS_TEST_TMPDIR/own/warm-up.json: name: must be another than \"warm-up\""* ]]
  run -2 "$COLLECTOR" run configs/smoke.json --scenarios "$BATS_TEST_TMPDIR/own/warm-up.json" --dry-run
  one_line
}

@test "--resume of what are no results leaves no file there" {
  cp configs/smoke.json "$BATS_TEST_TMPDIR/plan.json"
  run -2 "$COLLECTOR" run --resume "$BATS_TEST_TMPDIR"
  [ "$output" = "collector: $BATS_TEST_TMPDIR: cannot open 'runs.jsonl': No such file or directory" ]
  [ ! -e "$BATS_TEST_TMPDIR/runs.jsonl" ]
}

@test "a dry run tells order, counts and time, and runs nothing" {
  run -0 "$COLLECTOR" run configs/quick.json --dry-run --contenders c,node --repetitions 2 --out "$out"
  [ "${#lines[@]}" -eq 13 ]
  [[ ${lines[12]} == "12 runs, about "*", plan "* ]]
  [ "$(printf '%s\n' "${lines[@]:0:6}" | sort)" != "$(printf '%s\n' "${lines[@]:0:6}")" ]
  SESSIONS=5 REPETITIONS=1 run -0 "$COLLECTOR" run configs/quick.json --dry-run --contenders c
  [ "${lines[0]}" = "c, 5 sessions, quick, block 1" ]
  [ ! -e "$out" ]
}

@test "the doctor: one finding a thing, status 1 only if one is in the way" {
  needs_cgroups
  local plan=configs/smoke.json
  run --separate-stderr "$COLLECTOR" doctor "$plan" --contenders c --json
  [ "$status" -eq 0 ]
  [ -z "$stderr" ]
  jq -e 'length >= 20 and all(.[]; keys == ["found", "id", "remedy", "status"]
    and (.status == "ok") == (.remedy == null) and .status != "fail")' <<<"$output" >/dev/null
  # ids are unique, and each stands in the documentation
  jq -r '.[].id' <<<"$output" | sort >"$BATS_TEST_TMPDIR/ids"
  [ "$(uniq -d "$BATS_TEST_TMPDIR/ids")" = "" ]
  local id
  while read -r id; do
    grep -q "^| \`$id\` |" docs/doctor.md || { echo "not documented: $id"; return 1; }
  done <"$BATS_TEST_TMPDIR/ids"
  run -1 --separate-stderr "$COLLECTOR" doctor "$plan" --contenders c --cgroup-root "$BATS_TEST_TMPDIR"
  [[ ${lines[0]} == "fail  cgroup "*"has neither cgroup v2 nor the v1 controller 'memory'" ]]
  [[ ${lines[1]} == *"mount cgroup2 there"* ]]
  [[ ${lines[-1]} == *" in the way" ]]
  run -2 "$COLLECTOR" doctor "$plan" --sessions 1,,2
  one_line
  run -2 "$COLLECTOR" doctor a b
  run -2 "$COLLECTOR" doctor --no-such-option
}

@test "the doctor where it cannot tell where its programs are: one line" {
  unshare --mount true 2>/dev/null || skip "may not make mount namespaces"
  # shellcheck disable=SC2016 # the inner shell expands it
  run -1 --separate-stderr unshare --mount sh -c 'mount -t tmpfs none /proc && exec "$@"' sh "$COLLECTOR" doctor
  [ -z "$output" ]
  [ "$stderr" = "collector: cannot read '/proc/self/exe': No such file or directory" ]
}

@test "what the doctor warns of is shown once and stands in results and reports" {
  needs_cgroups
  run --separate-stderr "$COLLECTOR" run "$(plan_with c)" --out "$out" --memory 900t
  [ "$status" -eq 0 ]
  [ "$(grep -c '^warning: memory: .*: a lower limits.memory_bytes' <<<"$stderr")" -eq 1 ]
  [[ $output == *"Warnings of the doctor"*"memory: "* ]]
  is '.doctor | map(select(.id == "memory")) | .[0].status == "warn"' "$out/environment.json"
  is '.warnings | map(.id) | index("memory")' "$out/summary.json"
  grep -q '^- memory: ' "$out/summary.md"
  run --separate-stderr "$COLLECTOR" run "$(plan_with c)" --out "$out-2" --memory 900t --quiet --json
  [ -z "$stderr" ]
  jq -e '.warnings | map(.id) | index("memory")' <<<"$output" >/dev/null
  cmp <(jq . <<<"$output") <(jq . "$out-2/summary.json")
}

@test "what the doctor finds when a plan is gone on with stands beside what it found first" {
  needs_cgroups
  run -0 "$COLLECTOR" run "$(plan_with c)" --out "$out" --memory 900t --quiet
  # as if the last run had never been, and the warning had come since
  sed -i '$d' "$out/runs.jsonl"
  local next
  next=$(($(wc -l <"$out/runs.jsonl") + 1))
  jq '.doctor |= map(select(.id != "memory"))' "$out/environment.json" >"$BATS_TEST_TMPDIR/environment.json"
  cp "$BATS_TEST_TMPDIR/environment.json" "$out/environment.json"
  # a resumption that plays nothing leaves nothing
  run -0 "$COLLECTOR" run --resume "$out" --dry-run
  is 'has("resumed") | not' "$out/environment.json"
  run -0 --separate-stderr "$COLLECTOR" run --resume "$out"
  [[ $output == *"Warnings of the doctor"*"memory: "*" (when the plan was gone on with, before run $next)"* ]]
  is ".resumed | length == 1 and (.[0] | .first_run == $next and (.started_at | endswith(\"Z\")) and (.doctor | length) >= 20)" \
    "$out/environment.json"
  is ".warnings | map(select(.id == \"memory\")) | length == 1 and .[0].first_run == $next" "$out/summary.json"
  run -0 "$COLLECTOR" check "$out/summary.json"
  # nothing was left to play: no more is said of it
  run -0 "$COLLECTOR" run --resume "$out" --quiet
  is '.resumed | length == 1' "$out/environment.json"
}

@test "overrides: each is in the resolved plan and its hash, bad ones are one line" {
  local plan=configs/quick.json row option
  sha() { "$COLLECTOR" run "$plan" --dry-run --json "$@" | jq -r .plan_sha256; }
  local own
  own=$(sha)
  # what changes nothing does not make another plan of it
  [ "$(sha --sessions 1,10,100 --repetitions 3 --memory 2g --ttft-ms 100 --tokens-per-s 100 --cpu-quota none)" = "$own" ]
  for row in --sessions=1,10 --repetitions=2 --memory=1g --ttft-ms=50 --tokens-per-s=50 --cpu-quota=0.5 --contenders=c; do
    [ "$(sha "$row")" != "$own" ]
  done
  [ "$(TTFT_MS=50 MEMORY=1g sha)" = "$(sha --ttft-ms 50 --memory 1g)" ]
  [ "$(TTFT_MS=50 sha --ttft-ms 70)" = "$(sha --ttft-ms 70)" ]
  for row in "--sessions 1,,2|--sessions: must be a list" "--sessions ,|--sessions: must be a list" \
    "--sessions 0|--sessions: must be an integer of 1 to 10000, is '0'" "--sessions 5,5|configs/quick.json: sessions[1]: 5 is there twice" \
    "--contenders c,|--contenders: must be a list" "--repetitions 1,2|--repetitions: must be an integer of 1 to 1000, is '1,2'" \
    "--ttft-ms fast|--ttft-ms: must be a number of 0 to 3600000, is 'fast'" "--ttft-ms 1e9|--ttft-ms: must be a number" \
    "--ttft-ms inf|--ttft-ms: must be a number" "--ttft-ms 0x10|--ttft-ms: must be a number" \
    "--tokens-per-s 0|--tokens-per-s: must be a number of 0.001 to 1000000, is '0'" "--tokens-per-s -1|--tokens-per-s: must be" \
    "--memory lots|--memory: must be a size like 512m or 2g, or none, is 'lots'" "--memory 1|configs/quick.json: limits.memory_bytes: must be" \
    "--memory 2gb|--memory: must be a size" "--memory 1e30|--memory: must be a size" "--cpu-quota half|--cpu-quota: must be a number of CPUs"; do
    read -ra option <<<"${row%%|*}"
    run -2 "$COLLECTOR" run "$plan" --dry-run "${option[@]}"
    one_line
    [[ $output == "collector: ${row#*|}"* ]] || { echo "$row: $output"; return 1; }
  done
}

@test "overrides: bad ones of the environment are told by the variable's name" {
  local row
  for row in SESSIONS=x SESSIONS=, CONTENDERS=c, SCENARIOS=,, REPETITIONS=0 TTFT_MS=nan TOKENS_PER_S=0 MEMORY=lots CPU_QUOTA=-1; do
    run -2 env "$row" "$COLLECTOR" run configs/smoke.json --dry-run
    one_line
    [[ $output == "collector: ${row%%=*}: must be "* ]] || { echo "$row: $output"; return 1; }
  done
  # an option goes before, and by its own name
  REPETITIONS=2 run -2 "$COLLECTOR" run configs/smoke.json --dry-run --repetitions many
  [[ $output == "collector: --repetitions: must be "* ]]
}

@test "overrides: what is played is what was asked for" {
  needs_cgroups
  run -0 "$COLLECTOR" run "$(plan_with c)" --out "$out" --ttft-ms 60 --tokens-per-s 50 --memory 300m --cpu-quota none --sessions 2
  is '.overrides == {"ttft-ms": "60", "tokens-per-s": "50", "memory": "300m", "sessions": "2"}
    and .limits.memory_bytes == 314572800 and .sessions == [2]
    and (.files.scenarios.smoke | .ttft_ms == {uniform: 60, spread: 0.3} and .chunk_interval_ms == {uniform: 20, spread: 0.3}
      and .spread_first_ms == 40)' "$out/plan.json"
  is '.warm_up or .sessions == 2 and .limits.in_force.memory_bytes == 314572800' "$out/runs.jsonl"
  # the mock played it: six sends a turn, 60 and 5 x 20 ms, less what the spread takes off
  awk -F, 'NR > 1 && ($8 - $6) < 80e6 { bad = 1 } NR > 1 && ($7 - $6) < 40e6 { bad = 1 } END { exit bad || NR < 7 }' "$out/samples/2.csv"
}

@test "beliefs are asked within the limits of runs and in the plan's track; what is not told has a reason" {
  needs_cgroups
  believer() { # NAME COMMAND
    jq --arg name "$1" --arg command "$2" '.name = $name | .tracks.equalised.environment.KNOB = "turned"
      | .beliefs = ["/bin/sh", "-c", $command]' configs/contenders/c.json >"$BATS_TEST_TMPDIR/$1.json"
    echo "$BATS_TEST_TMPDIR/$1.json"
  }
  # shellcheck disable=SC2016 # for the shell of the command
  manifests=("$(believer asked 'printf "{\"groups\": \"%s\", \"cpus\": %s, \"knob\": \"%s\"}" "$(tr "\n" " " </proc/self/cgroup)" "$(nproc)" "$KNOB"')"
    "$(believer text 'echo fine, thank you')" "$(believer list 'echo "[1]"')" "$(believer dead 'exit 3')" c)
  plan=$(plan_with "${manifests[@]}")
  jq '.track = "equalised"' "$plan" >"$BATS_TEST_TMPDIR/equalised.json"
  run -0 "$COLLECTOR" run "$BATS_TEST_TMPDIR/equalised.json" --out "$out"
  is '.contenders.asked.beliefs | (.groups | contains("/turnmeter-run-")) and .cpus >= 1 and .knob == "turned"' "$out/environment.json"
  is '.contenders | [.text, .list, .dead, .c] | all(.beliefs == null)' "$out/environment.json"
  is '.contenders | [.text, .list] | all(.beliefs_missing | endswith("prints no JSON object"))' "$out/environment.json"
  is '.contenders | (.dead.beliefs_missing | endswith("does not tell what it believes"))
    and .c.beliefs_missing == "its manifest has no command that tells them"' "$out/environment.json"
  is '.environment.contenders.asked.beliefs.knob == "turned"' "$out/summary.json"
}

@test "sizes of images come from a file, and only in containers; without one they are null with the reason" {
  needs_cgroups
  echo '{"base": {"image": "b"}, "contenders": {"c": {"image": "i", "image_bytes": {"compressed": 5}, "image_layers": {"all": 2}}}}' \
    >"$BATS_TEST_TMPDIR/sizes.json"
  run -0 "$COLLECTOR" run "$(plan_with c)" --out "$out" --image-sizes "$BATS_TEST_TMPDIR/sizes.json"
  is '.base_image == null and .base_image_missing == "played without containers" and (.contenders.c | .image_bytes == null and .image_bytes_missing == "played without containers")' "$out/environment.json"
}

@test "faults at the start: one line with the remedy, status 1, nothing left" {
  needs_cgroups
  echo '{"name": "absent", "contract": 1, "command": ["{prefix}/runtimes/absent"]}' >"$BATS_TEST_TMPDIR/absent.json"
  run -1 "$COLLECTOR" run "$(plan_with "$BATS_TEST_TMPDIR/absent.json")" --out "$out"
  one_line
  [ "$output" = "collector: contender 'absent': '$BUILD/prefix/runtimes/absent' is absent: fetch it with 'make runtimes'" ]
  [ ! -e "$out" ]
  run -1 "$COLLECTOR" run "$(plan_with c)" --out /proc/none
  one_line
  [[ $output == *"results folder '/proc/none'"*"--out chooses another"* ]]
  run -1 "$COLLECTOR" run "$(plan_with c)" --out "$out" --cgroup-root "$BATS_TEST_TMPDIR"
  one_line
  [[ $output == *"has neither cgroup v2 nor the v1 controller 'memory'"* ]]
  run -1 "$COLLECTOR" run "$(plan_with c)" --out "$out" --cgroup-parent /no/such/group
  one_line
  [[ $output == *"cannot open cgroup '/no/such/group'"* ]]
  # a kernel without the memory controller
  cp -a tests/fixtures/cgroup/v2 "$BATS_TEST_TMPDIR/v2"
  echo "cpuset cpu io pids" >"$BATS_TEST_TMPDIR/v2/docker/cgroup.controllers"
  run -1 "$COLLECTOR" run "$(plan_with c)" --out "$out" --cgroup-root "$BATS_TEST_TMPDIR/v2" --cgroup-parent /docker
  one_line
  [[ $output == *"has no controller 'memory'"*"cgroup_enable=memory"* ]]
  TMPDIR=/proc run -1 "$COLLECTOR" run "$(plan_with c)" --out "$out"
  one_line
  [[ $output == *"cannot open the lock file '/proc/turnmeter.lock' (TMPDIR chooses another folder)"* ]]
  # a mock that cannot start is told once, with its own words
  local deep
  deep=$BATS_TEST_TMPDIR/$(printf '%0100d' 0)
  mkdir "$deep"
  TMPDIR=$deep run -1 "$COLLECTOR" run "$(plan_with c)" --out "$out"
  one_line
  [[ $output == "collector: the mock did not start: mockllm ended with status 1: mockllm: cannot listen on '$deep/"*"/control.sock': the path must be shorter than 108 bytes" ]]
  [ ! -e "$out" ]
}

@test "without rights the remedy is a delegated group" {
  [ "$(id -u)" -eq 0 ] || skip "needs root to become someone else"
  setpriv --reuid 65534 --regid 65534 --clear-groups test -x "$COLLECTOR" || skip "the build is not readable for others"
  cd /
  TMPDIR=$(mktemp -d /tmp/turnmeter-test-XXXXXX)
  chmod 1777 "$TMPDIR"
  run -1 setpriv --reuid 65534 --regid 65534 --clear-groups "$COLLECTOR" run "$ROOT/configs/smoke.json" --contenders c --out "$out"
  one_line
  rm -r "$TMPDIR"
  [[ $output == *"cannot make cgroup"*"systemd-run --user --scope -p Delegate=yes"* ]]
}

# ---- what it measures

@test "a run leaves plan, environment, records, samples and reports, and nothing else" {
  needs_cgroups
  "$COLLECTOR" run "$(plan_with c)" --sessions 1,3 --out "$out" >"$BATS_TEST_TMPDIR/table" &
  local pid=$!
  wait "$pid"
  [ -z "$(left_of "$pid")" ]
  [ "$(cd "$out" && echo *)" = "environment.json plan.json report.html runs.jsonl samples summary.csv summary.json summary.md" ]
  grep -q "results: $out" "$BATS_TEST_TMPDIR/table"

  is '.outcome == "ok" and .valid' "$out/runs.jsonl"
  is '.plan_sha256 == "'"$(jq -r .sha256 "$out/plan.json")"'"' "$out/runs.jsonl"
  is '.limits.in_force.memory_bytes == 268435456 and .limits.asked.memory_bytes == 268435456' "$out/runs.jsonl"
  is '.memory_peak_bytes > 100000 and .memory_peak_bytes < 268435456' "$out/runs.jsonl"
  is '.rss_peak_bytes > 100000 and .processes_at_barrier == 1' "$out/runs.jsonl"
  is '.exit.status == 0 and .exit.barrier' "$out/runs.jsonl"
  is '.cpu_startup_usec > 0 and .cpu_usec_per_turn > 0' "$out/runs.jsonl"
  # the warm-up is kept and marked, and comes first
  [ "$(jq -c '[.run, .warm_up]' "$out/runs.jsonl" | paste -sd ' ')" = "[1,true] [2,false] [3,false]" ]
  # a row for each turn of each session, in the samples of its run
  [ "$(wc -l <"$out/samples/$(jq 'select(.sessions == 3 and (.warm_up | not)).run' "$out/runs.jsonl").csv")" -eq 10 ]

  is '.contenders.c.executable_sha256 == "'"$(sha256sum "$BUILD/prefix/bin/agent-c" | cut -d' ' -f1)"'"' "$out/environment.json"
  is '.contenders.c.artifact_bytes == '"$(stat -c %s "$BUILD/prefix/bin/agent-c")" "$out/environment.json"
  is '.contenders.c.version | startswith("agent-c ")' "$out/environment.json"
  is '.mode == "local" and .machine.cpus_online > 0' "$out/environment.json"
}

@test "a run that ends before a sample is due has the parts of its memory all the same" {
  needs_cgroups
  "$COLLECTOR" run "$(plan_with floor)" --scenarios one --sessions 1 --out "$out" >/dev/null
  is '.memory_at_peak.total > 0 and .memory_at_peak.total <= .memory_peak_bytes + 524288' "$out/runs.jsonl"
}

@test "an executable that cannot be executed is a contender's crash" {
  needs_cgroups
  printf '\177ELFnonsense' >"$BATS_TEST_TMPDIR/broken"
  chmod +x "$BATS_TEST_TMPDIR/broken"
  echo '{"name": "broken", "contract": 1, "command": ["{here}/broken"]}' >"$BATS_TEST_TMPDIR/broken.json"
  run -3 "$COLLECTOR" run "$(plan_with "$BATS_TEST_TMPDIR/broken.json")" --quiet --out "$out"
  is '.outcome == "crashed" and .outcome_detail == "could not be started: Exec format error"' "$out/runs.jsonl"
}

@test "each wrong agent gets its outcome, and the plan goes on" {
  needs_cgroups
  run -3 "$COLLECTOR" run tests/wrong-agents/plan.json --quiet --out "$out"
  local records=$BATS_TEST_TMPDIR/records
  # the last of each: what a busy machine spoilt was run again
  jq -cs 'map(select(.warm_up | not)) | group_by(.contender) | map(last) | .[]' "$out/runs.jsonl" >"$records"
  [ "$(wc -l <"$records")" -eq 12 ]
  is '.valid' "$records"
  found() { # CONTENDER OUTCOME PATTERN
    jq -es --arg c "$1" --arg o "$2" --arg p "$3" \
      'map(select(.contender == $c)) | .[0].outcome == $o and (.[0].outcome_detail | test($p))' "$records" >/dev/null || {
      echo "$1 is not $2 ($3):"
      jq -c --arg c "$1" 'select(.contender == $c) | {outcome, outcome_detail}' "$records"
      return 1
    }
  }
  found none ok '^$'
  found does-not-wait ok '^$'
  found drops-history wrong ': history: '
  found wrong-output wrong ': tool_output: '
  found stops-early incomplete 's1 stopped after turn 2 of 4; 1 of 2 sessions complete'
  found never-ends timeout 'still running when its time was up'
  found eats-memory oom 'ran out of memory at its limit of 268435456 bytes'
  found crashes crashed 'died by signal 6'
  found floods-stdout wrong 'wrote more to stdout than the contract allows'
  found leaves-daemon wrong 'left 1 process running after its end'
  found starts-tools-early wrong ': early_tool: '
  found swaps-sessions wrong '(s1|s2), turn 2: (history|session): '
  # no barrier, no memory at the barrier; never zero
  is 'if .contender == "never-ends" then .rss_peak_bytes == null and .missing.rss_peak_bytes != null else true end' "$records"
  # after it ran out of memory a contender is warmed up anew
  is 'if .contender == "eats-memory" then .memory_peak_at_limit else true end' "$records"
  run ! pgrep -f '^/bin/sleep 3217$'
}

@test "what is not valid is played again, within bounds, and is no success" {
  needs_cgroups
  local plan
  plan=$(plan_with c)
  jq '.bounds.late_self_p99_us = 1' "$plan" >"$BATS_TEST_TMPDIR/strict.json"
  run -3 "$COLLECTOR" run "$BATS_TEST_TMPDIR/strict.json" --repetitions 2 --quiet --out "$out"
  is '.outcome == "ok"' "$out/runs.jsonl"
  # two runs, and three repeats in all: one of the two a third time
  [ "$(jq -s -c 'map(select(.warm_up | not)) | map(.block)' "$out/runs.jsonl")" = "[1,2,1,2,1]" ]
  is 'if .warm_up then true else .valid == false and (.invalid_reasons | map(startswith("late_self: ")) | any) end' "$out/runs.jsonl"
}

@test "make bench plays a plan" {
  needs_cgroups
  run -0 make -s BUILD="$BUILD" bench PLAN=configs/smoke.json CONTENDERS=c,bun OUT="$out"
  [ "$(jq -r '[.contender, .sessions] | join(" ")' <(jq -c 'select(.warm_up | not)' "$out/runs.jsonl") | sort | paste -sd,)" = "bun 1,bun 3,c 1,c 3" ]
}

@test "make bench tells a bad plan or setting in one line, before it builds contenders" {
  local row arguments
  echo '{' >"$BATS_TEST_TMPDIR/bad.json"
  for row in "PLAN=none.json|cannot open 'none.json'" "PLAN=configs|configs: must be a regular file" "PLAN=$BATS_TEST_TMPDIR/bad.json|$BATS_TEST_TMPDIR/bad.json: line 2" \
    "PLAN=|cannot open ''" "SESSIONS=x|--sessions: must be" "CONTENDERS=c,|--contenders: must be" "MEMORY=lots|MEMORY: must be" "TTFT_MS=-1|TTFT_MS: must be"; do
    run -2 make -s BUILD="$BUILD" bench "${row%%|*}"
    # the second line is make's own
    [ "${#lines[@]}" -eq 2 ]
    [[ ${lines[0]} == "collector: ${row#*|}"* ]] || {
      echo "$row: $output"
      return 1
    }
  done
}

@test "make bench refuses what only make up takes, and says what does it here" {
  run -2 make -s BUILD="$BUILD" bench CONTENDER=my.json
  [ "${lines[0]}" = "make bench: CONTENDER=my.json: is for make up; here: CONTENDERS=c,my.json" ]
  run -2 make -s BUILD="$BUILD" bench RESUME=a
  [ "${lines[0]}" = "make bench: RESUME=a: is for make up; here: $BUILD/prefix/bin/collector run --resume results/a" ]
}

@test "a full disk: one line, what was measured before stays whole" {
  needs_cgroups
  mkdir "$BATS_TEST_TMPDIR/disk"
  mount -t tmpfs -o size=16m tmpfs "$BATS_TEST_TMPDIR/disk" 2>/dev/null || skip "may not mount"
  local status=0
  "$COLLECTOR" run "$(plan_with c)" --repetitions 30 --quiet --out "$BATS_TEST_TMPDIR/disk/out" >"$BATS_TEST_TMPDIR/log" 2>&1 &
  local collector=$!
  pids+=("$collector")
  # somebody else fills it while the plan is played
  wait_for test -s "$BATS_TEST_TMPDIR/disk/out/runs.jsonl"
  run -1 dd if=/dev/zero of="$BATS_TEST_TMPDIR/disk/fill" bs=4k
  wait "$collector" || status=$?
  cp -r "$BATS_TEST_TMPDIR/disk/out" "$out"
  umount "$BATS_TEST_TMPDIR/disk"
  [ "$status" -eq 1 ]
  [ "$(grep -c '^collector: ' "$BATS_TEST_TMPDIR/log")" -eq 1 ]
  grep -q 'No space left on device' "$BATS_TEST_TMPDIR/log"
  is '.outcome == "ok"' "$out/runs.jsonl"
}

# ---- ends before the end

start_collector() { # ARGUMENTS…: in the background; sets pid
  "$COLLECTOR" run "$@" --out "$out" >"$BATS_TEST_TMPDIR/log" 2>&1 &
  pid=$!
  pids+=("$pid")
}

@test "SIGINT ends the run and summarises, SIGTERM likewise" {
  needs_cgroups
  local signal status
  for signal in INT:130 TERM:143; do
    out=$BATS_TEST_TMPDIR/${signal%:*}
    start_collector "$(plan_with c)" --repetitions 500
    wait_for has_records "$out/runs.jsonl" 3
    kill -"${signal%:*}" "$pid"
    status=0
    wait "$pid" || status=$?
    [ "$status" -eq "${signal#*:}" ]
    [ -z "$(left_of "$pid")" ]
    [ -e "$out/summary.json" ]
    jq -e . "$out/runs.jsonl" >/dev/null
  done
}

is_under_way() { # PID: it has made its working folder, so it listens to signals
  [ -n "$(left_of "$1")" ]
}

@test "interrupted before the first run, nothing is left" {
  needs_cgroups
  start_collector "$(plan_with c)"
  wait_for is_under_way "$pid"
  kill -INT "$pid"
  local status=0
  wait "$pid" || status=$?
  [ "$status" -eq 130 ]
  # The signal may come just after the folder was made: then it is one to go on with.
  [ ! -e "$out" ] || [ -s "$out/plan.json" ]
  [ -z "$(left_of "$pid")" ]
}

@test "a killed collector loses the run in progress only; the next one cleans up and goes on" {
  needs_cgroups
  start_collector "$(plan_with c)" --repetitions 6
  wait_for has_records "$out/runs.jsonl" 3
  kill -KILL "$pid"
  wait "$pid" || true
  [ -n "$(left_of "$pid")" ]
  printf '{"schema":1,"torn' >>"$out/runs.jsonl"
  local killed=$pid before
  before=$(($(wc -l <"$out/runs.jsonl")))
  run -0 "$COLLECTOR" run --resume "$out" --quiet
  [ -z "$(left_of "$killed")" ]
  is '.outcome == "ok"' "$out/runs.jsonl"
  [ "$(jq -s 'map(select(.warm_up | not)) | length' "$out/runs.jsonl")" -eq 6 ]
  [ "$(jq -s 'map(select(.warm_up | not) | .block) | unique | length' "$out/runs.jsonl")" -eq 6 ]
  # numbers go on, and each has its samples
  [ "$(jq -s 'map(.run) == [range(1; length + 1)]' "$out/runs.jsonl")" = true ]
  [ "$before" -lt "$(wc -l <"$out/runs.jsonl")" ]
  # nothing more to do is no error
  run -0 "$COLLECTOR" run --resume "$out" --quiet
  # nor on a machine that is another: nobody is told to try that again
  jq '.machine_id = "another"' "$out/environment.json" >"$BATS_TEST_TMPDIR/environment.json"
  cp "$BATS_TEST_TMPDIR/environment.json" "$out/environment.json"
  run -1 "$COLLECTOR" run --resume "$out" --quiet
  [ "$output" = "collector: $out: was begun on another machine or kernel: run the plan again instead" ]
  run -2 "$COLLECTOR" run --resume "$BATS_TEST_TMPDIR/none"
  jq '.seed = 2' "$out/plan.json" >"$BATS_TEST_TMPDIR/changed" && cp "$BATS_TEST_TMPDIR/changed" "$out/plan.json"
  run -2 "$COLLECTOR" run --resume "$out"
  [[ $output == *"the file was changed"* ]]
}

@test "--resume without a plan refuses whatever would change it, option or variable, in one line" {
  local row option variable value count=0
  mkdir "$out"
  while read -r option variable value; do
    for row in "$COLLECTOR run --resume $out --$option $value" "env $variable=$value $COLLECTOR run --resume $out" \
      "env $variable=$value $COLLECTOR run --resume $out --dry-run"; do
      # shellcheck disable=SC2086 # words
      run -2 $row
      one_line
      [[ $output == "collector: run: --resume goes on with the plan of its folder as it is: leave out what would change it, --$option or the variable $variable" ]]
    done
    # what is empty changes nothing: here it is the folder that is at fault
    run -2 env "$variable=" "$COLLECTOR" run --resume "$out" "--$option="
    [[ $output == *"plan.json"* ]]
    count=$((count + 1))
  done < <("$COLLECTOR" run --help | sed -n '/^Instead/,$s/^  --\([a-z-]*\) [A-Z]* *\([A-Z_]*\) .*/\1 \2 1/p')
  [ "$count" -ge 8 ]
}

@test "a mock that ends is told with its own last words; what was measured stays" {
  needs_cgroups
  start_collector "$(plan_with c)" --repetitions 500
  wait_for has_records "$out/runs.jsonl" 2
  local mock
  mock=$(pgrep -P "$pid" -x mockllm)
  kill -KILL "$mock"
  local status=0
  wait "$pid" || status=$?
  [ "$status" -eq 1 ]
  # what it says on stdout is no last word
  grep -q "collector: the plan is not complete (collector run --resume $out goes on): .*mockllm ended with signal 9: it said nothing$" "$BATS_TEST_TMPDIR/log"
  [ -e "$out/summary.json" ]
  [ -z "$(left_of "$pid")" ]
}

@test "a launcher that somebody ends is no crash of its contender: the run is played again" {
  needs_cgroups
  local signal status
  for signal in TERM INT KILL; do
    out=$BATS_TEST_TMPDIR/$signal
    start_collector "$(plan_with c)" --repetitions 2 --ttft-ms 500
    wait_for has_records "$out/runs.jsonl" 1
    # in the middle of a run: its agent is there
    wait_for has_agent "$pid"
    kill -"$signal" "$(pgrep -P "$pid" -x launcher)"
    status=0
    wait "$pid" || status=$?
    [ "$status" -eq 0 ] || {
      cat "$BATS_TEST_TMPDIR/log"
      return 1
    }
    grep -q "^once more: lost the launcher of 'c'" "$BATS_TEST_TMPDIR/log"
    is '.outcome == "ok"' "$out/runs.jsonl"
    [ -z "$(left_of "$pid")" ]
  done
}

has_agent() { # PID of the collector
  local launcher
  launcher=$(pgrep -P "$1" -x launcher) && pgrep -P "$launcher" -x agent-c >/dev/null
}

@test "what cannot be printed is said, status 1; descriptors that are closed are nobody's" {
  needs_cgroups
  local command plan
  plan=$(plan_with c)
  for command in --help --version "schema plan" "run --help" "run $plan --dry-run" "check $plan" "doctor $plan --json" "run $plan --quiet --out $out"; do
    # shellcheck disable=SC2086 # words
    run -1 --separate-stderr bash -c '"$@" >/dev/full' - "$COLLECTOR" $command
    [ "$stderr" = "collector: cannot write all of it to stdout" ] || {
      echo "$command: $stderr"
      return 1
    }
  done
  # what was measured is there all the same
  [ -e "$out/report.html" ]
  run -1 --separate-stderr bash -c '"$@" >/dev/full' - "$COLLECTOR" report "$out" --json
  # no file of ours becomes stdin, stdout or stderr
  run -0 bash -c '"$@" <&- >&- 2>&-' - "$COLLECTOR" run "$plan" --out "$out-2"
  is '.outcome == "ok"' "$out-2/runs.jsonl"
  is '.contenders' "$out-2/plan.json"
  run -0 bash -c '"$@" >&-' - "$COLLECTOR" report "$out-2"
}

@test "a limit of file sizes and folders that may not be written to: one line, status 1, nothing left" {
  needs_cgroups
  local plan
  plan=$(plan_with c)
  run -1 bash -c 'ulimit -f 16; exec "$@"' - "$COLLECTOR" run "$plan" --quiet --repetitions 9 --out "$out"
  [[ $output == *"collector: "*"File too large"* ]]
  [ -z "$(find "$TMPDIR" -maxdepth 1 -name 'turnmeter-*')" ]
  "$COLLECTOR" run "$plan" --quiet --out "$out-2" >/dev/null
  mkdir "$BATS_TEST_TMPDIR/disk"
  mount -t tmpfs -o size=4m tmpfs "$BATS_TEST_TMPDIR/disk" 2>/dev/null || skip "may not mount"
  cp -r "$out-2" "$BATS_TEST_TMPDIR/disk/results"
  mount -o remount,ro "$BATS_TEST_TMPDIR/disk"
  local failed=0 arguments
  for arguments in "report $BATS_TEST_TMPDIR/disk/results" "run --resume $BATS_TEST_TMPDIR/disk/results" \
    "run $plan --out $BATS_TEST_TMPDIR/disk/new"; do
    # shellcheck disable=SC2086 # words
    run "$COLLECTOR" $arguments
    [ "$status" -eq 1 ] && [ "${#lines[@]}" -eq 1 ] && [[ $output == *": Read-only file system" ]] || {
      echo "$arguments: $status $output"
      failed=1
    }
  done
  umount "$BATS_TEST_TMPDIR/disk"
  [ "$failed" -eq 0 ]
  # results that are being written are busy, not bad
  exec {held}<"$out-2/runs.jsonl"
  flock "$held"
  run -1 "$COLLECTOR" run --resume "$out-2" {held}<&-
  exec {held}<&-
  [ "$output" = "collector: $out-2: another collector is writing these results" ]
}

# ---- two at once

@test "a second run is refused while one measures, and told who does; a killed one holds nothing" {
  needs_cgroups
  local lock=$TMPDIR/turnmeter.lock
  start_collector "$(plan_with c)" --repetitions 500
  local first=$pid
  wait_for has_records "$out/runs.jsonl" 2
  run -1 --separate-stderr "$COLLECTOR" run configs/smoke.json --contenders c --out "$BATS_TEST_TMPDIR/second"
  [ "$stderr" = "collector: another run is measuring on this machine (collector run, plan 'test', process $first): wait for it, or interrupt it" ]
  [ ! -e "$BATS_TEST_TMPDIR/second" ]
  # reading, checking and planning are free
  run -0 "$COLLECTOR" run configs/smoke.json --contenders c --dry-run
  kill -KILL "$first"
  wait "$first" || true
  run -0 "$COLLECTOR" run "$(plan_with c)" --quiet --out "$BATS_TEST_TMPDIR/third"
  # whatever stands in the file, only the lock counts, and nobody is named who does not live
  local held text
  exec {held}<"$lock"
  flock "$held"
  for text in "1-1 collector run" "" "x" "- y" $'\001'; do
    echo "$text" >"$lock"
    run -1 "$COLLECTOR" run configs/smoke.json --contenders c --out "$BATS_TEST_TMPDIR/second" {held}<&-
    [ "$output" = "collector: another run is measuring on this machine: wait for it, or interrupt it" ] || {
      echo "'$text': $output"
      return 1
    }
  done
  exec {held}<&-
  # what is in its place is no reason to hang
  rm "$lock"
  mkfifo "$lock"
  run -1 "$COLLECTOR" run configs/smoke.json --contenders c --out "$BATS_TEST_TMPDIR/second"
  [ "$output" = "collector: $lock: must be a regular file: remove it" ]
  rm "$lock"
  ln -s elsewhere "$lock"
  run -1 "$COLLECTOR" run configs/smoke.json --contenders c --out "$BATS_TEST_TMPDIR/second"
  one_line
  [[ $output == "collector: cannot open the lock file '$lock'"* ]]
  rm "$lock"
}

# ---- as in containers: launchers and mock that others have started

# A group like a container's, for the process that runs the command; on CPU 1 alone.
in_container() { # NAME COMMAND…
  local group=/turnmeter-test-$$-$1 part
  shift
  if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    mkdir -p "/sys/fs/cgroup$group"
    echo 1 >"/sys/fs/cgroup$group/cpuset.cpus"
    echo $BASHPID >"/sys/fs/cgroup$group/cgroup.procs"
  else
    for part in memory cpu cpuacct cpuset; do
      mkdir -p "/sys/fs/cgroup/$part$group"
      if [ $part = cpuset ]; then
        echo 1 >"/sys/fs/cgroup/cpuset$group/cpuset.cpus"
        cat /sys/fs/cgroup/cpuset/cpuset.mems >"/sys/fs/cgroup/cpuset$group/cpuset.mems"
      fi
      echo $BASHPID >"/sys/fs/cgroup/$part$group/cgroup.procs"
    done
  fi
  exec "$@"
}

remove_containers() {
  find /sys/fs/cgroup -depth -type d -path "*/turnmeter-test-$$-*" -exec rmdir {} + 2>/dev/null || true
}

@test "launchers of containers: attached, lost, attached again, stale leaves removed" {
  needs_cgroups
  [ "$(nproc)" -ge 2 ] || skip "needs two CPUs"
  local work=$BATS_TEST_TMPDIR socket=$BATS_TEST_TMPDIR/collector.sock control=$BATS_TEST_TMPDIR/control.sock
  mkdir "$work/scratch"
  touch "$work/scratch/left-over"
  "$BUILD/prefix/bin/mockllm" --port 0 --control "$control" --tool "$BUILD/prefix/bin/tmtool" >/dev/null 3>&- &
  pids+=($!)
  (in_container c "$BUILD/prefix/bin/launcher" --socket "$socket" --name c --scratch "$work/scratch") 3>&- &
  local launcher=$! plan
  pids+=("$launcher")
  plan=$(plan_with c)
  jq '.placement = "split" | .limits = {}' "$plan" >"$work/split.json"

  # the contender's CPU must not be the collector's
  run -1 "$COLLECTOR" run "$work/split.json" --out "$out" --listen "$socket" --mock-control "$control"
  [[ $output == *"the collector may use all CPUs, "*": placement 'split' needs some that are the contenders' alone"* ]]
  run -1 taskset -c 1 "$COLLECTOR" run "$work/split.json" --out "$out" --listen "$socket" --mock-control "$control"
  [[ $output == *"contender 'c' may use CPUs 1, the collector 1: placement 'split' needs them apart"* ]]

  run -0 taskset -c 0 "$COLLECTOR" run "$work/split.json" --out "$out" --listen "$socket" --mock-control "$control"
  is '.mode == "container" and .outcome == "ok" and .limits.in_force.cpus == "1"' "$out/runs.jsonl"
  [ ! -e "$work/scratch/left-over" ]
  [ ! -e "$socket" ]

  # a collector is killed while a run is on: the launcher ends the run and waits for the next one
  taskset -c 0 "$COLLECTOR" run "$work/split.json" --out "$work/killed" --repetitions 500 \
    --listen "$socket" --mock-control "$control" >"$work/log" 2>&1 3>&- &
  local killed=$!
  pids+=("$killed")
  wait_for has_records "$work/killed/runs.jsonl" 2
  kill -KILL "$killed"
  wait "$killed" || true
  wait_for no_children_of "$launcher"
  run -0 taskset -c 0 "$COLLECTOR" run --resume "$work/killed" --dry-run
  run -0 taskset -c 0 "$COLLECTOR" run "$work/split.json" --out "$work/again" --listen "$socket" --mock-control "$control"
  is '.outcome == "ok"' "$work/again/runs.jsonl"
  [ -z "$(find /sys/fs/cgroup -path "*/turnmeter-test-$$-*" -name 'turnmeter-run-*')" ]

  # without its container a contender is not there
  kill -TERM "$launcher"
  local status=0
  wait "$launcher" || status=$?
  [ "$status" -eq 143 ]
  taskset -c 0 "$COLLECTOR" run "$work/split.json" --out "$work/none" --listen "$socket" \
    --mock-control "$control" >"$work/log" 2>&1 3>&- &
  pids+=($!)
  wait_for test -e "$socket"
  kill -INT $!
  status=0
  wait $! || status=$?
  [ "$status" -eq 130 ]
  grep -q "interrupted while starting" "$work/log"
}

@test "what is being waited for is said once it takes long, and not when quiet" {
  needs_cgroups
  local work=$BATS_TEST_TMPDIR option plan
  plan=$(plan_with c)
  for option in "" --quiet; do
    # shellcheck disable=SC2086 # no word or one
    "$COLLECTOR" run "$plan" --out "$work/none" --listen "$work/s$option" --mock-control "$work/none.sock" $option \
      >"$work/log$option" 2>&1 3>&- &
    pids+=($!)
  done
  wait_for grep -q "^waiting for the mock, at most 60 s" "$work/log"
  kill -INT "${pids[@]}"
  wait "${pids[0]}" && return 1
  wait "${pids[1]}" && return 1
  [ "$(grep -c waiting "$work/log")" -eq 1 ]
  ! grep -q waiting "$work/log--quiet"
}

no_children_of() {
  ! pgrep -P "$1" >/dev/null
}

@test "a launcher outside of any container is refused" {
  needs_cgroups
  local work=$BATS_TEST_TMPDIR
  mkdir "$work/scratch"
  "$BUILD/prefix/bin/mockllm" --port 0 --control "$work/m" --tool "$BUILD/prefix/bin/tmtool" >/dev/null 3>&- &
  pids+=($!)
  "$BUILD/prefix/bin/launcher" --socket "$work/s" --name c --scratch "$work/scratch" 3>&- &
  pids+=($!)
  run -1 "$COLLECTOR" run "$(plan_with c)" --out "$out" --listen "$work/s" --mock-control "$work/m"
  [[ $output == *"contender 'c': its launcher is in no container: the collector is in the same cgroup"* ]]
}
