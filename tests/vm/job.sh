#!/usr/bin/env bash
# Runs inside of the virtual machine (scripts/vm/run.sh): plays the plans in containers and leaves results and
# observations in $OUT. It judges nothing; that is done outside, by judge.jq.
set -uo pipefail
cd checkout || exit 1
cp tests/vm/plans/*.json configs/
cp tests/vm/scenarios/*.json configs/scenarios/
observations=$OUT/observations.jsonl
# The same program as `docker compose`, without two starts of docker's client, seconds each under emulation.
compose=/usr/libexec/docker/cli-plugins/docker-compose

observe() { # NAME VALUE (a JSON value)
  echo "{\"name\":\"$1\",\"value\":$2}" >>"$observations"
}

say() {
  echo "job: $* ($(cut -d ' ' -f 1 /proc/uptime) s)"
}

# compose as a person would call it, for one plan: NAME PLAN COMMAND …
play() {
  local name=$1 plan=$2
  shift 2
  say "plan $plan"
  mkdir -p "$OUT/$name"
  TURNMETER_RESULTS=$OUT/$name PLAN=$plan "$@" </dev/null
}

# The engine's interface itself: each start of docker's client takes seconds under emulation.
engine() { # PATH CURL-OPTION …
  curl -sS --unix-socket /run/docker.sock "http://engine$1" "${@:2}"
}

# What the engine knows of a container or an image, as docker inspect has it: KIND NAME
inspect() {
  engine "/$1/$2/json"
}

pid_of() { # CONTAINER
  inspect containers "$1" | jq .State.Pid
}

# Waits for a container's end; prints its exit code, and what it said to stderr.
ended() { # CONTAINER
  engine "/containers/$1/wait" -X POST | jq .StatusCode
  engine "/containers/$1/logs?stdout=1&stderr=1" | tr -d '\000-\010\013-\037' >&2
}

# ---- unit tests that need system calls which QEMU's user mode has not, while the engine starts
units() {
  local test log
  for test in unit/*/test_*; do
    [ -x "$test" ] || continue
    log=$OUT/$(basename "$test").log
    "./$test" >"$log" 2>&1
    observe "$(basename "$test")" "{\"exit\":$?,\"passed\":$(grep -c '       OK ' "$log"),\"skipped\":$(grep -c '^\[  SKIPPED \] [^0-9]' "$log")}"
  done
  say "unit tests end"
}
units &

systemctl start docker
say "docker runs"
wait
while read -r line; do
  export "${line?}"
done < <(scripts/cpus.sh)
export TURNMETER_MEMORY=1g COMPOSE_PROFILES=all

# ---- every contender there is, with one command
contenders=$(jq -r .name configs/contenders/*.json | paste -sd, -)
observe contenders "\"$contenders\""
images=(turnmeter-mockllm turnmeter-collector)
mapfile -t -O 2 images < <(jq -r .image configs/contenders/*.json | sort -u)
observe images "$(for image in "${images[@]}"; do inspect images "$image"; done |
  jq -c -s 'map({tags: .RepoTags, architecture: .Architecture, size: .Size, labels: .Config.Labels})')"
CONTENDERS=$contenders play smoke configs/smoke.json docker compose up --no-build --pull never --exit-code-from collector
observe smoke_exit $?

# ---- limits that bite, asked for as a person would; what is not named stays stopped
some=(mockllm agent-c collector)
export TURNMETER_MEMORY=20971520 TURNMETER_CPU_QUOTA=0.5
play limits configs/vm-limits.json "$compose" up --no-build --pull never --detach "${some[@]}"
observe limits_exit "$(ended turnmeter-collector-1)"

# ---- another collector for the launchers that run; it is killed in the middle of a run, and started again
agent=turnmeter-agent-c-1 collector=turnmeter-collector-1
launcher=$(pid_of $agent)
play reattach configs/vm-reattach.json "$compose" up --no-build --pull never --detach "${some[@]}"
first=$(pid_of $collector)
group=$(sed -n 's,^0::,,p' "/proc/$launcher/cgroup")
group=/sys/fs/cgroup${group%/turnmeter-launcher}
observe memory_max_of_the_container "\"$(cat "$group/memory.max")\""
until [ -n "$(cat "$group"/turnmeter-run-*/cgroup.procs 2>/dev/null)" ]; do
  if [ ! -d "/proc/$first" ]; then
    say "the first collector ended before it could be killed"
    exit 1
  fi
  sleep 0.05
done
kill -KILL "$first"
observe leaf_of_the_killed "\"$(basename "$group"/turnmeter-run-*)\""
until [ ! -d "/proc/$first" ] && [ "$(inspect containers $collector | jq .State.Running)" = false ]; do
  sleep 0.2
done
rm -rf "$OUT"/reattach/*
engine /containers/$collector/start -X POST
observe reattach_exit "$(ended $collector)"
observe launcher_is_the_same "$([ "$(pid_of $agent)" = "$launcher" ] && echo true || echo false)"
observe leaves_left "$(find "$group" -maxdepth 1 -name 'turnmeter-run-*' | wc -l)"
play reattach configs/vm-reattach.json "$compose" down --volumes --timeout 0
observe containers_left "$(engine '/containers/json?all=1' | jq length)"
say "all plans played"
grep -H '^usage_usec' /sys/fs/cgroup/system.slice/*.service/cpu.stat | sed 's,.*/\([^/]*\)/cpu.stat:,job: CPU time of \1: ,'
