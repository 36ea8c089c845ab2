#!/usr/bin/env bats
# What surrounds the virtual machines: the judge must see each thing that may be wrong with what comes out, and
# run.sh must start a machine again whose emulated kernel failed, once. The machines themselves are `make vm-check`.

bats_require_minimum_version 1.5.0

setup() {
  cd "$BATS_TEST_DIRNAME/.." || return
}

# ---- the judge

# records NAME: what runs.jsonl of a plan holds when all went well, cut down to what is judged
records() {
  jq -c -n --arg plan "$1" '
    def run($contender; $sessions): {contender: $contender, sessions: $sessions, warm_up: false,
      timed: false, cgroup_backend: "v2", outcome: "ok", outcome_detail: "", valid: true, invalid_reasons: [],
      limits: {asked: {memory_bytes: 1073741824, cpu_quota: null}, in_force: {memory_bytes: 1073741824, cpu_quota: null, cpus: "1"}},
      memory_peak_bytes: 5000000, memory_peak_cold_bytes: null, memory_peak_at_limit: false,
      memory_at_peak: {anon: 2000000, file: 1000000, kernel: 200000, sock: 0, shmem: 0, remainder: 1000000, total: 4000000},
      cpu_startup_usec: 100000, cpu_usec_per_turn: 20000, cpu_user_usec_per_turn: 15000, cpu_system_usec_per_turn: 5000,
      correct_turns: 2, wall_usec: 300000, nr_throttled: 0, throttled_usec: 0};
    {smoke: [run("c"; 1), run("c"; 3), run("node"; 1), run("node"; 3)],
     limits: [run("c"; 200) + {outcome: "oom", memory_peak_at_limit: true}, run("c"; 4) | . + {nr_throttled: 3, throttled_usec: 5000}
       | .limits.asked.cpu_quota = 0.5 | .limits.in_force.cpu_quota = 0.5],
     reattach: [run("c"; 2)]}[$plan][]'
}

observed() {
  jq -c -n '
    def image($name): {tags: [$name], architecture: "amd64", labels: {"org.opencontainers.image.version": "1", "org.opencontainers.image.base.name": "b"}};
    {contenders: "c,node", images: [image("m"), image("k"), image("c")], smoke_exit: 0, limits_exit: 3,
    leaf_of_the_killed: "turnmeter-run-1", memory_max_of_the_container: "20971520", reattach_exit: 0,
    launcher_is_the_same: true, leaves_left: 0, containers_left: 0}'
}

# judge [PLAN FILTER]: the judge's lines when the records of a plan ("observed": the observations) are changed
judge() {
  local plan options=()
  for plan in smoke limits reattach; do
    records "$plan" | jq -c "$([ "${1:-}" = "$plan" ] && echo "$2" || echo .)" >"$BATS_TEST_TMPDIR/$plan.jsonl"
    options+=(--slurpfile "$plan" "$BATS_TEST_TMPDIR/$plan.jsonl")
  done
  jq -n -c --arg arch "${ARCH:-amd64}" --arg version 1 --argjson job_status "${JOB_STATUS:-0}" --argjson seconds 1 --argjson retried false \
    --argjson observed "$(observed | jq -c "$([ "${1:-}" = observed ] && echo "$2" || echo .)")" "${options[@]}" -f tests/vm/judge.jq
}

@test "the judge passes what is as it must be, and counts" {
  run -0 judge
  [ "$(jq -s 'map(select(.pass == false)) | length' <<<"$output")" -eq 0 ]
  [ "$(tail -n 1 <<<"$output" | jq .failed)" -eq 0 ]
  [ "$(tail -n 1 <<<"$output" | jq .assertions)" -eq $(($(wc -l <<<"$output") - 1)) ]
}

# Each line: the records that are changed, the change, the assertion that must fail.
@test "the judge sees each thing that is not as it must be" {
  local plan change assertion wrong=0
  while IFS='|' read -r plan change assertion; do
    run -0 judge "$plan" "$change"
    if [ "$(jq -r 'select(.pass == false) | .assertion' <<<"$output" | sort -u)" != "$assertion" ] ||
      [ "$(tail -n 1 <<<"$output" | jq .failed)" -eq 0 ]; then
      echo "$plan, $change: not '$assertion', but: $(jq -r 'select(.pass == false) | .assertion' <<<"$output" | sort -u)"
      wrong=1
    fi
  done <<'END'
smoke|.outcome = "failed"|outcome is ok
smoke|.valid = false|valid
smoke|.timed = true|not timed under emulation
smoke|.cgroup_backend = "v2-sampled"|backend is v2
smoke|.limits.in_force.memory_bytes = 2147483648|limits are in force as asked
smoke|.limits.in_force.cpus = "0-1"|limits are in force as asked
smoke|. + {memory_peak_bytes: null, memory_peak_cold_bytes: 5000000}|memory.peak is there, within the limit
smoke|.memory_peak_bytes = 2000000000|memory.peak is there, within the limit
smoke|.memory_peak_bytes = 1000000|memory.peak agrees with memory.stat
smoke|.memory_at_peak = null|memory.peak agrees with memory.stat
smoke|.memory_at_peak.anon = 9000000|memory.peak agrees with memory.stat
smoke|.memory_at_peak.shmem = 1000001|memory.peak agrees with memory.stat
smoke|.cpu_usec_per_turn = 0|CPU time is more than nothing, no more than there was
smoke|.cpu_usec_per_turn = 200000|CPU time is more than nothing, no more than there was
smoke|.cpu_user_usec_per_turn = 1|CPU time is more than nothing, no more than there was
smoke|select(.contender == "c")|every contender was measured
limits|select(.sessions == 4)|a contender over its limit reads oom
limits|select(.sessions > 4)|the suite goes on
limits|.outcome = "ok"|a contender over its limit reads oom
limits|.nr_throttled = 0|throttling shows
limits|.throttled_usec = 0|throttling shows
limits|.limits.in_force.cpu_quota = null|limits are in force as asked
limits|select(.sessions > 100) += {memory_peak_at_limit: false}|a contender over its limit reads oom
reattach|select(false)|the second collector measured
observed|.smoke_exit = 3|exit code
observed|.limits_exit = 0|exit code: played, some runs not ok
observed|.memory_max_of_the_container = "max"|the kernel has the container's limit
observed|.contenders = "c,node,bun"|every contender was measured
observed|.images = []|there is one for each contender
observed|.images[0].architecture = "arm64"|is of the machine's architecture
observed|.images[1].labels = null|has its version and base as labels
observed|.leaf_of_the_killed = ""|a run of the killed collector was there
observed|.leaves_left = 1|no leaf is left
observed|.launcher_is_the_same = false|the launcher is the same process
observed|.containers_left = 2|no container is left after down
observed|del(.reattach_exit)|exit code of the second collector
END
  [ $wrong -eq 0 ]
}

@test "on aarch64 the launcher's unit tests must have run there and passed" {
  local arm='.images |= map(.architecture = "arm64")'
  ARCH=arm64 run -0 judge observed "$arm | .test_launcher = {exit: 0, passed: 6, skipped: 0}"
  [ "$(tail -n 1 <<<"$output" | jq .failed)" -eq 0 ]
  local found
  for found in null '{exit: 1, passed: 5, skipped: 0}' '{exit: 0, passed: 0, skipped: 0}' '{exit: 0, passed: 5, skipped: 1}'; do
    ARCH=arm64 run -0 judge observed "$arm | .test_launcher = $found"
    [ "$(jq -r 'select(.pass == false) | .assertion' <<<"$output")" = "the launcher's tests pass" ]
  done
}

@test "a machine that did not get to the end of its job does not pass" {
  JOB_STATUS=125 run -0 judge
  [ "$(jq -r 'select(.pass == false) | .assertion' <<<"$output")" = "the job ran to its end" ]
}

# ---- run.sh, with a machine that is a script: what it does at its first, its second … start

# machine LINES…: for each start, one shell command; $console and $disk are the machine's
machine() {
  local disks=$BATS_TEST_TMPDIR/build/vm/amd64 number=0 line
  mkdir -p "$disks" "$BATS_TEST_TMPDIR/bin" "$BATS_TEST_TMPDIR/starts"
  cat scripts/vm/rootfs.sh scripts/vm/guest/* | sha256sum >"$disks/recipe"
  touch "$disks/root.img" "$disks/vmlinuz" "$disks/initrd"
  for line in "$@"; do
    number=$((number + 1))
    echo "$line" >"$BATS_TEST_TMPDIR/starts/$number"
  done
  cat >"$BATS_TEST_TMPDIR/bin/qemu-system-x86_64" <<'END'
#!/usr/bin/env bash
# finds its console and its disk of results among the arguments
for word in "$@"; do
  case $word in
  *logfile=*) console=${word##*logfile=} ;;
  file=*/out.tar,*) disk=${word#file=} disk=${disk%%,*} ;;
  esac
done
number=$(($(cat "$STARTS/count" 2>/dev/null || echo 0) + 1))
echo $number >"$STARTS/count"
done_with() { # STATUS [UPTIME]: the job ran and left this exit status, at this uptime
  mkdir "$STARTS/out"
  echo "$1" >"$STARTS/out/job.status"
  tar -c -f "$disk" -C "$STARTS/out" .
  printf 'job: starts after 1 s\njob: done after %s s of uptime\n' "${2:-2.13}" >"$console"
}
. "$STARTS/$number"
END
  chmod +x "$BATS_TEST_TMPDIR/bin/qemu-system-x86_64"
  echo true >"$BATS_TEST_TMPDIR/job.sh"
}

run_machine() {
  BUILD=$BATS_TEST_TMPDIR/build STARTS=$BATS_TEST_TMPDIR/starts PATH=$BATS_TEST_TMPDIR/bin:$PATH VM_BOOT_S=${VM_BOOT_S:-150} \
    scripts/vm/run.sh -o "$BATS_TEST_TMPDIR/out" amd64 "$BATS_TEST_TMPDIR/job.sh"
}

starts() {
  cat "$BATS_TEST_TMPDIR/starts/count"
}

@test "a machine whose job ends well is started once" {
  machine 'done_with 0'
  run -0 run_machine
  [ "$(starts)" -eq 1 ]
  [ ! -e "$BATS_TEST_TMPDIR/out/console.first.log" ]
}

@test "the exit status is the job's" {
  machine 'done_with 7'
  run -7 run_machine
  [ "$(starts)" -eq 1 ]
}

@test "a kernel that panics is started once more, which is said, and its console is kept" {
  machine 'echo "Kernel panic - not syncing" >"$console"; exit 0' 'done_with 0'
  run -0 run_machine
  [[ "$output" == *"trying once more"* ]]
  [ "$(starts)" -eq 2 ]
  grep 'Kernel panic' "$BATS_TEST_TMPDIR/out/console.first.log"
}

@test "a panic in the middle of the job counts too; a second one is the end" {
  machine 'printf "job: starts\nKernel panic\n" >"$console"' 'printf "job: starts\nKernel panic\n" >"$console"' 'done_with 0'
  run -125 run_machine
  [ "$(starts)" -eq 2 ]
}

@test "a machine that hangs before its job is stopped and started once more" {
  machine 'echo booting >"$console"; exec sleep 30' 'done_with 0'
  VM_BOOT_S=2 run -0 run_machine
  [ "$(starts)" -eq 2 ]
}

@test "a machine whose systemd gave up is not waited for" {
  machine 'echo "[!!!!!!] Failed to start up manager. systemd[1]: Freezing execution." >"$console"; exec sleep 30' 'done_with 0'
  run -0 run_machine
  [ "$(starts)" -eq 2 ]
}

@test "a machine whose clock ran away is started once more, whatever its job said" {
  local status
  for status in 0 7; do
    rm -rf "$BATS_TEST_TMPDIR/starts"
    machine "done_with $status 1000.5" 'done_with 0'
    run -0 run_machine
    [[ "$output" == *"clock ran away: 1000 s inside"* ]]
    [ "$(starts)" -eq 2 ]
  done
}

@test "an x86 machine is told the rate of its counter, as measured" {
  machine 'echo "$*" >"$STARTS/arguments"; done_with 0'
  run -0 run_machine
  local told measured
  told=$(sed -n 's/.* tsc_early_khz=\([0-9]*\).*/\1/p' "$BATS_TEST_TMPDIR/starts/arguments")
  measured=$("$BATS_TEST_TMPDIR/build/vm/amd64/counter_khz")
  [ "$told" -gt $((measured * 99 / 100)) ]
  [ "$told" -lt $((measured * 101 / 100)) ]
}

@test "a job that fails is no fault of the emulation" {
  machine 'printf "job: starts\n" >"$console"; exit 1' 'done_with 0'
  run -1 run_machine
  [ "$(starts)" -eq 1 ]
}

@test "check.sh and run.sh say what is wrong with their arguments" {
  run -2 scripts/vm/check.sh sparc
  [ "$output" = "check.sh: architecture 'sparc': must be amd64 or arm64" ]
  run -2 scripts/vm/run.sh sparc job.sh
  run -2 scripts/vm/run.sh
}
