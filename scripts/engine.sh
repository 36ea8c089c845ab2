#!/usr/bin/env bash
# engine.sh start|stop|status: runs a Docker engine when none answers, and stops the one it started.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/docker-lib.sh
. "$here/docker-lib.sh"

start_service() {
  say "starting the Docker engine (systemctl start docker); 'make down' stops it"
  systemctl start docker || die "systemd could not start Docker: see 'journalctl -u docker'"
  mkdir -p "$engine_run"
  touch "$engine_run/service"
}

# No bridge and no packet filter: the suite's containers have no network but loopback, so the engine
# need not touch the machine's.
start_private() {
  local log=$engine_run/log tries=0
  command -v dockerd >/dev/null || die "no dockerd: run 'make setup' as root"
  say "no service manager: starting dockerd by hand, without a bridge, images in $engine_data; 'make down' stops it"
  mkdir -p "$engine_run" "$engine_data"
  setsid dockerd --data-root "$engine_data" --exec-root "$engine_run/exec" \
    --host "unix://$engine_socket" --pidfile "$engine_run/pid" \
    --bridge=none --iptables=false >"$log" 2>&1 </dev/null &
  local pid=$!
  export DOCKER_HOST="unix://$engine_socket"
  until docker version >/dev/null 2>&1; do
    tries=$((tries + 1))
    if ! kill -0 "$pid" 2>/dev/null || [ $tries -gt 150 ]; then
      kill "$pid" 2>/dev/null || true
      grep -E 'level=(error|fatal)|^failed' "$log" | tail -n 2 >&2 || true
      die "dockerd did not start: the reason stands in $log"
    fi
    sleep 0.2
  done
}

start() {
  has_client || die "no docker command: run 'make setup' as root"
  if find_engine; then
    return
  fi
  [ -z "${DOCKER_HOST:-}" ] || die "$(engine_remedy)"
  is_root || die "$(engine_remedy)"
  if [ -d /run/systemd/system ]; then
    start_service
  else
    start_private
  fi
}

remove_engine_run() {
  unmount_engine "$engine_data" "$engine_run"
  rm -rf "$engine_run"
}

# Only what start_* began: a user's own engine is left alone.
stop() {
  if [ -e "$engine_run/service" ]; then
    is_root || die "the engine was started by root: stop it with 'sudo make down'"
    say "stopping the Docker engine that 'make up' started"
    systemctl stop docker.socket docker
    rm -rf "$engine_run"
  elif [ -e "$engine_run/pid" ]; then
    is_root || die "the engine was started by root: stop it with 'sudo make down'"
    local pid tries=0
    pid=$(cat "$engine_run/pid")
    say "stopping the Docker engine that 'make up' started (dockerd, process $pid)"
    if [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = dockerd ]; then
      kill "$pid"
      while [ -e "/proc/$pid" ]; do
        tries=$((tries + 1))
        [ $tries -le 150 ] || die "dockerd (process $pid) does not end: kill it by hand"
        sleep 0.2
      done
    fi
    remove_engine_run
  elif is_root; then
    remove_engine_run # the log of one that did not start
  fi
}

case ${1:-} in
start) start ;;
stop) stop ;;
status)
  if has_client && find_engine; then
    echo "${DOCKER_HOST:-default}"
  else
    exit 1
  fi
  ;;
*) usage_error "usage: engine.sh start|stop|status" ;;
esac
