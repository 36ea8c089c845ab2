#!/usr/bin/env bash
# Unpacks the headers and libraries that the C programs and their unit tests need for another
# architecture: what a cross compiler takes as --sysroot and QEMU's user mode as -L.
#   scripts/sysroot.sh arm64 DIR
# Nothing is installed and no foreign code runs. Does nothing when DIR was made by this same script.
set -euo pipefail
arch=${1:?architecture, as Debian names it} dir=${2:?folder to make}
here=$(cd "$(dirname "$0")" && pwd)
packages=(libc6-dev linux-libc-dev libmicrohttpd-dev libjansson-dev libcurl4-openssl-dev libmd-dev zlib1g-dev libcmocka-dev)

recipe=$(sha256sum <"$0")
if [ "$(cat "$dir/recipe" 2>/dev/null)" = "$recipe" ]; then
  exit
fi
mirror=$("$here/debian-mirror.sh")
rm -rf "$dir"
mkdir -p "$(dirname "$dir")"
mode=root
[ "$(id -u)" -eq 0 ] || mode=unshare
mmdebstrap --quiet --mode=$mode --variant=extract --architectures="$arch" \
  --aptopt='APT::Install-Recommends "false"' \
  --include="$(IFS=,; echo "${packages[*]}")" trixie "$dir" "deb $mirror trixie main"
# QEMU would take these for the machine's own
rm -rf "${dir:?}/dev"
# libc and base packages come with these links; a set without base-files has to make them
for name in lib bin sbin; do
  [ -e "$dir/$name" ] || ln -s "usr/$name" "$dir/$name"
done
echo "$recipe" >"$dir/recipe"
