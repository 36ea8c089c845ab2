#!/usr/bin/env bash
# contender.sh FILE: prints the compose file that adds the contender of manifest FILE (docs/contenders.md)
# to docker-compose.yml: the service agent-NAME, with everything as the other contenders have it, and the
# manifest where the collector reads it. Its files, the manifest's folder, stand read-only at
# /opt/contender ("{here}"); its image is the manifest's "image", or the base image. A Dockerfile beside
# the manifest builds that image first (as `make up CONTENDER=FILE` does).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/docker-lib.sh
. "$here/docker-lib.sh"

[ $# -eq 1 ] || usage_error "usage: contender.sh FILE"
command -v jq >/dev/null || die "jq is missing: CONTENDER needs it to read the manifest (on Debian: apt-get install jq)"
[ -f "$1" ] || usage_error "$1: no such manifest"
file=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
name=$(jq -er '.name | strings' "$file" 2>/dev/null) || usage_error "$1: name: must be a string in a JSON object"
[[ $name =~ ^[a-z0-9][a-z0-9-]{0,62}$ ]] || usage_error "$1: name: must be lower-case letters, digits and '-', is '$name'"
image=$(jq -r '.image // "" | strings' "$file")

config=$(cd "$here/.." && docker compose -f docker-compose.yml --profile all config --format json)
jq -e --arg name "agent-$name" '.services | has($name) | not' >/dev/null <<<"$config" ||
  usage_error "$1: name: '$name' is one of the suite's own contenders; choose another"
jq --arg name "$name" --arg file "$file" --arg folder "$(dirname "$file")" --arg image "$image" '
  .services["agent-c"] as $model
  | {services: {
      ("agent-" + $name): ($model
        | .image = "turnmeter-contender-" + $name
        | .build.target = "agent-other"
        | .build.args.CONTENDER_IMAGE = (if $image == "" then .build.args.BASE_IMAGE else $image end)
        | .command = ["--socket", "/run/turnmeter/collector.sock", "--name", $name,
            "--scratch", "/scratch", "--here", "/opt/contender"]
        | .volumes += [{type: "bind", source: $folder, target: "/opt/contender", read_only: true}]),
      collector: {volumes: [{type: "bind", source: $file, target: ("/opt/contenders/" + $name + ".json"), read_only: true}]}
    }}' <<<"$config"
