# Judges what tests/vm/job.sh brought out of the virtual machine: one object an assertion.
# In: $arch, $version (of the suite), $seconds; $smoke, $limits, $reattach (records of runs.jsonl); $observed (NAME -> VALUE);
# $job_status, $retried (the emulated kernel had to be booted twice).

def assertion($plan; $what; $subject; $pass; $found):
  {arch: $arch, plan: $plan, assertion: $what, subject: $subject, pass: ($pass == true), found: $found};

def subject: "\(.contender), \(.sessions) sessions\(if .warm_up then ", warm-up" else "" end)";

# memory.peak and memory.stat are counted in batches of 64 pages a CPU, two CPUs here; largest page 64 KiB.
def resolution: 64 * 4096 * 2;

def measured($plan): (
  assertion($plan; "not timed under emulation"; subject; .timed == false; .timed),
  assertion($plan; "backend is v2"; subject; .cgroup_backend == "v2"; .cgroup_backend),
  assertion($plan; "limits are in force as asked"; subject;
    .limits.in_force.memory_bytes == .limits.asked.memory_bytes
    and .limits.in_force.cpu_quota == .limits.asked.cpu_quota
    and .limits.in_force.cpus == "1"; .limits)
);

def went_well($plan): (
  assertion($plan; "outcome is ok"; subject; .outcome == "ok"; [.outcome, .outcome_detail]),
  assertion($plan; "valid"; subject; .valid; .invalid_reasons),
  measured($plan)
);

def figures($plan): (
  assertion($plan; "memory.peak is there, within the limit"; subject;
    (.memory_peak_bytes | type) == "number" and .memory_peak_bytes > 0
    and .memory_peak_bytes <= .limits.in_force.memory_bytes; .memory_peak_bytes),
  (.memory_at_peak as $stat | (.memory_peak_bytes // .memory_peak_cold_bytes) as $peak
  | assertion($plan; "memory.peak agrees with memory.stat"; subject;
    $stat != null and $stat.anon > 0
    and $stat.anon + $stat.file + $stat.kernel + $stat.sock <= $peak + resolution
    and $stat.shmem <= $stat.file
    and $stat.total <= $peak + resolution; {peak: $peak, stat: $stat})),
  ((.cpu_startup_usec // 0) + (.cpu_usec_per_turn // 0) * .correct_turns | . ) as $cpu
  | assertion($plan; "CPU time is more than nothing, no more than there was"; subject;
      .cpu_usec_per_turn > 0 and $cpu <= .wall_usec * 1.05
      and ((.cpu_user_usec_per_turn + .cpu_system_usec_per_turn - .cpu_usec_per_turn) | fabs)
          <= 0.02 * .cpu_usec_per_turn + 2;
      {cpu_usec: $cpu, wall_usec, per_turn: [.cpu_usec_per_turn, .cpu_user_usec_per_turn, .cpu_system_usec_per_turn]})
);

def of($records; $contender): $records | map(select(.contender == $contender));

[
  assertion("machine"; "the job ran to its end"; "run.sh"; $job_status == 0; $job_status),
  # told, not judged: it says something of the emulation only
  assertion("machine"; "the emulated kernel was booted once more"; "run.sh"; true; $retried),

  (if $arch == "arm64" then
    $observed.test_launcher | assertion("unit"; "the launcher's tests pass"; "test_launcher";
      .exit == 0 and .passed > 0 and .skipped == 0; .)
  else empty end),

  ($observed.images // [] | assertion("images"; "there is one for each contender"; "images"; length > 2; length)),
  ($observed.images // [] | .[] | ((.tags // ["?"])[0]) as $name
    | assertion("images"; "is of the machine's architecture"; $name; .architecture == $arch; .architecture),
      assertion("images"; "has its version and base as labels"; $name;
        .labels["org.opencontainers.image.version"] == $version
        and (.labels["org.opencontainers.image.base.name"] // "") != ""; .labels)),

  assertion("smoke"; "exit code"; "collector"; $observed.smoke_exit == 0; $observed.smoke_exit),
  ($observed.contenders // "" | split(",")[] | . as $name
    | assertion("smoke"; "every contender was measured"; $name; of($smoke; $name) | length >= 2;
        of($smoke; $name) | length)),
  ($smoke[] | went_well("smoke"), figures("smoke")),

  assertion("limits"; "exit code: played, some runs not ok"; "collector"; $observed.limits_exit == 3;
    $observed.limits_exit),
  ($limits | map(select(.sessions > 100 and (.warm_up | not))) | assertion("limits"; "a contender over its limit reads oom"; "c, many sessions";
    length > 0 and all(.outcome == "oom" and .memory_peak_at_limit); map([.outcome, .outcome_detail]))),
  ($limits | map(select(.sessions < 100 and (.warm_up | not))) | assertion("limits"; "the suite goes on"; "c, few sessions";
    length > 0 and all(.outcome == "ok"); map([.outcome, .outcome_detail]))),
  ($limits[] | measured("limits"),
    (select(.outcome == "ok") | figures("limits")),
    (select(.warm_up | not) | assertion("limits"; "throttling shows"; subject; .nr_throttled > 0 and .throttled_usec > 0;
      {nr_throttled, throttled_usec, wall_usec}))),

  assertion("reattach"; "a run of the killed collector was there"; "leaf";
    ($observed.leaf_of_the_killed // "") | startswith("turnmeter-run-"); $observed.leaf_of_the_killed),
  assertion("reattach"; "the kernel has the container's limit"; "memory.max";
    $observed.memory_max_of_the_container == "20971520"; $observed.memory_max_of_the_container),
  assertion("reattach"; "the launcher is the same process"; "agent-c"; $observed.launcher_is_the_same;
    $observed.launcher_is_the_same),
  assertion("reattach"; "exit code of the second collector"; "collector"; $observed.reattach_exit == 0;
    $observed.reattach_exit),
  assertion("reattach"; "no leaf is left"; "leaf"; $observed.leaves_left == 0; $observed.leaves_left),
  assertion("reattach"; "no container is left after down"; "engine"; $observed.containers_left == 0;
    $observed.containers_left),
  assertion("reattach"; "the second collector measured"; "c"; $reattach | length > 0; $reattach | length),
  ($reattach[] | went_well("reattach"), figures("reattach"))
]
| . as $all
| ($all[]),
  {arch: $arch, assertions: ($all | length), failed: ($all | map(select(.pass | not)) | length), seconds: $seconds}
