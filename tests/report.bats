#!/usr/bin/env bats
# `collector report DIR`: what it makes of a results folder, of a torn one, and of none. docs/method.md says
# what the files hold; the numbers themselves are the unit tests'.

bats_require_minimum_version 1.5.0

setup() {
  cd "$BATS_TEST_DIRNAME/.." || return
  build=${BUILD:-build}
  case $build in /*) ;; *) build=$PWD/$build ;; esac
  collector=$build/prefix/bin/collector
  results=$BATS_TEST_TMPDIR/results
  cp -r tests/fixtures/results/mixed "$results"
}

no_temporary_files() {
  run -0 find "$results" -name '*.tmp'
  [ -z "$output" ]
}

@test "report makes the four files and prints the table" {
  run -0 --separate-stderr "$collector" report "$results"
  [ -z "$stderr" ]
  [[ $output == *"quick · 512 MiB · split · shipped track · local · cgroup v2"* ]]
  [[ $output == *"supported  C needs at most half of Node's memory"* ]]
  for file in summary.json summary.csv summary.md report.html; do
    [ -s "$results/$file" ]
  done
  no_temporary_files
}

@test "no colours and no control characters when stdout is no terminal" {
  run -0 "$collector" report "$results"
  [[ $output != *$'\033'* ]]
}

@test "made again, the files are the same" {
  "$collector" report "$results" >/dev/null
  mkdir "$BATS_TEST_TMPDIR/before"
  cp "$results"/summary.* "$results/report.html" "$BATS_TEST_TMPDIR/before"
  "$collector" report "$results" >/dev/null
  for file in summary.json summary.csv summary.md report.html; do
    cmp "$BATS_TEST_TMPDIR/before/$file" "$results/$file"
  done
}

@test "a torn last line is left out and said" {
  printf '{"schema":1,"plan_sha256":"d6bd' >>"$results/runs.jsonl"
  run -0 "$collector" report "$results"
  [[ $output == *"the last line of runs.jsonl (line 56) was torn off and is left out"* ]]
  grep -q 'torn off' "$results/report.html"
}

@test "a wrong line is one message with file and line, and old reports stay" {
  "$collector" report "$results" >/dev/null
  before=$(cat "$results/summary.md")
  sed -i '7s/"sessions":[0-9]*/"sessions":"many"/' "$results/runs.jsonl"
  run -1 --separate-stderr "$collector" report "$results"
  [ -z "$output" ]
  [ "${#stderr_lines[@]}" -eq 1 ]
  [[ $stderr == *"$results: runs.jsonl:7: sessions: must be an integer of 1 to 10000, is \"many\"" ]]
  [ "$(cat "$results/summary.md")" = "$before" ]
  no_temporary_files
}

@test "a changed plan is refused" {
  sed -i 's/"threshold": 0.5/"threshold": 0.9/' "$results/plan.json"
  run -1 --separate-stderr "$collector" report "$results"
  [[ $stderr == *"plan.json: sha256: is not that of the plan: the file was changed" ]]
}

@test "a folder without results is one line" {
  mkdir "$BATS_TEST_TMPDIR/empty"
  run -1 --separate-stderr "$collector" report "$BATS_TEST_TMPDIR/empty"
  [ "${#stderr_lines[@]}" -eq 1 ]
  [[ $stderr == *"/empty: cannot open 'plan.json': No such file or directory" ]]
}

@test "no run yet is one line" {
  : >"$results/runs.jsonl"
  run -1 --separate-stderr "$collector" report "$results"
  [ "${#stderr_lines[@]}" -eq 1 ]
  [[ $stderr == *"runs.jsonl: holds no run" ]]
}

@test "a report that cannot be written is one line and leaves nothing half" {
  mkdir "$results/summary.csv"
  run -1 --separate-stderr "$collector" report "$results"
  [ "${#stderr_lines[@]}" -eq 1 ]
  [[ $stderr == *"$results: cannot write 'summary.csv': Is a directory" ]]
  no_temporary_files
}

@test "usage errors exit 2" {
  run -2 "$collector" report
  run -2 "$collector" report "$BATS_TEST_TMPDIR/none"
  run -2 "$collector" report a b
  run -0 "$collector" report --help
}

@test "the kept results are what their generator makes" {
  command -v python3 >/dev/null || skip "python3 is not here"
  cp tests/fixtures/results/make.py "$BATS_TEST_TMPDIR"
  python3 "$BATS_TEST_TMPDIR/make.py"
  diff -r "$BATS_TEST_TMPDIR/mixed" tests/fixtures/results/mixed
  diff -r "$BATS_TEST_TMPDIR/backends" tests/fixtures/results/backends
}
