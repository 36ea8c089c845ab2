#!/usr/bin/env bash
# Runs test suites one after the other, whole even when one fails, and ends with one countable line.
#   scripts/check.sh NAME=COMMAND …
# Each suite's output goes to build/check/NAME.log; a failed one is shown. Counted are cmocka's, TAP's
# (bats, node --test), cargo's, the conformance suite's and the machines' lines. A suite that fails without a counted failure,
# or that counts no test at all, is one failure.
set -uo pipefail
logs=${BUILD:-build}/check
mkdir -p "$logs"

count() { # FILE PATTERN
  grep -cE "$2" "$1" || true
}

passed=0 failed=0 skipped=0
for suite in "$@"; do
  name=${suite%%=*}
  command=${suite#*=}
  log=$logs/$name.log
  start=$SECONDS
  bash -c "$command" >"$log" 2>&1 </dev/null
  status=$?
  skips=$(count "$log" '^(ok .*# (skip|SKIP)|\[  SKIPPED \] [^0-9]|.*"result":"skip")')
  oks=$(($(count "$log" '^(\[       OK \]|ok |test .* \.\.\. ok$|.*"result":"(pass|runtime)"|\{.*"assertion":.*"pass":true)') - $(count "$log" '^ok .*# (skip|SKIP)')))
  fails=$(count "$log" '^(\[  FAILED  \] [^0-9]|not ok |test .* \.\.\. FAILED$|.*"result":"fail"|\{.*"assertion":.*"pass":false)')
  # cmocka lists each failed test twice
  fails=$((fails - $(count "$log" '^\[  FAILED  \] [^0-9]') / 2))
  if { [ "$status" -ne 0 ] && [ "$fails" -eq 0 ]; } || [ $((oks + fails)) -eq 0 ]; then
    fails=$((fails + 1))
  fi
  printf '%-14s %4d passed, %d failed, %d skipped in %d s\n' "$name" "$oks" "$fails" "$skips" $((SECONDS - start))
  if [ "$fails" -gt 0 ]; then
    echo "---- $log (its failures, then its last lines; exit status $status)"
    grep -E '^(\[  ERROR|\[  FAILED|not ok |test .* FAILED$|# |.*"result":"fail"|\{.*"assertion":.*"pass":false)' "$log" | tail -n 60
    tail -n 40 "$log"
    echo "----"
  fi
  passed=$((passed + oks)) failed=$((failed + fails)) skipped=$((skipped + skips))
done
if [ "$skipped" -gt 0 ]; then
  echo "$passed passed, $failed failed, $skipped skipped"
else
  echo "$passed passed, $failed failed"
fi
[ "$failed" -eq 0 ]
