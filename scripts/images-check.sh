#!/usr/bin/env bash
# images-check.sh: looks at what scripts/images.sh has built one platform at a time. One JSON line an assertion, exit
# status 1 if one does not hold:
# - every ELF file of every image of a platform is for that platform's machine, and there are the suite's programs, the
#   static agents in C no larger than they may be (1.44 MiB; 256 KiB without TLS);
# - pushed to a registry (Debian's docker-registry, on the loopback, for this test only), each name is one list of
#   manifests with both platforms, and each platform's image has its version, revision and base as labels.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/docker-lib.sh
. "$here/docker-lib.sh"
platforms=(amd64 arm64)

assertion() { # WHAT SUBJECT PASS FOUND (both JSON)
  jq -n -c --arg what "$1" --arg subject "$2" --argjson pass "$3" --argjson found "$4" \
    '{assertion: $what, subject: $subject, pass: $pass, found: $found}'
  [ "$3" = true ] || failed=$((failed + 1))
  count=$((count + 1))
}

machine_of() { # ARCH
  case $1 in
  amd64) echo 'Advanced Micro Devices X86-64' ;;
  arm64) echo AArch64 ;;
  esac
}

# All layers of all images of a platform, each unpacked once: the base is the same in all.
unpack() { # ARCH
  local layer images
  mapfile -t images < <("$here/images.sh" --list "$1")
  mkdir "$work/$1"
  docker save "${images[@]}" | tar -x -C "$work/$1"
  for layer in $(jq -r '.[].Layers[]' "$work/$1/manifest.json" | sort -u); do
    mkdir -p "$work/$1/files/$layer"
    tar -x -f "$work/$1/$layer" -C "$work/$1/files/$layer" --exclude 'dev/*'
  done
}

check_programs() { # ARCH
  local arch=$1 headers elf wrong ours program most size
  unpack "$arch"
  headers=$work/$arch/headers
  # what is no ELF file is told on stderr
  find "$work/$arch/files" -type f -size +63c -exec readelf -h {} + >"$headers" 2>/dev/null || true
  elf=$(sed -n 's/^ *Machine: *//p' "$headers" | wc -l)
  wrong=$(sed -n 's/^ *Machine: *//p' "$headers" | grep -vcxF "$(machine_of "$arch")" || true)
  assertion "every ELF file is for the platform's machine" "$arch" \
    "$([ "$elf" -gt 0 ] && [ "$wrong" -eq 0 ] && echo true || echo false)" "{\"files\":$elf,\"others\":$wrong}"
  ours=$(find "$work/$arch/files" -type f -path '*/opt/turnmeter/*' -perm /111 | sed 's,.*/,,' | sort -u | jq -R . | jq -c -s .)
  assertion "the suite's programs are there" "$arch" \
    "$(jq '["mockllm", "collector", "launcher", "tmtool", "agent-c", "agent-c-min", "agent-c-dynamic", "agent-floor",
      "agent-rust", "node", "bun", "deno"] - . == []' <<<"$ours")" "$ours"
  while read -r program most; do
    size=$(find "$work/$arch/files" -type f -path "*/opt/turnmeter/bin/$program" -printf '%s\n' -quit)
    assertion "the static agent is small" "$program $arch" "$([ "${size:-0}" -gt 0 ] && [ "$size" -lt "$most" ] && echo true || echo false)" \
      "{\"bytes\":${size:-null},\"below\":$most}"
  done <<'END'
agent-c 1509950
agent-c-min 262145
END
  rm -rf "${work:?}/$arch"
}

start_registry() {
  local tries=0
  port=$((20000 + $$ % 20000))
  cat >"$work/registry.yml" <<END
version: 0.1
log: {level: error}
storage: {filesystem: {rootdirectory: $work/registry}}
http: {addr: "127.0.0.1:$port"}
END
  docker-registry serve "$work/registry.yml" >"$work/registry.log" 2>&1 </dev/null &
  registry=$!
  until curl -fs "http://127.0.0.1:$port/v2/" >/dev/null; do
    tries=$((tries + 1))
    if ! kill -0 $registry 2>/dev/null || [ $tries -gt 100 ]; then
      tail -n 3 "$work/registry.log" >&2
      die "docker-registry did not start on port $port"
    fi
    sleep 0.1
  done
}

# What the label of the revision must be: the commit, marked if there is more than it; none outside of git.
revision() {
  local commit
  commit=$(git rev-parse HEAD 2>/dev/null) || {
    echo null
    return
  }
  [ -z "$(git status --porcelain --untracked-files=no)" ] || commit+=-dirty
  echo "\"$commit\""
}

check_registry() {
  local name list labels arch digest revision
  revision=$(revision)
  start_registry
  export REGISTRY=127.0.0.1:$port/
  "$here/images.sh" --push "${platforms[@]}" >"$work/push.log" 2>&1 || {
    tail -n 20 "$work/push.log" >&2
    die "the images could not be pushed to a registry on this machine"
  }
  for name in $("$here/images.sh" --list amd64); do
    name=${name%-amd64}
    # a builder may add what says how an image was made, for no platform
    list=$(docker buildx imagetools inspect --raw "$name" |
      jq -c '[.manifests[]? | select(.platform.os != "unknown") | {key: "\(.platform.os)/\(.platform.architecture)", value: .digest}] | sort | from_entries')
    assertion "is a list of manifests for both platforms" "${name#"$REGISTRY"}" \
      "$(jq 'keys == ["linux/amd64", "linux/arm64"]' <<<"$list")" "$list"
    for arch in "${platforms[@]}"; do
      digest=$(jq -r --arg platform "linux/$arch" '.[$platform] // "none"' <<<"$list")
      labels=$(docker buildx imagetools inspect --format '{{json .Image}}' "${name%:*}@$digest" | jq -c '{architecture} + (.config.Labels // {})') || labels=null
      assertion "has version, revision and base as labels" "${name#"$REGISTRY"} $arch" \
        "$(jq --arg arch "$arch" --arg version "$(cat VERSION)" --argjson revision "$revision" '
          .architecture == $arch and .["org.opencontainers.image.version"] == $version
          and .["org.opencontainers.image.revision"] == $revision
          and (.["org.opencontainers.image.base.name"] // "") != ""' <<<"$labels")" "$labels"
    done
  done
}

clean() {
  if [ -n "${REGISTRY:-}" ]; then
    docker images --format '{{.Repository}}:{{.Tag}}' | grep -F "$REGISTRY" | xargs -r docker rmi >/dev/null 2>&1 || true
  fi
  [ -z "$registry" ] || kill "$registry" 2>/dev/null || true
  rm -rf "$work"
}

main() {
  local image
  failed=0 count=0 registry=
  cd "$here/.."
  unset REGISTRY VERSION REVISION
  find_engine || die "$(engine_remedy)"
  work=$(mktemp -d)
  trap clean EXIT
  for image in $("$here/images.sh" --list "${platforms[@]}"); do
    docker image inspect "$image" >/dev/null 2>&1 || die "there is no image $image: run 'make images' first"
  done
  local arch
  for arch in "${platforms[@]}"; do
    check_programs "$arch"
  done
  check_registry
  echo "{\"assertions\":$count,\"failed\":$failed}"
  [ $failed -eq 0 ]
}

main "$@"
