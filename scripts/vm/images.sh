#!/usr/bin/env bash
# Builds the container images of one architecture and puts them on a disk for a virtual machine.
#   scripts/vm/images.sh amd64|arm64 DIR      writes DIR/docker.img, to be /var/lib/docker
# Loading images inside of an emulated machine takes minutes, so an engine of this machine does it, on a
# data folder of its own. Needs root and what `make up` needs; this machine's own images keep their tags.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=scripts/docker-lib.sh
. "$here/docker-lib.sh"

# A compose file like the real one whose images have the architecture in their tags.
write_compose() {
  docker compose -f "$here/../docker-compose.yml" --profile all config --format json |
    jq --arg tag ":vm-$arch" '.services |= map_values(.image += $tag)' >"$work/compose.json"
}

build() {
  local native base native_base
  native=$(docker version --format '{{.Server.Arch}}')
  native_base=$("$here/base-image.sh" "$native")
  base=$("$here/base-image.sh" "$arch")
  export BASE_IMAGE=$base BUILD_IMAGE=$native_base
  export TURNMETER_CA_FILE=${TURNMETER_CA_FILE:-${NPM_CONFIG_CAFILE:-${NODE_EXTRA_CA_CERTS:-/dev/null}}}
  write_compose
  say "building the images for $arch" >&2
  DOCKER_DEFAULT_PLATFORM=linux/$arch docker compose -f "$work/compose.json" --profile all --progress plain build \
    >"$out/images.log" 2>&1 || {
    tail -n 25 "$out/images.log" >&2
    die "the images for $arch could not be built: the whole log is $out/images.log"
  }
}

start_loader() {
  local tries=0
  mkdir "$work/data"
  dockerd --data-root "$work/data" --exec-root "$work/exec" --host "unix://$work/sock" --pidfile "$work/pid" \
    --bridge=none --iptables=false --storage-driver overlay2 >"$work/log" 2>&1 </dev/null &
  loader=$!
  until docker -H "unix://$work/sock" version >/dev/null 2>&1; do
    tries=$((tries + 1))
    if ! kill -0 "$loader" 2>/dev/null || [ $tries -gt 150 ]; then
      tail -n 3 "$work/log" >&2
      die "dockerd did not start on a folder of its own"
    fi
    sleep 0.2
  done
}

stop_loader() {
  if [ -n "$loader" ]; then
    kill "$loader" 2>/dev/null || true
    wait "$loader" 2>/dev/null || true
    loader=
  fi
}

clean() {
  stop_loader
  rm -rf "$work"
}

fill_disk() {
  local image
  start_loader
  docker save "${images[@]}" | docker -H "unix://$work/sock" load >/dev/null
  for image in "${images[@]}"; do
    docker -H "unix://$work/sock" tag "$image" "${image%":vm-$arch"}"
    docker -H "unix://$work/sock" rmi "$image" >/dev/null
  done
  stop_loader
  [ -f "$work/data/image/overlay2/repositories.json" ] ||
    die "this machine's dockerd keeps images in another form than overlay2: they cannot be moved into the machine"
  # The rest of the folder is the engine's own state, which is another one's there.
  mkdir "$work/docker"
  mv "$work/data/image" "$work/data/overlay2" "$work/docker/"
  mke2fs -q -t ext4 -O ^has_journal -m 0 -E lazy_itable_init=1,nodiscard -d "$work/docker" "$work/docker.img" 4G >/dev/null
  mv "$work/docker.img" "$out/docker.img"
}

main() {
  [ $# -eq 2 ] || usage_error "usage: images.sh amd64|arm64 DIR"
  arch=$1 out=$2 loader=
  is_root || die "the disk of images is made by root: run it with sudo"
  mkdir -p "$out"
  out=$(realpath "$out")
  work=$(mktemp -d "$out/images.XXXXXX")
  trap clean EXIT
  if ! has_client || ! has_compose || ! command -v dockerd >/dev/null; then
    "$here/setup.sh" >&2
  fi
  "$here/engine.sh" start >&2
  require_docker
  build
  mapfile -t images < <(jq -r '.services[].image' "$work/compose.json" | sort -u)
  local ids
  ids=$(docker image inspect --format '{{.Id}}' "${images[@]}")
  if [ ! -f "$out/docker.img" ] || [ "$(cat "$out/docker.ids" 2>/dev/null)" != "$ids" ]; then
    fill_disk
    echo "$ids" >"$out/docker.ids"
  fi
}

main "$@"
