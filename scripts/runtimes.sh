#!/usr/bin/env bash
# Installs the pinned JavaScript runtimes: the executables DIR/node, DIR/bun and DIR/deno.
#   scripts/runtimes.sh DIR [x64|arm64]      (default: this machine's)
# Versions and checksums are those of agent/js/runtimes/package-lock.json. NPM_CONFIG_CAFILE and the
# other settings of npm are honoured. npm before version 10 ignores --cpu, so for another
# architecture a newer npm is used for this one call; it is not installed.
set -euo pipefail

npm_version=10.9.9 # the last that runs on Debian 12's Node 18 and Debian 13's Node 20
npm_sha512=d60fba8cb42f688b81e33c2f1cbef2ad7b977166700ec0ad057f1b6d60ea6ef2524abf673e20c35931cd8305d1dbb8887134d6eefdc0e7b8435bd458bf65b862

fail() {
  echo "runtimes.sh: $*" >&2
  exit 1
}

case "$(uname -m)" in
aarch64) host=arm64 ;;
*) host=x64 ;;
esac
dir=${1:-}
cpu=${2:-$host}
case "$cpu" in
x64) machine=x86-64 elf=3e bun=linux-x64 ;;
arm64) machine=aarch64 elf=b7 bun=linux-aarch64 ;;
*) dir= ;;
esac
if [ -z "$dir" ]; then
  echo "usage: runtimes.sh DIR [x64|arm64]" >&2
  exit 2
fi

for program in node npm; do
  command -v "$program" >/dev/null ||
    fail "'$program' is not installed; on Debian: apt-get install nodejs npm"
done

lock=$(cd "$(dirname "$0")/../agent/js/runtimes" && pwd)
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
work=$(mktemp -d "$dir/.install.XXXXXX")
trap 'rm -rf "$work"' EXIT
cp "$lock/package.json" "$lock/package-lock.json" "$lock/.npmrc" "$work/"
cd "$work"

npm=(npm)
major=$(npm --version)
if [ "$cpu" != "$host" ] && [ "${major%%.*}" -lt 10 ]; then
  npm pack --silent "npm@$npm_version" >/dev/null || fail "cannot fetch npm $npm_version"
  echo "$npm_sha512  npm-$npm_version.tgz" | sha512sum --check --status ||
    fail "npm-$npm_version.tgz has another checksum than expected"
  mkdir npm
  tar -xzf "npm-$npm_version.tgz" -C npm --strip-components=1
  npm=(node "$work/npm/bin/npm-cli.js")
fi

"${npm[@]}" ci --silent --ignore-scripts --omit=dev --os=linux --cpu="$cpu" >&2 ||
  fail "npm ci failed (repeat it in agent/js/runtimes for the reason)"

take() { # NAME FILE
  # The ELF header's e_machine: npm skips an optional package of another architecture without a word.
  if [ ! -f "$2" ] || [ "$(od -An -tx1 -j18 -N1 "$2" | tr -d ' ')" != "$elf" ]; then
    fail "npm installed no $1 for $machine"
  fi
  mv -f "$2" "$dir/$1"
}
take node "node_modules/node-linux-$cpu/bin/node"
take bun "node_modules/@oven/bun-$bun/bin/bun"
take deno "node_modules/@deno/linux-$cpu-glibc/deno"
