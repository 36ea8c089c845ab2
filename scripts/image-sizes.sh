#!/usr/bin/env bash
# image-sizes.sh CACHE BASE NAME=IMAGE…: prints, as JSON, what the images of contenders weigh (docs/method.md):
#   {"base": {…}, "contenders": {NAME: {"image", "image_bytes": {…}, "image_layers": {…}}}}
# The base's layers are those that its image has; a layer is a contender's own if no other one named here has it.
# Compressed is each layer by gzip, as registries keep them; that is kept in the folder CACHE by the layer's digest.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/docker-lib.sh
. "$here/docker-lib.sh"
[ $# -ge 3 ] || usage_error "usage: image-sizes.sh CACHE BASE NAME=IMAGE…"
cache=$1 base=$2
shift 2
mkdir -p "$cache"

layers_of() { # IMAGE: digests, one a line, from the base up
  docker image inspect --format '{{range .RootFS.Layers}}{{.}}{{"\n"}}{{end}}' "$1" | sed '/^$/d'
}

unpacked() { # IMAGE: bytes, as `docker images` says
  docker image inspect --format '{{.Size}}' "$1"
}

# The files of an archive's layers, in the order of the image's.
archived_layers() { # FOLDER
  [ "$(grep -o '"Layers"' "$1/manifest.json" | wc -l)" -eq 1 ] || die "an archive of one image holds several"
  tr -d '[:space:]' <"$1/manifest.json" | sed 's/.*"Layers":\[\([^]]*\)\].*/\1/' | tr -d '"' | tr , '\n'
}

kept() { # DIGEST: its file in the cache
  echo "$cache/$1.gzip"
}

compress() { # FILE DIGEST: into the cache
  gzip -n -c <"$1" | wc -c >"$cache/$2.new.$$"
  mv "$cache/$2.new.$$" "$(kept "$2")"
}

# Puts the compressed sizes of an image's layers into the cache, where they are not there yet.
measure() { # IMAGE
  local work digest file left=0
  while read -r digest; do
    [ -s "$(kept "$digest")" ] || left=$((left + 1))
  done < <(layers_of "$1")
  [ "$left" -gt 0 ] || return 0
  work=$(mktemp -d "$cache/work.XXXXXX")
  # by its ID: by a name without a tag all of that name would come
  docker save "$(docker image inspect --format '{{.Id}}' "$1")" | tar -x -C "$work"
  archived_layers "$work" >"$work/files"
  while read -r digest file; do
    [ -s "$(kept "$digest")" ] || compress "$work/$file" "$digest"
  done < <(layers_of "$1" | paste -d ' ' - "$work/files")
  rm -rf "$work"
}

compressed() { # of the layers on stdin
  local digest sum=0
  while read -r digest; do
    sum=$((sum + $(cat "$(kept "$digest")")))
  done
  echo "$sum"
}

for pair in "$@"; do
  docker image inspect "${pair#*=}" >/dev/null 2>&1 || die "image '${pair#*=}' of '${pair%%=*}' is not here: build it first (make images-for-this-machine)"
  layers_of "${pair#*=}" | sed "s/^/${pair#*=} /"
done | sort -u >"$cache/all.$$"
trap 'rm -rf "$cache/all.$$" "$cache"/work.* "$cache"/*.new.*' EXIT

# One after the other, so that layers that they share are compressed once.
measure "$base"
for pair in "$@"; do
  measure "${pair#*=}"
done

mapfile -t below < <(layers_of "$base")
printf '{"base": {"image": "%s", "unpacked": %s, "compressed": %s},\n "contenders": {' "$base" "$(unpacked "$base")" \
  "$(layers_of "$base" | compressed)"
separator=
for pair in "$@"; do
  image=${pair#*=}
  mapfile -t all < <(layers_of "$image")
  above=("${all[@]:${#below[@]}}")
  # an image on another base has nothing in common with it
  if [ "${all[*]:0:${#below[@]}}" = "${below[*]}" ]; then
    unpacked_above=$(($(unpacked "$image") - $(unpacked "$base")))
  else
    above=("${all[@]}")
    unpacked_above=$(unpacked "$image")
  fi
  own=()
  for digest in "${above[@]}"; do
    [ "$(grep -c " $digest\$" "$cache/all.$$")" -ne 1 ] || own+=("$digest")
  done
  printf '%s\n  "%s": {"image": "%s",\n   "image_bytes": {"compressed": %s, "unpacked": %s, "compressed_above_base": %s, "unpacked_above_base": %s, "compressed_own_layers": %s},\n   "image_layers": {"all": %s, "above_base": %s, "own": %s}}' \
    "$separator" "${pair%%=*}" "$image" "$(printf '%s\n' "${all[@]}" | compressed)" "$(unpacked "$image")" \
    "$(printf '%s\n' "${above[@]}" | compressed)" "$unpacked_above" "$({ [ ${#own[@]} -eq 0 ] || printf '%s\n' "${own[@]}"; } | compressed)" \
    "${#all[@]}" "${#above[@]}" "${#own[@]}"
  separator=,
done
printf '}}\n'
