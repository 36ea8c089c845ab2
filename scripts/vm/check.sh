#!/usr/bin/env bash
# Boots the virtual machine of an architecture, plays the plans of tests/vm in containers there, and judges what
# comes back: one JSON line an assertion on stdout, exit 1 when one does not hold.
#   scripts/vm/check.sh amd64|arm64
# Needs root. Disks and results are kept under BUILD/vm/ARCH. VM_LIMIT_S (default 1200): seconds the machine may take.
set -euo pipefail

# Everything that came back, held against what must be.
judge() { # ARCH FOLDER JOB-STATUS SECONDS
  local plan retried=false options=()
  for plan in smoke limits reattach; do
    cat "$2/$plan"/*/runs.jsonl >"$2/$plan.jsonl" 2>/dev/null || true
    options+=(--slurpfile "$plan" "$2/$plan.jsonl")
  done
  touch "$2/observations.jsonl"
  [ ! -f "$2/console.first.log" ] || retried=true
  jq -n -c --arg arch "$1" --arg version "$(cat VERSION)" --argjson job_status "$3" --argjson seconds "$4" --argjson retried "$retried" \
    --argjson observed "$(jq -s 'map({(.name): .value}) | add // {}' "$2/observations.jsonl")" \
    "${options[@]}" -f tests/vm/judge.jq | tee "$2/assertions.jsonl"
  jq -e -s 'last | .assertions > 0 and .failed == 0' "$2/assertions.jsonl" >/dev/null
}

# What else the machine takes, beside the building of the images: a group of processes of its own, so that it ends as a
# whole when this script does not get to its end.
start_others() { # ARCH DISKS
  # shellcheck disable=SC2016 # the inner shell's
  setsid bash -euc '
    "$0/rootfs.sh" "$1" "$2"
    [ "$1" != arm64 ] || make --no-print-directory BUILD="$3" launcher-test-arm64 >&2
  ' "$here" "$1" "$2" "${BUILD:-build}" &
  others=$!
}

# shellcheck disable=SC2317 # called by the trap
clean() {
  if [ -n "$others" ]; then
    kill -- "-$others" 2>/dev/null || true
    wait "$others" 2>/dev/null || true
  fi
  [ -z "$work" ] || rm -rf "$work"
}

main() {
  local arch=${1:-} disks started=$SECONDS
  others='' work=''
  here=$(cd "$(dirname "$0")" && pwd)
  case $arch in
  amd64 | arm64) ;;
  *)
    echo "check.sh: architecture '$arch': must be amd64 or arm64" >&2
    exit 2
    ;;
  esac
  cd "$here/../.."
  disks=${BUILD:-build}/vm/$arch
  trap clean EXIT
  start_others "$arch" "$disks"
  "$here/images.sh" "$arch" "$disks"
  wait "$others" # fails if it did
  others=
  work=$(mktemp -d "$disks/check.XXXXXX")
  mkdir -p "$work/checkout/unit/launcher"
  if [ "$arch" = arm64 ]; then
    cp "${BUILD:-build}/arm64/unit/launcher/test_launcher" "$work/checkout/unit/launcher/"
  fi
  git ls-files -z --cached --others --exclude-standard -- docker-compose.yml configs scripts tests/vm |
    tar -c --null -T - | tar -x -C "$work/checkout"
  local built=$((SECONDS - started)) status=0
  "$here/run.sh" -t "${VM_LIMIT_S:-1200}" -o "$disks/check" -d "$disks/docker.img" "$arch" tests/vm/job.sh \
    checkout="$work/checkout" >&2 || status=$?
  local total=$((SECONDS - started))
  judge "$arch" "$disks/check" "$status" "{\"disks\":$built,\"machine\":$((total - built))}"
}

main "$@"
