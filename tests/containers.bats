#!/usr/bin/env bats
# The container run: what the compose file allows, what the scripts around it decide and say, and, where
# Docker may be used, one run from end to end. docs/security.md and docs/containers.md are what must hold.

bats_require_minimum_version 1.5.0

setup_file() {
  cd "$BATS_TEST_DIRNAME/.." || return
  export ROOT=$PWD
  # Settings of whoever runs the tests must not decide them.
  unset PLAN CONTENDERS SESSIONS SCENARIOS REPETITIONS CONTENDER RESUME BASE_IMAGE BUILD_IMAGE COMPOSE_FILE COMPOSE_PROJECT_NAME
  unset TURNMETER_MEMORY TURNMETER_RESULTS TURNMETER_CPUS_INSTRUMENT TURNMETER_CPUS_CONTENDER
  # A bare machine gets Docker as `make up` gives it.
  if ! docker compose version >/dev/null 2>&1 && [ "$(id -u)" -eq 0 ] && [ -e /etc/debian_version ]; then
    scripts/setup.sh >"$BATS_FILE_TMPDIR/setup.log" 2>&1 || return
  fi
  if docker compose version >/dev/null 2>&1; then
    docker compose --env-file /dev/null -f docker-compose.yml --profile all config --format json >"$BATS_FILE_TMPDIR/config.json"
  fi
}

setup() {
  cd "$ROOT" || return
  config=$BATS_FILE_TMPDIR/config.json
  unset PLAN CONTENDERS SESSIONS SCENARIOS REPETITIONS CONTENDER RESUME BASE_IMAGE BUILD_IMAGE
}

needs_compose() {
  [ -e "$config" ] || skip "no docker compose here: 'make setup' installs it"
}

# holds FILTER: the jq filter is true of the compose file
holds() {
  jq -e "$1" "$config" >/dev/null || {
    echo "not so: $1"
    return 1
  }
}

# A PATH with the programs that scripts need and no Docker, and a user who is not root.
plain_user() {
  local program
  export TMPDIR=$BATS_TEST_TMPDIR # who measures on this machine meanwhile is no matter
  mkdir -p "$BATS_TEST_TMPDIR/bin"
  for program in bash env dirname basename sed tail cat mktemp rm grep tr df timeout jq mkdir mv paste flock; do
    ln -sf "$(command -v "$program")" "$BATS_TEST_TMPDIR/bin/$program"
  done
  printf '#!/bin/sh\n[ "$1" = -un ] && echo someone || echo 1000\n' >"$BATS_TEST_TMPDIR/bin/id"
  chmod +x "$BATS_TEST_TMPDIR/bin/id"
}

# fake_docker CASES: a docker whose answers are the given lines of a shell "case" over its arguments
fake_docker() {
  printf '#!/bin/sh\ncase "$*" in\n%s\nesac\n' "$1" >"$BATS_TEST_TMPDIR/bin/docker"
  chmod +x "$BATS_TEST_TMPDIR/bin/docker"
}

# ---- the compose file

@test "the compose file is valid and has a service for each of the suite's contenders" {
  needs_compose
  local manifest name
  for manifest in configs/contenders/*.json; do
    name=$(jq -r .name "$manifest")
    jq -e --arg name "$name" --arg image "$(jq -r .image "$manifest")" '
      .services["agent-" + $name] | .image == $image
      and (.command | .[index("--name") + 1]) == $name' "$config" >/dev/null || {
      echo "$manifest has no fitting service"
      return 1
    }
  done
}

@test "all contenders have the same limits and rights" {
  needs_compose
  holds '[.services | to_entries[] | select(.key | startswith("agent-")) | .value
    | del(.image, .build, .command, .profiles)] | length >= 4 and (unique | length == 1)'
  holds '.services["agent-c"] | (.mem_limit | tonumber) > 0 and .mem_limit == .memswap_limit and .pids_limit > 0'
}

@test "agents and the mock are unprivileged and confined" {
  needs_compose
  holds '[.services | to_entries[] | select(.key != "collector") | .value] | all(
    .user == "1000:1000" and .read_only and .cap_drop == ["ALL"] and (has("cap_add") | not)
    and .security_opt == ["no-new-privileges:true"] and .pids_limit > 0)'
}

@test "the collector has the capabilities that docs/security.md gives it, and no other" {
  needs_compose
  holds '.services.collector | .user == "0:0" and .read_only and .cap_drop == ["ALL"]
    and .security_opt == ["no-new-privileges:true"]'
  documented=$(sed -n 's/^| capabilities |.*| \(.*\) |$/\1/p' docs/security.md | tr -d '` ' | tr , '\n' | sort | paste -sd,)
  [ -n "$documented" ]
  [ "$documented" = "$(jq -r '.services.collector.cap_add | sort | join(",")' "$config")" ]
}

@test "no container is privileged, has the Docker socket, a device, a port or a network with a way out" {
  needs_compose
  holds '[.services[]] | all(
    (.privileged // false | not) and (has("ports") | not) and (has("devices") | not) and (has("networks") | not)
    and (.network_mode == "none" or .network_mode == "service:mockllm"))'
  holds '[.services[].volumes[]? | .source // "" | select(test("docker"))] == []'
  holds '.networks // {} == {}'
}

@test "nothing runs inside the measured quota but the launcher: no health checks" {
  needs_compose
  holds '[.services[] | has("healthcheck")] | any | not'
}

@test "only the collector sees the machine's PIDs and cgroups; agents do not see the mock's control" {
  needs_compose
  holds '[.services | to_entries[] | select(.value.pid == "host" or .value.cgroup == "host"
    or ([.value.volumes[]?.source] | index("/sys/fs/cgroup"))) | .key] == ["collector"]'
  holds '[.services | to_entries[] | select([.value.volumes[]?.source] | index("control")) | .key]
    | sort == ["collector", "mockllm"]'
}

@test "contenders have CPUs of their own" {
  needs_compose
  holds '.services | .mockllm.cpuset == .collector.cpuset and .mockllm.cpuset != .["agent-c"].cpuset'
}

@test "settings reach the collector and the limits" {
  needs_compose
  run -0 env PLAN=configs/a.json CONTENDERS=c,node SESSIONS=1,50 REPETITIONS=2 TURNMETER_MEMORY=512m \
    docker compose --env-file /dev/null -f docker-compose.yml config --format json
  jq -e '(.services.collector.command | index("/opt/turnmeter/configs/a.json") and index("--contenders=c,node")
      and index("--sessions=1,50") and index("--repetitions=2"))
    and .services["agent-deno"].mem_limit == "536870912"' <<<"$output"
}

@test "a limit that replaces the plan's is the container's too" {
  needs_compose
  run -0 env MEMORY=512m CPU_QUOTA=0.5 docker compose config --format json
  jq -e '.services["agent-c"] | .mem_limit == "536870912" and .memswap_limit == "536870912" and .cpus == 0.5' <<<"$output"
  jq -e '.services.collector.command | index("--memory=512m") and index("--cpu-quota=0.5")' <<<"$output"
  run -0 env MEMORY=512m TURNMETER_MEMORY=1g docker compose config --format json
  jq -e '.services["agent-c"].mem_limit == "1073741824"' <<<"$output"
  local row
  for row in MEMORY=lots MEMORY=-1g CPU_QUOTA=half; do
    run -2 env "$row" scripts/up.sh
    [[ ${lines[-1]} == "turnmeter: ${row%=*}: must be a "*"${row#*=}'" ]]
  done
}

# ---- the Dockerfile

@test "final stages only copy, run as a numeric user, and there is no syntax line" {
  run -1 grep -i '^# *syntax' Dockerfile
  # instructions of each stage, those of the stages it stands on included
  awk '
    toupper($1) == "FROM" { stage = $NF; base = $2; body[stage] = body[base]; user[stage] = user[base]; next }
    /^[A-Z]+ / && stage { body[stage] = body[stage] " " $1; if ($1 == "USER") user[stage] = $2 }
    END {
      for (s in body)
        if (s ~ /^(mockllm|collector|agent.*)$/) {
          count++
          if (body[s] ~ / (RUN|ADD) ?/ || user[s] !~ /^[0-9]+:[0-9]+$/) { print s ":" body[s], user[s]; bad = 1 }
        }
      exit bad || count < 7
    }' Dockerfile
}

@test "target puts the architecture's names into a command" {
  run -0 env TARGETARCH=arm64 sh scripts/docker/target.sh echo libc6-dev:ARCH gcc-GNU TRIPLET-gcc /usr/lib/MUSL "two words" SEARCH
  [ "$output" = "libc6-dev:arm64 gcc-aarch64-linux-gnu aarch64-linux-gnu-gcc /usr/lib/aarch64-linux-musl two words SEARCH" ]
  run -2 env TARGETARCH=riscv64 sh scripts/docker/target.sh echo
}

# ---- CPUs

# topology SIBLINGS…: a stand-in for /sys/devices/system/cpu, one list of siblings a CPU
topology() {
  local cpu=0 list
  rm -rf "$BATS_TEST_TMPDIR/cpu"
  for list in "$@"; do
    mkdir -p "$BATS_TEST_TMPDIR/cpu/cpu$cpu/topology"
    echo "$list" >"$BATS_TEST_TMPDIR/cpu/cpu$cpu/topology/thread_siblings_list"
    cpu=$((cpu + 1))
  done
  echo "0-$((cpu - 1))" >"$BATS_TEST_TMPDIR/cpu/online"
}

@test "CPUs: instrument and contender never share a core" {
  while read -r instrument contender siblings; do
    # shellcheck disable=SC2086
    topology $siblings
    run -0 scripts/cpus.sh "$BATS_TEST_TMPDIR/cpu"
    echo "$siblings: $output"
    [ "$output" = "TURNMETER_CPUS_INSTRUMENT=$instrument"$'\n'"TURNMETER_CPUS_CONTENDER=$contender" ]
  done <<'TABLE'
0 0 0
0 1 0 1
0 1 0-1 0-1
0,2 1,3 0,2 1,3 0,2 1,3
0 1,2 0 1 2
0,1 2,3 0 1 2 3
0,4,1,5 2,6,3,7 0,4 1,5 2,6 3,7 0,4 1,5 2,6 3,7
TABLE
}

@test "CPUs: only those online count" {
  topology 0 1 2 3
  echo 0,3 >"$BATS_TEST_TMPDIR/cpu/online"
  run -0 scripts/cpus.sh "$BATS_TEST_TMPDIR/cpu"
  [ "$output" = "TURNMETER_CPUS_INSTRUMENT=0"$'\n'"TURNMETER_CPUS_CONTENDER=3" ]
}

# ---- a contender of one's own

manifest() {
  mkdir -p "$BATS_TEST_TMPDIR/mine"
  printf '%s\n' "$1" >"$BATS_TEST_TMPDIR/mine/mine.json"
}

@test "a manifest becomes a service with the limits of all others" {
  needs_compose
  manifest '{"name":"mine-1","title":"x","contract":1,"command":["{here}/a"],"image":"img:1"}'
  scripts/contender.sh "$BATS_TEST_TMPDIR/mine/mine.json" >"$BATS_TEST_TMPDIR/extra.yml"
  docker compose --env-file /dev/null -f docker-compose.yml -f "$BATS_TEST_TMPDIR/extra.yml" config --format json \
    >"$BATS_TEST_TMPDIR/all.json"
  config=$BATS_TEST_TMPDIR/all.json
  holds '.services as $s | ["agent-c", "agent-mine-1"] | map($s[.] | del(.image, .build, .command, .volumes)) | unique | length == 1'
  holds '.services["agent-mine-1"] | .build.args.CONTENDER_IMAGE == "img:1" and .build.target == "agent-other"
    and (.volumes[] | select(.target == "/opt/contender") | .read_only)'
  holds '.services.collector.volumes | map(.target) | index("/opt/contenders/mine-1.json")'
}

@test "a manifest that cannot be a service is refused with its file and field" {
  needs_compose
  while IFS='|' read -r text message; do
    manifest "$text"
    run -2 scripts/contender.sh "$BATS_TEST_TMPDIR/mine/mine.json"
    echo "$text: $output"
    [[ $output == *mine.json:*"$message"* ]]
    [ "${#lines[@]}" -eq 1 ]
  done <<'TABLE'
{"name":"Mine"}|name: must be lower-case letters
{"name":"../x"}|name: must be lower-case letters
{"name":7}|name: must be a string
{"title":"x"}|name: must be a string
not JSON|name: must be a string
{"name":"node"}|choose another
TABLE
  run -2 scripts/contender.sh "$BATS_TEST_TMPDIR/none.json"
  [[ $output == *"none.json: no such manifest" ]]
}

# ---- what images weigh

# images_of TABLE-ON-STDIN: a `docker` that knows the images "NAME STORE LAYER…", whose layers are archives of a file of
# random bytes and a link to it. STORE is how the archive of an image holds them: plain, gzip or zstd.
images_of() {
  local folder=$BATS_TEST_TMPDIR/images image store layers layer file
  mkdir "$BATS_TEST_TMPDIR/bin" "$folder"
  while read -r image store layers; do
    mkdir "$folder/$image.d"
    local list=()
    for layer in $layers; do
      if [ ! -e "$folder/$layer" ]; then
        mkdir "$folder/$layer.d"
        head -c $((RANDOM + 1)) /dev/urandom >"$folder/$layer.d/a file"
        ln "$folder/$layer.d/a file" "$folder/$layer.d/linked"
        ln -s nowhere "$folder/$layer.d/pointing"
        tar -c -C "$folder/$layer.d" . >"$folder/$layer"
      fi
      echo "sha256:$(sha256sum <"$folder/$layer" | cut -d ' ' -f 1)" >>"$folder/$image.layers"
      # named by what is in the file, as in an OCI layout, or by a folder each
      file=$layer/layer.tar
      [ "$store" = plain ] || file=blobs/sha256/$layer-$store
      mkdir -p "$folder/$image.d/${file%/*}"
      case $store in
      plain) cp "$folder/$layer" "$folder/$image.d/$file" ;;
      gzip) gzip -1 -c <"$folder/$layer" >"$folder/$image.d/$file" ;;
      zstd) zstd -q -c <"$folder/$layer" >"$folder/$image.d/$file" ;;
      esac
      list+=("$file")
    done
    printf '%s\n' "${list[@]}" | jq -R . | jq -s '[{Config: "x.json", RepoTags: ["x:latest"], Layers: .}]' >"$folder/$image.d/manifest.json"
    tar -c -C "$folder/$image.d" . >"$folder/id-$image.tar"
  done
  cat >"$BATS_TEST_TMPDIR/bin/docker" <<'FAKE'
#!/bin/sh
cd "$FAKE_IMAGES" || exit 1
for last; do :; done
[ -e "$last.layers" ] || [ -e "$last.tar" ] || exit 1
case "$*" in
*Id*) echo "id-$last" ;;
*Layers*) cat "$last.layers" ;;
*Size*) echo 4711 ;; # which depends on the store
save*) cat "$last.tar" ;;
esac
FAKE
  chmod +x "$BATS_TEST_TMPDIR/bin/docker"
  export FAKE_IMAGES=$folder PATH=$BATS_TEST_TMPDIR/bin:$PATH
}

# Bytes of layers: by gzip, and of their files.
packed() {
  local layer sum=0
  for layer in "$@"; do
    sum=$((sum + $(gzip -n -c <"$FAKE_IMAGES/$layer" | wc -c)))
  done
  echo $sum
}

unpacked() {
  local layer sum=0
  for layer in "$@"; do
    sum=$((sum + $(stat -c %s "$FAKE_IMAGES/$layer.d/a file")))
  done
  echo $sum
}

@test "sizes of images: all, above the base, and the layers that no other contender has; of any image store" {
  images_of <<'TABLE'
debian plain base
a plain base shared one
b gzip base shared two
foreign zstd other
bare gzip base shared
TABLE
  run -0 scripts/image-sizes.sh "$BATS_TEST_TMPDIR/cache" debian a=a a-again=a b=b mine=foreign bare=bare
  echo "$output"
  expected() { # NAME IMAGE "LAYERS" "ABOVE" "OWN"
    # shellcheck disable=SC2086 # lists of words
    jq -e --arg name "$1" --arg image "$2" --argjson all "$(packed $3)" --argjson unpacked "$(unpacked $3)" --argjson above "$(packed $4)" \
      --argjson unpacked_above "$(unpacked $4)" --argjson own "$(packed $5)" --argjson counts "[$(wc -w <<<"$3"), $(wc -w <<<"$4"), $(wc -w <<<"$5")]" '
      .contenders[$name] == {image: $image, image_bytes: {compressed: $all, unpacked: $unpacked, compressed_above_base: $above,
        unpacked_above_base: $unpacked_above, compressed_own_layers: $own},
        image_layers: {all: $counts[0], above_base: $counts[1], own: $counts[2]}}' <<<"$output"
  }
  expected a a "base shared one" "shared one" one
  expected a-again a "base shared one" "shared one" one
  expected b b "base shared two" "shared two" two
  expected mine foreign other other other
  # the program comes from a mounted folder: no layer is its own
  expected bare bare "base shared" shared ""
  jq -e --argjson base "$(packed base)" --argjson unpacked "$(unpacked base)" \
    '.base == {image: "debian", unpacked: $unpacked, compressed: $base}' <<<"$output"
  # what was measured is kept, and nothing else; from it the same is told again
  [ "$(find "$BATS_TEST_TMPDIR/cache" -type f | wc -l)" -eq 5 ]
  local before=$output
  rm "$FAKE_IMAGES"/*.tar
  run -0 scripts/image-sizes.sh "$BATS_TEST_TMPDIR/cache" debian a=a a-again=a b=b mine=foreign bare=bare
  [ "$output" = "$before" ]
  run -1 scripts/image-sizes.sh "$BATS_TEST_TMPDIR/cache" debian c=absent
  [[ $output == *"image 'absent' of 'c' is not here"* ]]
}

@test "sizes of images that cannot be had are a failure, and print nothing" {
  images_of <<'TABLE'
debian plain base
a plain base one
TABLE
  # a layer that the image names and its archive does not hold
  echo "sha256:$(sha256sum </dev/null | cut -d ' ' -f 1)" >>"$FAKE_IMAGES/a.layers"
  run -1 --separate-stderr scripts/image-sizes.sh "$BATS_TEST_TMPDIR/cache" debian a=a
  [ -z "$output" ]
  [[ $stderr == "turnmeter: image 'a' was saved without its layer sha256:e3b0c442"* && ${#stderr_lines[@]} -eq 1 ]]
  # an engine that goes away between two questions
  sed -i '$d' "$FAKE_IMAGES/a.layers"
  run -0 scripts/image-sizes.sh "$BATS_TEST_TMPDIR/cache" debian a=a
  local left asked
  sed -i '2i echo x >>"$FAKE_IMAGES/asked"; [ "$(wc -l <"$FAKE_IMAGES/asked")" -le "${ANSWERS:-99}" ] || exit 1' "$BATS_TEST_TMPDIR/bin/docker"
  run -0 scripts/image-sizes.sh "$BATS_TEST_TMPDIR/cache" debian a=a
  asked=$(wc -l <"$FAKE_IMAGES/asked")
  [ "$asked" -ge 5 ]
  for ((left = 0; left < asked; left++)); do
    rm -f "$FAKE_IMAGES/asked"
    ANSWERS=$left run --separate-stderr scripts/image-sizes.sh "$BATS_TEST_TMPDIR/cache" debian a=a
    echo "after $left answers: $status: $output"
    [ "$status" -ne 0 ]
    [ -z "$output" ]
  done
}

# ---- what make up says

@test "a plan that is not there or not below configs is refused before anything is done" {
  plain_user
  for plan in configs/none.json /etc/passwd configs/../VERSION; do
    PATH=$BATS_TEST_TMPDIR/bin PLAN=$plan run -2 scripts/up.sh
    echo "$output"
    [ "${#lines[@]}" -eq 1 ]
  done
}

@test "wrong settings and options are refused in one line before anything is done" {
  plain_user
  local row setting message
  while IFS='|' read -r setting message; do
    PATH=$BATS_TEST_TMPDIR/bin run -2 env "$setting" scripts/up.sh
    echo "$setting: $output"
    [[ $output == "turnmeter: $message"* && ${#lines[@]} -eq 1 ]]
  done <<'TABLE'
SESSIONS=1,x|SESSIONS: must be whole numbers from 1 on, separated by commas, is '1,x'
SESSIONS=1,,2|SESSIONS: must be whole numbers from 1 on, separated by commas, is '1,,2'
SESSIONS=0|SESSIONS: must be whole numbers from 1 on, separated by commas, is '0'
REPETITIONS=-1|REPETITIONS: must be whole numbers from 1 on, separated by commas, is '-1'
RESUME=none|RESUME: must name a folder below 'results' with a plan.json, is 'none'
SCENARIOS=quik|SCENARIOS: 'quik' is no scenario; there are: burst, long-history, one, quick, smoke
CONTENDER=none.json|CONTENDER: none.json: no such manifest
TABLE
  PATH=$BATS_TEST_TMPDIR/bin run -2 scripts/up.sh --image-only
  [[ $output == "turnmeter: usage: up.sh "* ]]
  PATH=$BATS_TEST_TMPDIR/bin run -0 scripts/up.sh --help
  [[ $output == "usage: up.sh "* ]]
}

@test "of two that measure on a machine the second is refused, and told who does" {
  plain_user
  local file=$BATS_TEST_TMPDIR/turnmeter.lock
  export BUILD=$BATS_TEST_TMPDIR
  exec {held}>"$file"
  flock "$held"
  # its holder is named while it lives, and only then
  echo "$$-$(sed 's/.*) //' /proc/$$/stat | cut -d' ' -f20) make up, plan configs/p.json" >&"$held"
  PATH=$BATS_TEST_TMPDIR/bin run -1 scripts/up.sh
  [ "$output" = "turnmeter: another run is measuring on this machine (make up, plan configs/p.json, process $$): wait for it, or interrupt it" ]
  local text
  for text in "$$-1 make up" "nonsense" "" "-"; do
    echo "$text" >"$file"
    PATH=$BATS_TEST_TMPDIR/bin run -1 scripts/up.sh
    [ "$output" = "turnmeter: another run is measuring on this machine: wait for it, or interrupt it" ]
  done
  exec {held}>&-
  # no file to wait at
  rm "$file"
  mkfifo "$file"
  PATH=$BATS_TEST_TMPDIR/bin run -1 scripts/up.sh
  [[ $output == "turnmeter: $file: must be a regular file"* ]]
}

@test "a results folder that may not be written to is told before building" {
  plain_user
  mkdir "$BATS_TEST_TMPDIR/disk"
  mount -t tmpfs -o ro tmpfs "$BATS_TEST_TMPDIR/disk" 2>/dev/null || skip "may not mount"
  PATH=$BATS_TEST_TMPDIR/bin TURNMETER_RESULTS=$BATS_TEST_TMPDIR/disk run -1 scripts/up.sh
  umount "$BATS_TEST_TMPDIR/disk"
  [[ $output == "turnmeter: results folder '$BATS_TEST_TMPDIR/disk' may not be written to"* ]]
}

@test "without Docker a user who is not root is told the exact command" {
  plain_user
  PATH=$BATS_TEST_TMPDIR/bin run -1 scripts/up.sh
  echo "$output"
  [ "${#lines[@]}" -eq 1 ]
  [[ $output == *"run 'sudo make setup'"* ]]
}

@test "an engine that is not running, not permitted or not fit: one line with the remedy" {
  plain_user
  while IFS='|' read -r cases message; do
    fake_docker "\"compose version\"*) echo 2.26.1;; \"buildx version\") ;; $cases"
    # the user's own engine: ours, if it runs, is not looked for
    PATH=$BATS_TEST_TMPDIR/bin DOCKER_HOST=unix:///nowhere run -1 scripts/up.sh
    echo "$cases: $output"
    [ "${#lines[@]}" -eq 1 ]
    [[ $output == *"$message"* ]]
  done <<'TABLE'
version*) echo permission denied >&2; exit 1;;|usermod -aG docker someone
version*) echo nobody there >&2; exit 1;;|DOCKER_HOST=unix:///nowhere: start it
info*) echo '[name=seccomp,profile=default name=rootless]';; *) ;;|the Docker engine is rootless
info*) echo '[name=userns]';; *) ;;|remaps users
TABLE
}

@test "too little room on the engine's disk is said before building" {
  plain_user
  fake_docker '"compose version"*) echo 2.26.1;; *SecurityOptions*) echo "[]";; "image inspect turnmeter-collector") exit 1;; *DockerRootDir*) echo /;; *) ;;'
  printf '#!/bin/sh\nprintf "Avail\\n120M\\n"\n' >"$BATS_TEST_TMPDIR/df"
  rm "$BATS_TEST_TMPDIR/bin/df"
  install -m 755 "$BATS_TEST_TMPDIR/df" "$BATS_TEST_TMPDIR/bin/df"
  PATH=$BATS_TEST_TMPDIR/bin run -1 scripts/up.sh
  echo "$output"
  [[ ${lines[-1]} == *"only 120 MiB free on the disk of /"* ]]
}

@test "setup and unsetup need root and say so" {
  plain_user
  PATH=$BATS_TEST_TMPDIR/bin run -1 scripts/setup.sh
  [[ $output == *"sudo make setup"* ]]
  PATH=$BATS_TEST_TMPDIR/bin run -1 scripts/setup.sh --undo
  [[ $output == *"sudo make unsetup"* ]]
}

# ---- from end to end

may_run() {
  scripts/engine.sh status >/dev/null || [ "$(id -u)" -eq 0 ] || skip "needs Docker, or root to install it"
}

# A results folder that its owner alone may enter, where we can make one.
foreign_results() {
  results=$BATS_TEST_TMPDIR/results
  mkdir "$results"
  if [ "$(id -u)" -eq 0 ]; then
    chown 1234:1234 "$results"
    chmod 700 "$results"
  fi
  owner=$(stat -c %u:%g "$results")
}

# results_hold CONTENDERS: one folder, all of it the owner's; every run of the contenders ok and under the
# limits asked. Whether the machine was quiet enough to be valid (exit 3) is not this test's matter.
results_hold() {
  [ "$(find "$results" -mindepth 1 -maxdepth 1 -type d | wc -l)" -eq 1 ]
  [ -z "$(find "$results" -printf '%U:%G\n' | grep -vx "$owner")" ]
  test -s "$(echo "$results"/*/report.html)"
  jq -es --argjson contenders "$1" '
    map(select(.warm_up | not)) | (map(.contender) | unique) == ($contenders | sort)
    and all(.outcome == "ok" and .mode == "container"
      and .limits.in_force.memory_bytes == .limits.asked.memory_bytes and .limits.in_force.cpus != null
      and ([.invalid_reasons[] | select(startswith("limit"))] == []))' "$results"/*/runs.jsonl || {
    cat "$results"/*/runs.jsonl
    return 1
  }
}

nothing_left() {
  local host
  host=$(scripts/engine.sh status)
  [ "$host" = default ] || export DOCKER_HOST=$host
  [ -z "$(docker ps -aq --filter label=com.docker.compose.project=turnmeter)" ]
  [ -z "$(docker volume ls -q --filter label=com.docker.compose.project=turnmeter)" ]
}

@test "make up plays the smoke plan: every run ok, results owned by the folder's owner, nothing left" {
  may_run
  foreign_results
  scripts/engine.sh status >/dev/null || touch "$BATS_FILE_TMPDIR/engine-is-ours"
  PLAN=configs/smoke.json TURNMETER_RESULTS=$results make -s up 3>&- || [ $? -eq 2 ] # make's, of any failure
  results_hold "$(jq -c .contenders configs/smoke.json)"
  jq -e '[.base_image.compressed, (.contenders[] | .artifact_bytes, .image_bytes.compressed, .image_bytes.compressed_own_layers)]
    | all(. > 0)' "$results"/*/environment.json
  jq -e '.contenders | [.node, .bun, .deno] | all(.beliefs.cpus >= 1)' "$results"/*/environment.json
  nothing_left
}

@test "a contender of one's own plays beside the yardstick, and both are gone afterwards" {
  host=$(scripts/engine.sh status) || skip "no Docker engine here"
  docker_host=()
  [ "$host" = default ] || docker_host=(DOCKER_HOST="$host")
  env "${docker_host[@]}" docker image inspect turnmeter-agent-c >/dev/null 2>&1 || skip "no images here"
  foreign_results
  manifest '{"name":"mine","title":"Mine","contract":1,"command":["{prefix}/bin/agent-c"],"version":["{prefix}/bin/agent-c","--version"],
    "environment":{},"tracks":{},"ship":["{prefix}/bin/agent-c","{here}/mine.json"],"image":"turnmeter-agent-c"}'
  chmod -R a+rX "$BATS_TEST_TMPDIR/mine"
  PLAN=configs/smoke.json CONTENDERS=floor SESSIONS=1 CONTENDER=$BATS_TEST_TMPDIR/mine/mine.json \
    TURNMETER_RESULTS=$results make -s up 3>&- || [ $? -eq 2 ]
  results_hold '["floor", "mine"]'
  nothing_left
  [ -z "$(docker ps -aq --filter name=turnmeter-)" ]
  docker image rm turnmeter-contender-mine >/dev/null
}

@test "the image from nothing but the static agent is that one program, which runs there" {
  host=$(scripts/engine.sh status) || skip "no Docker engine here"
  [ "$host" = default ] || export DOCKER_HOST=$host
  docker image inspect turnmeter-agent-c >/dev/null 2>&1 || skip "no images here"
  local base=debian:trixie-slim image=turnmeter-agent-c-scratch container
  docker image inspect $base >/dev/null 2>&1 || base=$(scripts/base-image.sh)
  DOCKER_BUILDKIT=1 docker build --quiet --network host --build-arg BASE_IMAGE="$base" --target agent-c-scratch --tag $image . >/dev/null
  run -0 docker run --rm --network none $image --version
  [[ $output == "agent-c $(cat VERSION), libcurl/"*mbedTLS* ]]
  container=$(docker create $image)
  # what the engine itself puts into containers is empty
  docker export "$container" | tar -tv | awk '$1 ~ /^-/ && $3 > 0 { print $6, $3 }' >"$BATS_TEST_TMPDIR/files"
  docker rm "$container" >/dev/null
  docker image rm $image >/dev/null
  cat "$BATS_TEST_TMPDIR/files"
  [ "$(wc -l <"$BATS_TEST_TMPDIR/files")" -eq 1 ]
  read -r name bytes <"$BATS_TEST_TMPDIR/files"
  [ "$name" = opt/turnmeter/bin/agent-c ] && [ "$bytes" -lt 1509950 ]
}

@test "docker compose up alone is a whole run; its exit code is the collector's" {
  [ -e "$BATS_FILE_TMPDIR/config.json" ] || docker compose version >/dev/null 2>&1 || skip "no docker compose here"
  host=$(scripts/engine.sh status) || skip "no Docker engine here"
  [ "$host" = default ] || export DOCKER_HOST=$host
  docker image inspect turnmeter-collector >/dev/null 2>&1 || skip "no images here"
  foreign_results
  export TURNMETER_RESULTS=$results TURNMETER_MEMORY=1g PLAN=configs/smoke.json CONTENDERS=c SESSIONS=2
  run docker compose -f docker-compose.yml up --no-build --exit-code-from collector mockllm agent-c collector 3>&-
  echo "$output"
  docker compose -f docker-compose.yml down --volumes >/dev/null 2>&1 3>&-
  [ "$status" -eq 0 ] || [ "$status" -eq 3 ]
  results_hold '["c"]'

  export CONTENDERS=nobody
  run -2 docker compose -f docker-compose.yml up --no-build --exit-code-from collector mockllm collector 3>&-
  echo "$output"
  [[ $output == *nobody* ]]
  docker compose -f docker-compose.yml down --volumes >/dev/null 2>&1 3>&-
}

@test "make down stops the engine that make up started" {
  [ -e "$BATS_FILE_TMPDIR/engine-is-ours" ] || skip "the engine was there before"
  # what the engine itself leaves mounted there is not the same every time
  touch /run/turnmeter-engine/exec/held
  mount --bind /proc/self/ns/net /run/turnmeter-engine/exec/held
  make -s down
  run -1 scripts/engine.sh status
  [ ! -e /run/turnmeter-engine ]
  run -1 grep -E ' /(run|var/lib)/turnmeter-engine' /proc/self/mountinfo
}
