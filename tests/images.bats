#!/usr/bin/env bats
# docker-bake.hcl, which builds the images for all platforms, and docker-compose.yml, which runs them, say the
# same: as long as one has an image that the other has not, this fails.

bats_require_minimum_version 1.5.0

setup_file() {
  cd "$BATS_TEST_DIRNAME/.." || return
  export ROOT=$PWD
  unset VERSION REVISION REGISTRY PLATFORMS TAG_SUFFIX BASE_IMAGE BASE_DIGEST BUILD_IMAGE NPM_CONFIG_REGISTRY TURNMETER_CA_FILE
  unset COMPOSE_FILE COMPOSE_PROJECT_NAME
}

setup() {
  cd "$ROOT" || return
  docker buildx version >/dev/null 2>&1 || skip "no docker buildx here: 'make setup' installs it"
  docker compose version >/dev/null 2>&1 || skip "no docker compose here: 'make setup' installs it"
}

bake() { # what bake would build, as JSON
  docker buildx bake -f docker-bake.hcl --print "$@" 2>/dev/null
}

# NAME TARGET of each image, from either side, sorted
of_compose() {
  docker compose --env-file /dev/null -f docker-compose.yml --profile all config --format json |
    jq -r '.services[] | select(.build) | "\(.image) \(.build.target)"' | sort -u
}

of_bake() {
  bake | jq -r '.group.default.targets as $names | .group[$names[]].targets[] as $name | .target[$name]
    | "\(.tags[-1] | rtrimstr(":latest")) \(.target)"' | sort
}

@test "bake builds each image that a service of the compose file has, from the same stage, and no other" {
  local compose baked
  compose=$(of_compose)
  baked=$(of_bake)
  [ -n "$compose" ]
  diff <(echo "$compose") <(echo "$baked")
}

@test "bake and compose hand the same build arguments to the Dockerfile, with the same defaults" {
  local compose baked
  compose=$(docker compose --env-file /dev/null -f docker-compose.yml --profile all config --format json |
    jq -c '[.services[].build.args | select(.)] | unique')
  baked=$(bake | jq -c '[.target[].args] | unique')
  [ "$compose" = "$baked" ]
}

@test "each image is built for both platforms, with its version, revision and base as OCI labels" {
  local version
  version=$(cat VERSION)
  REVISION=0123456789abcdef0123456789abcdef01234567 BASE_DIGEST=sha256:00 bake | jq -e --arg version "$version" '
    .target | length > 0 and all(
      .platforms == ["linux/amd64", "linux/arm64"]
      and .labels["org.opencontainers.image.version"] == $version
      and .labels["org.opencontainers.image.revision"] == "0123456789abcdef0123456789abcdef01234567"
      and .labels["org.opencontainers.image.base.name"] == .args.BASE_IMAGE
      and .labels["org.opencontainers.image.base.digest"] == "sha256:00"
      and .labels["org.opencontainers.image.title"] == (.tags[0] | split(":")[0])
      and (.tags | index(.[0] | split(":")[0] + ":" + $version)))'
}

@test "what is not known makes no label" {
  bake | jq -e '.target | all(.labels | has("org.opencontainers.image.revision") or has("org.opencontainers.image.base.digest") | not)'
}

@test "a registry, a version, a base and a platform are taken from the environment" {
  REGISTRY=registry.example/you/ VERSION=9.9 BASE_IMAGE=mine:1 PLATFORMS=linux/arm64 TAG_SUFFIX=-arm64 bake | jq -e '
    .target | to_entries | all(
      .value.tags == ["registry.example/you/turnmeter-\(.key):9.9-arm64"]
      and .value.platforms == ["linux/arm64"]
      and .value.args.BASE_IMAGE == "mine:1" and .value.args.BUILD_IMAGE == "mine:1"
      and .value.labels["org.opencontainers.image.base.name"] == "mine:1")'
}

@test "docker buildx bake without options, which reads the compose file too, means the same images" {
  diff <(bake | jq -S '.target | map_values({target, tags, platforms, labels, args})') \
    <(docker buildx bake --print 2>/dev/null | jq -S '.target | map_values({target, tags, platforms, labels, args})')
}

@test "images.sh says what is wrong with its arguments" {
  run -2 scripts/images.sh sparc
  [ "$output" = "turnmeter: architecture 'sparc': must be amd64 or arm64" ]
  run -2 scripts/images.sh --nonsense
  [[ "$output" == *usage:* ]]
  run -2 scripts/images.sh --push
  [ "$output" = "turnmeter: --push needs REGISTRY=registry.example/you/" ]
  REGISTRY=registry.example run -2 scripts/images.sh --push
  [ "$output" = "turnmeter: REGISTRY=registry.example: must end with a slash" ]
}

# ---- images.sh with an engine and a builder that are a script: which of bake's two ways it takes

# fake DRIVER STORE REGISTRY: the builder's driver, how the engine keeps images, does a registry answer (0 or 1)
fake() {
  mkdir -p "$BATS_TEST_TMPDIR/bin"
  export DRIVER=$1 STORE=$2 ANSWERS=$3 CALLS=$BATS_TEST_TMPDIR/calls DOCKER_HOST=unix:///nowhere
  cat >"$BATS_TEST_TMPDIR/bin/docker" <<'END'
#!/usr/bin/env bash
case "$*" in
"compose version --short") echo 2.26.1 ;;
"version --format {{.Server.Arch}}") echo amd64 ;;
"buildx inspect") # in two parts, as the real one writes
  printf 'Name: b\nDriver: %s\n' "$DRIVER"
  sleep 0.1
  echo Nodes: || exit 1
  ;;
"info --format {{.DriverStatus}}") echo "$STORE" ;;
"buildx imagetools inspect debian:"*) exit "$ANSWERS" ;;
"buildx bake"*--print) echo '{"group": {"image": {"targets": ["one", "two"]}}}' ;;
"buildx bake"*) echo "$PLATFORMS${TAG_SUFFIX:-} ${*: -1}" >>"$CALLS" ;;
"buildx imagetools create"*) echo "${*:4}" >>"$CALLS" ;;
esac
END
  chmod +x "$BATS_TEST_TMPDIR/bin/docker"
}

images() {
  PATH=$BATS_TEST_TMPDIR/bin:$PATH VERSION=9 run -0 scripts/images.sh "$@"
  calls=$(cat "$CALLS")
}

@test "images of either platform come into the engine under names of their own, whatever builds them" {
  local driver store
  while read -r driver store; do
    rm -f "$BATS_TEST_TMPDIR/calls"
    fake "$driver" "$store" 0
    images
    [ "$calls" = $'linux/amd64-amd64 --load\nlinux/arm64-arm64 --load' ]
  done <<'END'
docker [[Backing Filesystem extfs]]
docker [[driver-type io.containerd.snapshotter.v1]]
docker-container [[Backing Filesystem extfs]]
END
}

@test "both platforms are pushed in one go where the builder keeps both, else joined" {
  export REGISTRY=r.example/
  fake docker-container '[[Backing Filesystem extfs]]' 0
  images --push
  [ "$calls" = 'linux/amd64,linux/arm64 --push' ]

  rm "$CALLS"
  fake docker '[[driver-type io.containerd.snapshotter.v1]]' 0
  images --push
  [ "$calls" = 'linux/amd64,linux/arm64 --push' ]

  rm "$CALLS"
  fake docker '[[Backing Filesystem extfs]]' 0
  images --push
  [ "$calls" = 'linux/amd64-amd64 --push
linux/arm64-arm64 --push
--tag r.example/turnmeter-one:9 --tag r.example/turnmeter-one:latest r.example/turnmeter-one:9-amd64 r.example/turnmeter-one:9-arm64
--tag r.example/turnmeter-two:9 --tag r.example/turnmeter-two:latest r.example/turnmeter-two:9-amd64 r.example/turnmeter-two:9-arm64' ]
}

@test "a builder beside the engine cannot see a base that is made here, which is said" {
  fake docker-container '[[Backing Filesystem extfs]]' 1
  PATH=$BATS_TEST_TMPDIR/bin:$PATH run -1 scripts/images.sh
  [[ "$output" == *"set BASE_IMAGE"* ]]
  [ ! -e "$CALLS" ]
}
