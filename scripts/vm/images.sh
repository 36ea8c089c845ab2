#!/usr/bin/env bash
# Builds the container images of one architecture and puts them on a disk for a virtual machine.
#   scripts/vm/images.sh amd64|arm64 DIR      writes DIR/docker.img, to be /var/lib/docker
# Loading images inside of an emulated machine takes minutes, so an engine of this machine does it, on a
# data folder of its own. Needs root and what `make up` needs; this machine's own images keep their tags.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=scripts/docker-lib.sh
. "$here/docker-lib.sh"

build() {
  "$here/images.sh" "$arch" >"$out/images.log" 2>&1 || {
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
    unmount_engine "$work"
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
    docker -H "unix://$work/sock" tag "$image" "${image%:*}"
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
  command -v dockerd >/dev/null || "$here/setup.sh" >&2
  unset REGISTRY VERSION REVISION
  build
  require_docker
  mapfile -t images < <("$here/images.sh" --list "$arch")
  local ids
  ids=$(docker image inspect --format '{{.Id}}' "${images[@]}")
  if [ ! -f "$out/docker.img" ] || [ "$(cat "$out/docker.ids" 2>/dev/null)" != "$ids" ]; then
    fill_disk
    echo "$ids" >"$out/docker.ids"
  fi
}

main "$@"
