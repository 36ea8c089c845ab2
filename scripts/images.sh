#!/usr/bin/env bash
# images.sh: builds all images of docker-bake.hcl for linux/amd64 and linux/arm64, without emulation.
#   images.sh [--push] [ARCH …]   (default: amd64 arm64)
#   images.sh --list ARCH         their names, one a line
# Here they are turnmeter-NAME:VERSION-ARCH, one platform a name, with any engine and any builder. With --push (and
# REGISTRY=registry.example/you/) they go to a registry, each name as one list of manifests there: in one go where the
# builder keeps several platforms under one name, else one after the other as VERSION-ARCH, which are then joined.
# Base image: BASE_IMAGE; else Debian's from a registry; else made from the Debian mirror for each platform.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/docker-lib.sh
. "$here/docker-lib.sh"
default_base=debian:trixie-slim

# The commit that the images are of; what is not committed is said.
revision() {
  local commit
  commit=$(git rev-parse HEAD 2>/dev/null) || return 0
  [ -z "$(git status --porcelain --untracked-files=no 2>/dev/null)" ] || commit+=-dirty
  echo "$commit"
}

targets() {
  docker buildx bake -f docker-bake.hcl --print 2>/dev/null | jq -r '.group.image.targets[]'
}

# What is looked through by grep -q is read whole before: who writes on to a closed pipe fails.
builder_is_the_engine() {
  local builder
  builder=$(docker buildx inspect 2>/dev/null) && grep -q '^Driver: *docker$' <<<"$builder"
}

# Can the builder push both platforms under one name? A builder beside the engine can, and so can the engine if it
# keeps images in containerd.
keeps_platforms() {
  builder_is_the_engine || return 0
  [[ $(docker info --format '{{.DriverStatus}}') == *io.containerd.snapshotter* ]]
}

has_registry_base() {
  timeout 60 docker buildx imagetools inspect "$default_base" >/dev/null 2>&1
}

bake() {
  docker buildx bake "${files[@]}" --progress plain "$@"
}

# An engine without a bridge, as scripts/engine.sh starts one, must build on the machine's network. The language of bake
# itself could not say so for long; a compose file can.
build_without_bridge() {
  targets | jq -R -s '{services: (split("\n") | map(select(. != "") | {(.): {build: {context: ".", network: "host"}}}) | add)}' >"$1"
}

push_both() {
  say "building and pushing the images for $*"
  local platforms
  platforms=$(printf 'linux/%s,' "$@")
  PLATFORMS=${platforms%,} BASE_IMAGE=${BASE_IMAGE:-$default_base} bake --push
}

# A builder beside the engine keeps what it builds to itself unless it is told to load it.
build_one() { # ARCH
  say "building the images for $1"
  local base=${BASE_IMAGE:-$default_base} native_base=${BUILD_IMAGE:-}
  if $own_base; then
    native_base=$("$here/base-image.sh" "$(docker version --format '{{.Server.Arch}}')")
    base=$("$here/base-image.sh" "$1")
  fi
  PLATFORMS=linux/$1 TAG_SUFFIX=-$1 BASE_IMAGE=$base BUILD_IMAGE=$native_base bake "$([ -n "$push" ] && echo --push || echo --load)"
}

# One list of manifests for each name, from what was pushed for each platform.
join() { # ARCH …
  local target name arch sources
  for target in $(targets); do
    name=${REGISTRY:-}turnmeter-$target
    sources=()
    for arch in "$@"; do
      sources+=("$name:$VERSION-$arch")
    done
    docker buildx imagetools create --tag "$name:$VERSION" --tag "$name:latest" "${sources[@]}"
  done
}

names() { # ARCH
  targets | sed "s,.*,${REGISTRY:-}turnmeter-&:$VERSION-$1,"
}

main() {
  local command=build arch base
  push=
  cd "$here/.."
  while [ $# -gt 0 ]; do
    case $1 in
    --push) push=yes ;;
    --list) command=list ;;
    -*) usage_error "usage: images.sh [--push | --list] [amd64] [arm64]" ;;
    *) break ;;
    esac
    shift
  done
  [ $# -gt 0 ] || set -- amd64 arm64
  for arch in "$@"; do
    case $arch in
    amd64 | arm64) ;;
    *) usage_error "architecture '$arch': must be amd64 or arm64" ;;
    esac
  done
  [ -z "${REGISTRY:-}" ] || [ "${REGISTRY%/}" != "$REGISTRY" ] || usage_error "REGISTRY=$REGISTRY: must end with a slash"
  [ -z "$push" ] || [ -n "${REGISTRY:-}" ] || usage_error "--push needs REGISTRY=registry.example/you/"
  if is_root && [ -z "${DOCKER_HOST:-}" ]; then
    { has_client && has_buildx && command -v dockerd >/dev/null; } || "$here/setup.sh" >&2
    "$here/engine.sh" start >&2
  fi
  has_buildx || die "docker has no buildx plugin: run 'sudo make setup'"
  VERSION=${VERSION:-$(cat VERSION)}
  if [ $command = list ]; then
    for arch in "$@"; do
      names "$arch"
    done
    exit
  fi
  require_docker
  REVISION=${REVISION:-$(revision)}
  TURNMETER_CA_FILE=${TURNMETER_CA_FILE:-${NPM_CONFIG_CAFILE:-${NODE_EXTRA_CA_CERTS:-}}}
  export VERSION REVISION TURNMETER_CA_FILE
  files=(-f docker-bake.hcl)
  if ! docker network inspect bridge >/dev/null 2>&1; then
    bridge_file=$(mktemp --suffix=.yml)
    trap 'rm -f "$bridge_file"' EXIT
    build_without_bridge "$bridge_file"
    files=(-f "$bridge_file" -f docker-bake.hcl)
  fi
  own_base=false
  [ -n "${BASE_IMAGE:-}" ] || has_registry_base || own_base=true
  if $own_base && ! builder_is_the_engine; then
    die "no registry has $default_base, and this builder cannot see a base image made here: choose the engine's with 'docker buildx use default', or set BASE_IMAGE"
  fi
  if [ -n "$push" ] && ! $own_base && keeps_platforms; then
    push_both "$@"
    return
  fi
  for arch in "$@"; do
    build_one "$arch"
  done
  [ -z "$push" ] || join "$@"
}

main "$@"
