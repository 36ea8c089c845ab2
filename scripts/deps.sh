#!/usr/bin/env bash
# Makes sure that the Debian packages of one or more sets are installed.
#   scripts/deps.sh build|test|lint|static|rust|arm64|vm|images|registry|browser …
# As root on Debian it installs what is missing, after saying so (`make unsetup` takes it away again); otherwise it prints the command
# that would and exits 1. Silent when nothing is missing.
set -euo pipefail

packages_of() {
  case "$1" in
  build) echo gcc libc6-dev make pkg-config musl-tools libmicrohttpd-dev libjansson-dev libcurl4-openssl-dev libmd-dev zlib1g-dev nodejs npm ;;
  test) echo libcmocka-dev bats curl python3 jq clang openssl zstd ;;
  lint) echo clang clang-format clang-tidy shellcheck ;;
  arm64) echo gcc-aarch64-linux-gnu mmdebstrap debian-archive-keyring qemu-user ;;
  vm) echo mmdebstrap debian-archive-keyring qemu-system-x86 qemu-system-arm e2fsprogs kmod cpio xz-utils jq ;;
  images) echo mmdebstrap debian-archive-keyring jq binutils ;;
  registry) echo docker-registry curl ;;
  browser) echo chromium fonts-dejavu-core ;;
  rust) echo mmdebstrap debian-archive-keyring ;;
  static) echo dpkg-dev autoconf automake libtool ;;
  *)
    echo "deps.sh: unknown set '$1': must be build, test, lint, static, rust, arm64, vm, images, registry or browser" >&2
    exit 2
    ;;
  esac
}

# What a package is there for, where another source may have provided it.
provided() {
  case "$1" in
  nodejs) command -v node ;;
  npm | jq | python3 | curl | openssl | zstd | bats | make | gcc | clang | clang-format | clang-tidy | shellcheck) command -v "$1" ;;
  *) dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'ok installed' ;;
  esac >/dev/null 2>&1
}

missing=()
for set in "$@"; do
  packages=$(packages_of "$set")
  for package in $packages; do
    if ! provided "$package"; then
      missing+=("$package")
    fi
  done
done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ ! -f /etc/debian_version ]; then
  echo "missing (names of Debian's packages): ${missing[*]}; install them with this system's package manager" >&2
  exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
  echo "missing packages; install them with: sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
  exit 1
fi
# Whoever comes while somebody else installs waits, and looks again.
if [ -z "${DEPS_LOCKED:-}" ]; then
  DEPS_LOCKED=1 exec flock -o /var/lib/dpkg "$0" "$@"
fi
exec "$(dirname "$0")/setup.sh" "${missing[@]}" >&2
