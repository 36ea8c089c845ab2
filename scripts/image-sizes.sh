#!/usr/bin/env bash
# image-sizes.sh CACHE BASE NAME=IMAGE…: prints, as JSON, what the images of contenders weigh (docs/method.md):
#   {"base": {…}, "contenders": {NAME: {"image", "image_bytes": {…}, "image_layers": {…}}}}
# The base's layers are those that its image has; a layer is a contender's own if no other one named here has it.
# Compressed is each layer by gzip, as registries keep them; unpacked is what its files hold. Both are worked out from the
# layers, since what an engine says of sizes depends on its image store; they are kept in the folder CACHE by digest.
set -euo pipefail
shopt -s inherit_errexit
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/docker-lib.sh
. "$here/docker-lib.sh"
[ $# -ge 3 ] || usage_error "usage: image-sizes.sh CACHE BASE NAME=IMAGE…"
cache=$1 base=$2
shift 2
mkdir -p "$cache"

layers_of() { # IMAGE: digests of the uncompressed layers, one a line, from the base up
  docker image inspect --format '{{range .RootFS.Layers}}{{.}}{{"\n"}}{{end}}' "$1" | sed '/^$/d'
}

# The files of an archive's layers, of whatever images are in it.
archived_layers() { # FOLDER
  tr -d '[:space:]' <"$1/manifest.json" | grep -o '"Layers":\[[^]]*\]' | sed 's/.*\[//; s/\]$//' | tr -d '"' | tr , '\n' | sort -u
}

kept() { # DIGEST: its file in the cache: "COMPRESSED UNPACKED", in bytes
  echo "$cache/$1.sizes"
}

is_kept() { # DIGEST
  [ -s "$cache/$1.sizes" ]
}

# Docker's own store keeps layers as they are, containerd's as they came: compressed.
uncompress() { # FILE, which is replaced
  local magic
  magic=$(od -An -tx1 -N4 "$1" | tr -d ' ')
  case $magic in
  1f8b*) gzip -dc "$1" >"$1.plain" ;;
  28b52ffd)
    command -v zstd >/dev/null || die "a layer is compressed by zstd, which is missing: install it (on Debian: sudo apt-get install zstd)"
    zstd -dcq "$1" >"$1.plain"
    ;;
  *) return ;;
  esac
  mv "$1.plain" "$1"
}

# By what it holds a layer is known, whatever its file is called and compressed by.
weigh() { # FILE
  local digest compressed unpacked
  uncompress "$1"
  digest=sha256:$(sha256sum <"$1" | cut -d ' ' -f 1)
  if ! is_kept "$digest"; then
    compressed=$(gzip -n -c <"$1" | wc -c)
    unpacked=$(tar -x --to-stdout <"$1" | wc -c)
    echo "$compressed $unpacked" >"$cache/$digest.new.$$"
    mv "$cache/$digest.new.$$" "$(kept "$digest")"
  fi
}

# The first of an image's layers that is not in the cache; nothing if all are.
missing_layer() { # IMAGE
  local layers digest
  layers=$(layers_of "$1")
  for digest in $layers; do
    if ! is_kept "$digest"; then
      echo "$digest"
      return
    fi
  done
}

# Puts the sizes of an image's layers into the cache, where they are not there yet.
measure() { # IMAGE
  local work id missing files file
  missing=$(missing_layer "$1")
  [ -n "$missing" ] || return 0
  work=$(mktemp -d "$cache/work.XXXXXX")
  # by its ID: by a name without a tag all of that name would come
  id=$(docker image inspect --format '{{.Id}}' "$1")
  docker save "$id" | tar -x -C "$work"
  files=$(archived_layers "$work")
  for file in $files; do
    weigh "$work/$file"
  done
  rm -rf "$work"
  missing=$(missing_layer "$1")
  [ -z "$missing" ] || die "image '$1' was saved without its layer $missing: pull or build it again"
}

sum() { # compressed or unpacked, DIGEST…
  local which=$1 digest compressed unpacked file sum=0
  shift
  for digest in "$@"; do
    file=$(kept "$digest")
    read -r compressed unpacked <"$file"
    sum=$((sum + ${!which}))
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

# Substitutions stand by themselves: of one among a command's arguments a failure would go unnoticed.
text=$(layers_of "$base")
mapfile -t below <<<"$text"
compressed=$(sum compressed "${below[@]}")
unpacked=$(sum unpacked "${below[@]}")
json=$(printf '{"base": {"image": "%s", "unpacked": %s, "compressed": %s},\n "contenders": {' "$base" "$unpacked" "$compressed")
separator=
for pair in "$@"; do
  image=${pair#*=}
  text=$(layers_of "$image")
  mapfile -t all <<<"$text"
  above=("${all[@]:${#below[@]}}")
  # an image on another base has nothing in common with it
  [ "${all[*]:0:${#below[@]}}" = "${below[*]}" ] || above=("${all[@]}")
  own=()
  for digest in "${above[@]}"; do
    [ "$(grep -c " $digest\$" "$cache/all.$$")" -ne 1 ] || own+=("$digest")
  done
  compressed=$(sum compressed "${all[@]}")
  unpacked=$(sum unpacked "${all[@]}")
  compressed_above=$(sum compressed "${above[@]}")
  unpacked_above=$(sum unpacked "${above[@]}")
  compressed_own=$(sum compressed "${own[@]}")
  json+=$separator$(printf '\n  "%s": {"image": "%s",\n   "image_bytes": {"compressed": %s, "unpacked": %s, "compressed_above_base": %s, "unpacked_above_base": %s, "compressed_own_layers": %s},\n   "image_layers": {"all": %s, "above_base": %s, "own": %s}}' \
    "${pair%%=*}" "$image" "$compressed" "$unpacked" "$compressed_above" "$unpacked_above" "$compressed_own" \
    "${#all[@]}" "${#above[@]}" "${#own[@]}")
  separator=,
done
printf '%s}}\n' "$json"
