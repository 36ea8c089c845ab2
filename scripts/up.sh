#!/usr/bin/env bash
# up.sh [--images-only]: the whole comparison in containers, from a bare machine if need be: sees to
# Docker, the base image and the images, plays the plan, takes the containers away and exits as the
# collector did. --images-only stops before the plan.
#
# Settings, from the environment or the file .env: PLAN (a file below configs/), CONTENDERS, SESSIONS,
# SCENARIOS, REPETITIONS, TTFT_MS, TOKENS_PER_S, MEMORY, CPU_QUOTA (instead of the plan's), CONTENDER
# (manifest of a contender of one's own), RESUME (a folder of results to go on with), and those of .env.example.
set -euo pipefail
usage="usage: up.sh [--images-only]; settings come from the environment or .env: see .env.example"
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/.."
# shellcheck source=scripts/docker-lib.sh
. "$here/docker-lib.sh"

build=${BUILD:-build}
default_base=debian:trixie-slim
default_plan=configs/quick.json
needed_mib=3000 # images and build cache, on the engine's disk

# A setting's value: the environment's, else that of .env; compose reads them in the same order.
setting() {
  if [ -n "${!1:-}" ]; then
    printf '%s\n' "${!1}"
  elif [ -f .env ]; then
    sed -n "s/^$1=//p" .env | tail -n 1
  fi
}

check_plan() {
  local plan
  plan=$(setting PLAN)
  PLAN=${plan:-$default_plan}
  case $PLAN in
  /*) PLAN=${PLAN#"$PWD/"} ;;
  ./*) PLAN=${PLAN#./} ;;
  esac
  [ -f "$PLAN" ] || usage_error "$PLAN: no such plan; there are: $(echo configs/*.json)"
  case $PLAN in
  *..*) usage_error "PLAN=$PLAN: must be a file below configs/, which is what the collector's container sees" ;;
  configs/*.json) ;;
  *) usage_error "PLAN=$PLAN: must be a file below configs/, which is what the collector's container sees" ;;
  esac
  export PLAN
}

# A list of whole numbers from 1 on, or of names that are there, told before anything is built.
check_numbers() { # NAME
  local value
  value=$(setting "$1")
  [ -z "$value" ] || [[ $value =~ ^[1-9][0-9]*(,[1-9][0-9]*)*$ ]] ||
    usage_error "$1: must be whole numbers from 1 on, separated by commas, is '$value'"
}

check_scenarios() {
  local value name
  value=$(setting SCENARIOS)
  for name in ${value//,/ }; do
    [ -f "configs/scenarios/$name.json" ] ||
      usage_error "SCENARIOS: '$name' is no scenario; there are: $(cd configs/scenarios && echo *.json | sed 's/\.json//g; s/ /, /g')"
  done
}

check_results() {
  results=$(setting TURNMETER_RESULTS)
  results=${results:-results}
  [ ! -e "$results" ] || [ -w "$results" ] ||
    die "results folder '$results' may not be written to: mend that, or choose another with TURNMETER_RESULTS"
  resume=$(setting RESUME)
  [ -z "$resume" ] || [ -f "$results/$resume/plan.json" ] ||
    usage_error "RESUME: must name a folder below '$results' with a plan.json, is '$resume'"
}

# A contender of one's own is described by a JSON file, which these scripts read with jq.
check_contender() {
  local manifest
  manifest=$(setting CONTENDER)
  [ -n "$manifest" ] || return 0
  [ -f "$manifest" ] || usage_error "CONTENDER: $manifest: no such manifest"
  command -v jq >/dev/null && return
  if ! is_root || [ ! -e /etc/debian_version ]; then
    die "jq is missing: CONTENDER needs it to read the manifest; install it (on Debian: sudo apt-get install jq)"
  fi
  "$here/setup.sh" jq 9>&-
}

# The claim to measure on this machine, the same as the collector's without containers (collector/claim.h).
# It goes with this process: whoever stays, such as an engine, must not inherit it.
lock() {
  local file=/tmp/turnmeter.lock holder what
  [[ ${TMPDIR:-} != /* ]] || file=$TMPDIR/turnmeter.lock # another one only by an absolute path, as the collector has it
  [ -e "$file" ] || (umask 0 && set -o noclobber && : >"$file") 2>/dev/null || true
  if [ ! -f "$file" ] || [ -L "$file" ]; then
    die "$file: must be a regular file that can be made: remove it, or choose another folder with TMPDIR"
  fi
  { exec 9<"$file"; } 2>/dev/null || die "cannot open the lock file '$file': remove it, or choose another folder with TMPDIR"
  flock --nonblock 9 || {
    read -r holder what <"$file" || true
    if [ -n "${what:-}" ] && [ "$holder" = "${holder%-*}-$(start_of "${holder%-*}")" ]; then
      what=" ($what, process ${holder%-*})"
    else
      what=
    fi
    die "another run is measuring on this machine$what: wait for it, or interrupt it"
  }
  # of somebody else it may not be written: then the claim has no name
  (echo "$$-$(start_of $$) make up, plan $PLAN" >"$file") 2>/dev/null || true
}

# The start of a process in ticks since boot: field 22, and the name that may hold spaces is field 2.
start_of() {
  local stat fields
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
  read -ra fields <<<"${stat##*) }"
  echo "${fields[19]}"
}

ensure_docker() {
  if ! has_client || ! has_compose; then
    is_root || die "there is no docker client with compose 2: run 'sudo make setup', then 'make up'"
    "$here/setup.sh" 9>&-
  elif ! find_engine; then
    # what root may mend: an engine of this machine that is missing or does not run
    if ! is_root || [ -n "${DOCKER_HOST:-}" ]; then
      die "$(engine_remedy)"
    fi
    command -v dockerd >/dev/null || "$here/setup.sh" 9>&-
  fi
  "$here/engine.sh" start 9>&-
  require_docker
  # The collector must be root of the machine, not of a user namespace, to read contenders' cgroups.
  case $(docker info --format '{{.SecurityOptions}}') in
  *name=rootless*) die "the Docker engine is rootless, its containers may not use cgroups: use a rootful engine (DOCKER_HOST=unix:///var/run/docker.sock), or 'make bench' without containers" ;;
  *name=userns*) die "the Docker engine remaps users (userns-remap), its containers may not use cgroups: use an engine without, or 'make bench' without containers" ;;
  esac
}

has_image() {
  docker image inspect "$1" >/dev/null 2>&1
}

# BASE_IMAGE: the given one; else Debian's from a registry; else one made from the Debian mirror.
ensure_base_image() {
  local base made
  base=$(setting BASE_IMAGE)
  if [ -z "$base" ]; then
    made=turnmeter/base:trixie-$(docker version --format '{{.Server.Arch}}')
    if has_image "$default_base" || ! has_image "$made"; then
      base=$default_base
    else
      base=$made
    fi
  fi
  if ! has_image "$base"; then
    say "fetching the base image $base"
    if ! timeout 120 docker pull --quiet "$base" >/dev/null 2>&1; then
      [ "$base" = "$default_base" ] || die "base image '$base' is not here and cannot be pulled: see 'docker pull $base', or leave BASE_IMAGE empty"
      say "no container registry answers: making the base image from the Debian mirror instead"
      base=$("$here/base-image.sh")
    fi
  fi
  export BASE_IMAGE=$base
}

check_disk() {
  local root free
  has_image turnmeter-collector && return
  root=$(docker info --format '{{.DockerRootDir}}')
  free=$(df --output=avail -BM "$root" 2>/dev/null | tr -dc '0-9\n' | tail -n 1)
  if [ -n "$free" ] && [ "$free" -lt $needed_mib ]; then
    die "only $free MiB free on the disk of $root: the images need $needed_mib; free some with 'docker system prune', or move the engine's data-root"
  fi
}

# npm in the build asks registries; where a site's proxy signs, its certificate comes along.
ensure_certificate() {
  local file
  file=$(setting TURNMETER_CA_FILE)
  file=${file:-${NPM_CONFIG_CAFILE:-${NODE_EXTRA_CA_CERTS:-}}}
  if [ -n "$file" ]; then
    [ -r "$file" ] || die "certificate file '$file' cannot be read: mend TURNMETER_CA_FILE, NPM_CONFIG_CAFILE or NODE_EXTRA_CA_CERTS"
    export TURNMETER_CA_FILE=$file
  fi
}

plan_member() {
  "$here/plan.sh" "$PLAN" "$1"
}

# What a container's limits and CPUs must be for the plan; what the person has set stays.
choose() { # NAME=VALUE
  [ -n "$(setting "${1%%=*}")" ] || export "${1?}"
}

# Sets memory and quota; bad ones are told before anything is built.
read_limits() {
  memory=$(setting MEMORY)
  memory=${memory:-$(plan_member memory_bytes)}
  quota=$(setting CPU_QUOTA)
  quota=${quota:-$(plan_member cpu_quota)}
  [[ ${memory:=0} =~ ^(none|[0-9]+(\.[0-9]+)?[kKmMgGtT]?)$ ]] ||
    usage_error "MEMORY: must be a size like 512m or 2g, or none, is '$memory'"
  [[ ${quota:=0} =~ ^(none|[0-9]*\.?[0-9]+)$ ]] ||
    usage_error "CPU_QUOTA: must be a number of CPUs like 0.5, or none, is '$quota'"
}

choose_limits() {
  local line all
  choose TURNMETER_MEMORY="${memory/none/0}" # 0: no limit
  choose TURNMETER_CPU_QUOTA="${quota/none/0}"
  if [ "$(plan_member placement)" = shared ]; then
    all=$(cat /sys/devices/system/cpu/online)
    choose TURNMETER_CPUS_INSTRUMENT="$all"
    choose TURNMETER_CPUS_CONTENDER="$all"
  else
    while read -r line; do
      choose "$line"
    done < <("$here/cpus.sh")
  fi
}

add_contender() {
  local manifest folder image
  manifest=$(setting CONTENDER)
  [ -n "$manifest" ] || return 0
  "$here/contender.sh" "$manifest" >"$build/compose.contender.yml.new"
  mv "$build/compose.contender.yml.new" "$build/compose.contender.yml"
  compose+=(-f "$build/compose.contender.yml")
  folder=$(dirname "$manifest")
  image=$(jq -r '.image // ""' "$manifest")
  if [ -n "$image" ] && [ -f "$folder/Dockerfile" ]; then
    say "building the contender's image $image from $folder/Dockerfile"
    DOCKER_BUILDKIT=1 docker build --quiet --network host --build-arg "BASE_IMAGE=$BASE_IMAGE" --tag "$image" "$folder" >/dev/null ||
      die "the image of $manifest could not be built"
  fi
  own_contender=$(jq -r .name "$manifest")
  if [ -z "$CONTENDERS" ]; then
    CONTENDERS=$(plan_member contenders)
  fi
  CONTENDERS+=,/opt/contenders/$own_contender.json
}

# The services that take part: the collector first, the mock, and an agent for each contender.
services() {
  local known name contenders
  known=$("${compose[@]}" --profile all config --services)
  printf '%s\n' collector mockllm
  contenders=${CONTENDERS:-$(plan_member contenders)}
  for name in ${contenders//,/ }; do
    name=$(basename "$name" .json)
    grep -qx "agent-$name" <<<"$known" ||
      usage_error "contender '$name' has no service agent-$name; there are: $(sed -n 's/^agent-//p' <<<"$known" | sort | paste -sd, | sed 's/,/, /g')"
    echo "agent-$name"
  done
}

build_images() {
  local log=$build/images.log
  if [ -t 1 ]; then
    say "building images (some minutes the first time)"
    "${compose[@]}" build "${wanted[@]}" || die "the images could not be built"
  else
    say "building images (some minutes the first time; $log has what goes on)"
    "${compose[@]}" --progress plain build "${wanted[@]}" >"$log" 2>&1 || {
      tail -n 25 "$log" >&2
      die "the images could not be built: the whole log is $log"
    }
  fi
}

# The collector has no engine to ask what images weigh.
measure_images() {
  local service image pairs=()
  while read -r service image; do
    [[ " ${wanted[*]} " != *" $service "* ]] || pairs+=("${service#agent-}=$image")
  done < <("${compose[@]}" --profile all config |
    awk '/^[a-z]/ { inside = $1 == "services:" } inside && /^  [a-z0-9-]+:$/ { sub(":", ""); name = $1 }
      inside && /^    image: / && name ~ /^agent-/ { print name, $2 }')
  say "measuring the images"
  "$here/image-sizes.sh" "$build/image-sizes" "$BASE_IMAGE" "${pairs[@]}" >"$build/image-sizes.json.new"
  mv "$build/image-sizes.json.new" "$build/image-sizes.json"
  TURNMETER_IMAGE_SIZES=$(realpath "$build/image-sizes.json")
  export TURNMETER_IMAGE_SIZES
}

case ${1:-} in
"" | --images-only) ;;
-h | --help)
  echo "$usage"
  exit 0
  ;;
*) usage_error "$usage" ;;
esac
check_plan
check_numbers SESSIONS
check_numbers REPETITIONS
check_scenarios
read_limits
check_results
mkdir -p "$build"
lock
check_contender
CONTENDERS=$(setting CONTENDERS)
ensure_docker
ensure_base_image
ensure_certificate
check_disk
choose_limits
compose=(docker compose -f docker-compose.yml)
add_contender
export CONTENDERS
wanted=$(services) || exit $?
mapfile -t wanted <<<"$wanted"
build_images
measure_images
[ "${1:-}" != --images-only ] || exit 0

[ -z "$("${compose[@]}" ps --quiet --status running)" ] ||
  die "a run is going on in containers of this project: wait for it, or end it with 'make down'"
trap '"${compose[@]}" --profile all down --volumes --remove-orphans >/dev/null 2>&1 || true' EXIT
touch "$build/up.begun"
say "plan $PLAN, contenders on CPU $(setting TURNMETER_CPUS_CONTENDER), mock and collector on CPU $(setting TURNMETER_CPUS_INSTRUMENT)"

# As 'docker compose up --exit-code-from collector', but the collector has this terminal, or else the
# interrupts that we get: compose itself would leave the collector behind. It ends by itself then.
"${compose[@]}" --progress quiet up --detach --no-build "${wanted[@]:1}" || die "the containers could not be started: see above"
container=turnmeter-collector-$$
run=("${compose[@]}" --progress quiet run --rm --no-deps --name "$container")
if [ -t 0 ] && [ -t 1 ]; then
  "${run[@]}" collector <&0 &
else
  setsid "${run[@]}" --no-TTY collector </dev/null &
fi
collector=$!
trap 'docker kill --signal INT "$container" >/dev/null 2>&1 || true' INT TERM
status=0
while true; do
  wait $collector && status=0 || status=$?
  kill -0 $collector 2>/dev/null || break
done
trap - INT TERM
if [ $status -eq 1 ]; then
  "${compose[@]}" logs --no-log-prefix --tail 3 mockllm >&2 || true
fi
if [ -n "$resume" ]; then
  say "report: $results/$resume/report.html"
  exit $status
fi
newest=$(find "$results" -mindepth 1 -maxdepth 1 -type d -newer "$build/up.begun" | sort | tail -n 1)
[ -z "$newest" ] || say "report: $newest/report.html"
exit $status
