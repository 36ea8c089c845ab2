#!/usr/bin/env bash
# down.sh [--images]: removes the suite's containers and volumes, and stops the engine if 'make up'
# started it. --images removes the images too, and the data of an engine of ours.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/.."
# shellcheck source=scripts/docker-lib.sh
. "$here/docker-lib.sh"

case ${1:-} in
"" | --images) ;;
*) usage_error "usage: down.sh [--images]" ;;
esac
if has_client && has_compose && find_engine; then
  docker compose --progress quiet -f docker-compose.yml --profile all down --volumes --remove-orphans
  if [ "${1:-}" = --images ] && [ "${DOCKER_HOST:-}" != "unix://$engine_socket" ]; then
    mapfile -t images < <(docker image ls --format '{{.Repository}}:{{.Tag}}' |
      grep -E '^turnmeter(-[a-z0-9-]+|/base):[^<]')
    if [ ${#images[@]} -gt 0 ]; then
      say "removing the images ${images[*]}"
      docker image rm "${images[@]}" >/dev/null
    fi
    say "the build cache stays: 'docker builder prune' removes it, with that of other projects"
  fi
fi
"$here/engine.sh" stop
if [ "${1:-}" = --images ] && [ -d "$engine_data" ]; then
  is_root || die "the engine's data belong to root: run 'sudo make clean IMAGES=1'"
  say "removing $engine_data"
  rm -rf "$engine_data"
fi
