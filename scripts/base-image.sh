#!/usr/bin/env bash
# base-image.sh [ARCH]: makes the base image turnmeter/base:trixie-ARCH (amd64 or arm64; default this
# machine's) from the Debian mirror in this machine's apt configuration, for sites where no container
# registry answers. Prints the image's name; does nothing when the image is there.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/docker-lib.sh
. "$here/docker-lib.sh"

native=$(dpkg --print-architecture 2>/dev/null) || die "the base image is made with Debian's tools: set BASE_IMAGE to an image of Debian 13 instead"
arch=${1:-$native}
case $arch in
amd64 | arm64) ;;
*) usage_error "architecture '$arch': must be amd64 or arm64" ;;
esac
image=turnmeter/base:trixie-$arch

require_docker
if docker image inspect "$image" >/dev/null 2>&1; then
  echo "$image"
  exit
fi
if ! command -v mmdebstrap >/dev/null; then
  is_root || die "mmdebstrap is missing: run 'sudo apt-get install -y --no-install-recommends mmdebstrap'"
  "$here/setup.sh" mmdebstrap >&2
fi
mirror=$("$here/debian-mirror.sh")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# shellcheck disable=SC2016 # $1 is the hook's
slim='cd "$1/usr/share" && rm -rf man info locale lintian && find doc -type f ! -name copyright -delete'
# no fsync of each file, as in debian:trixie-slim
options=(--quiet --architectures="$arch" --dpkgopt=force-unsafe-io)
if [ "$arch" = "$native" ]; then
  options+=(--variant=minbase --customize-hook="$slim")
else
  # A foreign architecture is unpacked only, as its maintainer scripts would need emulation: what is
  # included and no more, so the essential packages as minbase has them.
  options+=(--variant=extract --extract-hook="$slim" --include='?essential' --include="apt,libc-bin")
fi
say "making the base image $image with mmdebstrap, Debian 13 (trixie), about half a minute" >&2
mmdebstrap "${options[@]}" trixie "$dir/base.tar" "$mirror" >&2 ||
  die "mmdebstrap could not make Debian 13 from the mirror $mirror"
if [ "$arch" = "$native" ]; then
  docker import --change 'CMD ["bash"]' "$dir/base.tar" "$image" >/dev/null
else
  # docker import labels a foreign architecture as the machine's own
  printf 'FROM scratch\nADD base.tar /\nCMD ["bash"]\n' >"$dir/Dockerfile"
  DOCKER_BUILDKIT=1 docker build --quiet --platform "linux/$arch" --tag "$image" "$dir" >/dev/null
fi
echo "$image"
