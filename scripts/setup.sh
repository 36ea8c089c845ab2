#!/usr/bin/env bash
# setup.sh: installs what 'make up' needs on a Debian machine from Debian's packages.
# setup.sh PACKAGE…: installs these packages. setup.sh --undo: takes away what was installed by either.
# Needs root; says what it does before it does it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/docker-lib.sh
. "$here/docker-lib.sh"

plugins=/usr/local/lib/docker/cli-plugins
record=/var/lib/turnmeter-setup # what we installed: packages and plugins, a line each
plugin_suite=trixie             # the oldest Debian whose packages have compose 2 and buildx

apt() {
  DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@"
}

# Runs quietly; on failure shows the end of what was said.
quietly() {
  local log
  log=$(mktemp)
  if "$@" >"$log" 2>&1; then
    rm -f "$log"
  else
    tail -n 20 "$log" >&2
    rm -f "$log"
    return 1
  fi
}

candidate() {
  apt-cache policy "$1" | sed -n 's/^  Candidate: //p' | grep -v '^(none)$'
}

# compose and buildx from a newer Debian than this one: unpacked as plugins, nothing else of it is
# installed, and the machine's own apt configuration stays as it is.
install_plugins_from() {
  local suite=$1 dir mirror
  mirror=$("$here/debian-mirror.sh") || die "install Docker's compose and buildx plugins by hand"
  dir=$(mktemp -d)
  chmod 755 "$dir" # apt reads it as its own user
  mkdir -p "$dir/lists/partial" "$dir/archives/partial" "$dir/root"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$dir/sources.list"
  local options=(-o Dir::Etc::SourceList="$dir/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null
    -o Dir::State::Lists="$dir/lists" -o Dir::Cache="$dir" -o Dir::Cache::archives="$dir/archives")
  quietly apt "${options[@]}" update || die "apt could not read Debian $suite's package lists"
  (cd "$dir" && quietly apt "${options[@]}" download docker-compose docker-buildx) ||
    die "apt could not fetch docker-compose and docker-buildx of Debian $suite"
  mkdir -p "$plugins" "$record"
  local deb name
  for deb in "$dir"/*.deb; do
    dpkg-deb -x "$deb" "$dir/root"
  done
  for name in docker-compose docker-buildx; do
    [ -e "$plugins/$name" ] && continue
    install -m 755 "$(find "$dir/root" -path "*/cli-plugins/$name" -type f)" "$plugins/$name"
    echo "$plugins/$name" >>"$record/files"
  done
  rm -rf "$dir"
}

install_packages() {
  mkdir -p "$record"
  apt install --simulate --no-install-recommends "$@" | sed -n 's/^Inst \([^ ]*\).*/\1/p' >>"$record/packages"
  quietly apt install -y --no-install-recommends "$@" || die "apt could not install $*"
}

require_debian_root() {
  is_root || die "setup installs packages and needs root: run 'sudo make setup'"
  [ -e /etc/debian_version ] ||
    die "this is not Debian: install the Docker engine and its compose plugin by your system's means, then run 'make up'"
}

read_lists() {
  say "reading Debian's package lists"
  quietly apt update || die "apt could not read the package lists: see 'apt-get update'"
}

setup() {
  require_debian_root
  local packages=() plugin_packages=no
  has_client && command -v dockerd >/dev/null || find_engine || packages+=(docker.io iptables ca-certificates)
  if [ ${#packages[@]} -gt 0 ] && [ -d /sys/module/apparmor ]; then
    packages+=(apparmor)
  fi
  has_client && has_compose && has_buildx || plugin_packages=yes
  if [ ${#packages[@]} -gt 0 ] || [ $plugin_packages = yes ]; then
    read_lists
  fi
  if [ ${#packages[@]} -gt 0 ]; then
    candidate docker-cli >/dev/null && packages+=(docker-cli)
    say "installing ${packages[*]} from Debian's packages (undo: make unsetup)"
    install_packages "${packages[@]}"
  fi
  if [ $plugin_packages = yes ]; then
    case $(candidate docker-compose) in
    1.* | "")
      say "installing compose and buildx of Debian $plugin_suite as Docker plugins into $plugins (undo: make unsetup)"
      install_plugins_from $plugin_suite
      ;;
    *)
      say "installing docker-compose and docker-buildx from Debian's packages (undo: make unsetup)"
      install_packages docker-compose docker-buildx
      ;;
    esac
    has_compose || die "'docker compose version' still fails: see its message"
  fi
}

undo() {
  is_root || die "needs root: run 'sudo make unsetup'"
  "$here/engine.sh" stop
  if [ -s "$record/files" ]; then
    say "removing $(paste -sd' ' "$record/files")"
    xargs -r rm -f <"$record/files"
  fi
  if [ -s "$record/packages" ]; then
    say "removing the packages that 'make setup' installed: $(sort -u "$record/packages" | paste -sd' ')"
    # shellcheck disable=SC2046
    quietly apt purge -y $(sort -u "$record/packages") || die "apt could not remove them all"
  fi
  rm -rf "$record" "$engine_data"
}

case ${1:-} in
"") setup ;;
--undo) undo ;;
-*) usage_error "usage: setup.sh [--undo | PACKAGE…]" ;;
*)
  require_debian_root
  read_lists
  say "installing $* from Debian's packages (undo: make unsetup)"
  install_packages "$@"
  ;;
esac
