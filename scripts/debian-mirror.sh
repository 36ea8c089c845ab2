#!/usr/bin/env bash
# Prints the URI of the Debian mirror in this machine's apt configuration (DEBIAN_MIRROR overrides it).
set -euo pipefail
# shellcheck disable=SC2016 # the dollar signs are apt's
mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
  sed -n '/security/d; s/^main //p' | head -n 1)}
if [ -z "$mirror" ]; then
  echo "debian-mirror.sh: no mirror in this machine's apt sources; set DEBIAN_MIRROR=URI" >&2
  exit 1
fi
echo "$mirror"
