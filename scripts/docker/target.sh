#!/bin/sh
# target COMMAND…: runs COMMAND with the words ARCH, GNU, TRIPLET and MUSL in its arguments replaced by
# the target architecture's names, of Debian, of its compiler packages, of GNU and of musl. Used in the
# Dockerfile's build stages, where TARGETARCH is set.
set -eu
case $TARGETARCH in
amd64) gnu=x86-64-linux-gnu triplet=x86_64-linux-gnu musl=x86_64-linux-musl ;;
arm64) gnu=aarch64-linux-gnu triplet=aarch64-linux-gnu musl=aarch64-linux-musl ;;
*)
  echo "target: architecture '$TARGETARCH': must be amd64 or arm64" >&2
  exit 2
  ;;
esac
for word in "$@"; do
  shift
  word=$(printf '%s\n' "$word" | sed "s/\bARCH\b/$TARGETARCH/g; s/\bGNU\b/$gnu/g; s/\bTRIPLET\b/$triplet/g; s/\bMUSL\b/$musl/g")
  set -- "$@" "$word"
done
exec "$@"
