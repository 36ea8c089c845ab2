#!/usr/bin/env bash
# Builds the Rust agent, or runs its unit tests, in a Debian 13 stage: a folder with the packages of
# agent/rust/packages.txt, made by mmdebstrap from the mirror in this machine's apt configuration. The
# build itself has no network: its crates are Debian's packages.
#   scripts/rust-stage.sh build STAGE ARCH OUT     the program, static, for amd64 or arm64
#   scripts/rust-stage.sh test STAGE ARCH          unit tests; ARCH must be this machine's
# STAGE is kept and used again while the list of packages is the same. Needs root, for chroot.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source=$here/../agent/rust
say() { echo "rust-stage: $*" >&2; }
die() {
  say "$*"
  exit 1
}
usage() {
  say "usage: rust-stage.sh build STAGE ARCH OUT | test STAGE ARCH"
  exit 2
}

[ $# -ge 3 ] || usage
command=$1 stage=$2 arch=$3
case $arch in
amd64) target=x86_64-unknown-linux-gnu ;;
arm64) target=aarch64-unknown-linux-gnu ;;
*) usage ;;
esac
native=$(dpkg --print-architecture)
case $command in
build) [ $# -eq 4 ] || usage ;;
test) [ "$arch" = "$native" ] || die "the tests run on $native only" ;;
*) usage ;;
esac
[ "$(id -u)" -eq 0 ] || die "the Rust agent is built in a chroot, which needs root; without it, build the image's stage (docker build --target rust .) or use cargo as in agent/rust/README.md"

# The words ARCH and GNU of packages.txt are those of scripts/docker/target.sh.
read -ra packages < <(TARGETARCH=$arch xargs -a "$source/packages.txt" "$here/docker/target.sh" echo)
recipe=$arch:${packages[*]}
if [ "$(cat "$stage/recipe" 2>/dev/null)" != "$recipe" ]; then
  command -v mmdebstrap >/dev/null || die "mmdebstrap is missing: apt-get install -y --no-install-recommends mmdebstrap"
  architectures=$native
  [ "$arch" = "$native" ] || architectures=$native,$arch
  say "making the stage $stage, Debian 13 with cargo and ${#packages[@]} packages, about a minute"
  rm -rf --one-file-system "$stage" # a stage that was broken off may hold mounts
  mkdir -p "$(dirname "$stage")"
  # no fsync of each of tens of thousands of files
  options=(--quiet --variant=minbase --architectures="$architectures" --aptopt='APT::Install-Recommends "false"'
    --dpkgopt=force-unsafe-io)
  for path in man doc info locale lintian; do
    options+=(--dpkgopt="path-exclude=/usr/share/$path/*")
  done
  mmdebstrap "${options[@]}" --include="$(IFS=,; echo "${packages[*]}")" trixie "$stage" \
    "$("$here/debian-mirror.sh")" >&2 || die "mmdebstrap could not make the stage"
  echo "$recipe" >"$stage/recipe"
fi

work=$stage/build
mkdir -p "$work/src"
rm -rf "$work/src"/*
cp -r "$source/Cargo.toml" "$source/src" "$work/src"

linker=CARGO_TARGET_$(tr a-z- A-Z_ <<<"$target")_LINKER
cargo=(cargo)
case $command in
build) cargo+=(build --release --quiet) ;;
test) cargo+=(test) ;;
esac
cargo+=(--offline --target "$target" --manifest-path /build/src/Cargo.toml
  --config 'source.crates-io.replace-with="debian"'
  --config 'source.debian.directory="/usr/share/cargo/registry"')
# Mounts and the lack of a network are those of a namespace that ends with the build.
# shellcheck disable=SC2016 # the inner shell expands it
unshare --mount --net -- sh -euc 'mount --bind /proc "$1/proc"; shift; exec "$@"' sh "$stage" \
  chroot "$stage" env -i PATH=/usr/bin:/bin HOME=/build LC_ALL=C.UTF-8 CARGO_HOME=/build/cargo \
  CARGO_TARGET_DIR=/build/target CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0 RUSTFLAGS='-C target-feature=+crt-static' \
  "$linker=${target/-unknown/}-gcc" \
  "${cargo[@]}"

if [ "$command" = build ]; then
  mkdir -p "$(dirname "$4")"
  install "$work/target/$target/release/agent-rust" "$4"
fi
