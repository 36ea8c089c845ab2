# shellcheck shell=bash
# Sourced by the scripts that need Docker: messages, the client, the engine. Does nothing by itself.
# shellcheck disable=SC2034 # variables are used by those that source it

# An engine of our own, for machines where no service manager runs one. What lies in /run is gone
# after a reboot, as the engine is.
engine_run=/run/turnmeter-engine
engine_data=/var/lib/turnmeter-engine
engine_socket=$engine_run/docker.sock

say() {
  printf 'turnmeter: %s\n' "$*"
}

die() {
  printf 'turnmeter: %s\n' "$*" >&2
  exit 1
}

usage_error() {
  printf 'turnmeter: %s\n' "$*" >&2
  exit 2
}

is_root() {
  [ "$(id -u)" -eq 0 ]
}

has_client() {
  command -v docker >/dev/null
}

has_compose() {
  local version
  version=$(docker compose version --short 2>/dev/null) || return 1
  version=${version#v}
  [ "${version%%.*}" -ge 2 ] 2>/dev/null
}

has_buildx() {
  docker buildx version >/dev/null 2>&1
}

# Is there an engine, where the environment says or else ours? Then DOCKER_HOST points at it.
# If not, engine_problem says why.
find_engine() {
  engine_problem=$(docker version --format '{{.Server.Version}}' 2>&1 >/dev/null) && return 0
  if [ -z "${DOCKER_HOST:-}" ] && [ -S "$engine_socket" ]; then
    export DOCKER_HOST="unix://$engine_socket"
    engine_problem=$(docker version --format '{{.Server.Version}}' 2>&1 >/dev/null) && return 0
    unset DOCKER_HOST
  fi
  return 1
}

# An engine leaves mounts behind: the host's network namespace, held below its exec root, and its data folder over
# itself where the machine's mounts are private. The latest goes first.
unmount_engine() { # FOLDER …
  local folder
  for folder in "$@"; do
    awk -v folder="$folder" '$5 == folder || index($5, folder "/") == 1 { print $5 }' /proc/self/mountinfo
  done | tac | while read -r folder; do umount "$folder"; done
}

# One line that tells a person how to get an engine that answers.
engine_remedy() {
  case $engine_problem in
  *"permission denied"*)
    echo "this user may not use the Docker engine: run 'sudo make up', or join its group with 'sudo usermod -aG docker $(id -un)' and log in again"
    ;;
  *)
    if [ -n "${DOCKER_HOST:-}" ]; then
      echo "no Docker engine answers at DOCKER_HOST=$DOCKER_HOST: start it, or unset DOCKER_HOST"
    else
      echo "no Docker engine is running: run 'sudo make setup'"
    fi
    ;;
  esac
}

# The client, compose and a running engine are there, or the script ends with the remedy.
require_docker() {
  has_client || die "no docker command: run 'sudo make setup'"
  has_compose || die "docker has no compose plugin (version 2 or newer): run 'sudo make setup'"
  find_engine || die "$(engine_remedy)"
}
