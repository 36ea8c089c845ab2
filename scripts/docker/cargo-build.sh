#!/bin/sh
# cargo-build SOURCE DEST PROGRAM: builds the crate in SOURCE as a static program for the architecture of
# TARGETARCH, with Debian's crates and no others, and copies PROGRAM into the folder DEST.
set -eu
source=$1
dest=$2
program=$3
case $TARGETARCH in
amd64) machine=x86_64 ;;
arm64) machine=aarch64 ;;
*)
  echo "cargo-build: architecture '$TARGETARCH': must be amd64 or arm64" >&2
  exit 2
  ;;
esac
target=$machine-unknown-linux-gnu
linker=CARGO_TARGET_$(echo "$target" | tr a-z- A-Z_)_LINKER
env "$linker=$machine-linux-gnu-gcc" RUSTFLAGS='-C target-feature=+crt-static' CARGO_INCREMENTAL=0 \
  cargo build --release --offline --quiet --target "$target" --manifest-path "$source/Cargo.toml" \
  --config 'source.crates-io.replace-with="debian"' \
  --config 'source.debian.directory="/usr/share/cargo/registry"'
mkdir -p "$dest"
cp "$source/target/$target/release/$program" "$dest/"
