#!/usr/bin/env bash
# Runs inside of the virtual machine (scripts/vm/run.sh): plays the plans in containers and leaves results and
# observations in $OUT. It judges nothing; that is done outside, by judge.jq.
set -uo pipefail
cd checkout || exit 1
cp tests/vm/plans/*.json configs/
observations=$OUT/observations.jsonl

observe() { # NAME VALUE (a JSON value)
  echo "{\"name\":\"$1\",\"value\":$2}" >>"$observations"
}

say() {
  echo "job: $* ($(cut -d ' ' -f 1 /proc/uptime) s)"
}

# compose as a person would call it, for one plan: NAME PLAN ARGUMENT …
play() {
  local name=$1 plan=$2
  shift 2
  say "plan $plan"
  mkdir -p "$OUT/$name"
  TURNMETER_RESULTS=$OUT/$name PLAN=$plan docker compose "$@" </dev/null
}

pid_of() { # CONTAINER
  docker inspect --format '{{.State.Pid}}' "$1"
}

systemctl start docker
say "docker runs"
while read -r line; do
  export "${line?}"
done < <(scripts/cpus.sh)
export TURNMETER_MEMORY=1073741824 COMPOSE_PROFILES=all

# ---- every contender there is, with one command
contenders=$(docker compose config --services | sed -n 's/^agent-//p' | paste -sd, -)
observe contenders "\"$contenders\""
CONTENDERS=$contenders play smoke configs/smoke.json up --no-build --pull never --exit-code-from collector
observe smoke_exit $?
play smoke configs/smoke.json down --volumes --timeout 0

# ---- limits that bite
TURNMETER_MEMORY=20971520 play memory configs/vm-memory.json up --no-build --pull never --exit-code-from collector mockllm agent-c collector
observe memory_exit $?
TURNMETER_CPU_QUOTA=0.2 play quota configs/vm-quota.json up --no-build --pull never --exit-code-from collector mockllm agent-c collector
observe quota_exit $?
play quota configs/vm-quota.json down --volumes --timeout 0

# ---- a collector is killed in the middle of a run, a second one takes over
play reattach configs/vm-reattach.json up --no-build --pull never --detach mockllm agent-c collector
agent=turnmeter-agent-c-1 collector=turnmeter-collector-1
launcher=$(pid_of $agent) first=$(pid_of $collector)
group=$(sed -n 's,^0::,,p' "/proc/$launcher/cgroup")
group=/sys/fs/cgroup${group%/turnmeter-launcher}
observe memory_max_of_the_container "\"$(cat "$group/memory.max")\""
# commands of docker take seconds here, a run not much longer
until [ -n "$(cat "$group"/turnmeter-run-*/cgroup.procs 2>/dev/null)" ]; do
  if [ ! -d "/proc/$first" ]; then
    say "the first collector ended before it could be killed"
    exit 1
  fi
  sleep 0.05
done
kill -KILL "$first"
observe leaf_of_the_killed "\"$(basename "$group"/turnmeter-run-*)\""
docker wait $collector
rm -rf "$OUT"/reattach/*
docker start --attach $collector
observe reattach_exit $?
observe launcher_is_the_same "$([ "$(pid_of $agent)" = "$launcher" ] && echo true || echo false)"
observe leaves_left "$(find "$group" -maxdepth 1 -name 'turnmeter-run-*' | wc -l)"
play reattach configs/vm-reattach.json down --volumes --timeout 0
say "all plans played"
