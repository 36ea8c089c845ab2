#!/usr/bin/env bats
# The launcher against collectors that keep the run protocol and against peers that do not
# (tests/launcher_peer.py plays them). Needs the built tree ($BUILD, default build).

bats_require_minimum_version 1.5.0

setup() {
  cd "$BATS_TEST_DIRNAME/.." || return
  launcher=${BUILD:-build}/prefix/bin/launcher
  socket=$BATS_TEST_TMPDIR/s
  mkdir "$BATS_TEST_TMPDIR/scratch"
}

teardown() {
  if [ -n "${pid:-}" ] && kill -KILL "$pid" 2>/dev/null; then wait "$pid" || true; fi
}

start() {
  "$launcher" --socket "$socket" --name name --scratch "$BATS_TEST_TMPDIR/scratch" 3>&- &
  pid=$!
}

# ends SIGNAL STATUS: the launcher still lives, and the signal ends it so
ends() {
  local status=0
  kill -"$1" "$pid"
  wait "$pid" || status=$?
  pid=
  [ "$status" -eq "$2" ]
}

talk() {
  run -0 timeout 60 python3 tests/launcher_peer.py "$socket" "$1"
  [ "$output" = ok ]
}

@test "help, version, bad usage" {
  run -0 "$launcher" --help
  [[ $output == usage:* ]]
  run -0 "$launcher" --version
  [ "$output" = "launcher $(cat VERSION)" ]
  run -2 "$launcher"
  run -2 "$launcher" --socket s --name n
  run -2 "$launcher" --socket "$(printf 'x%.0s' {1..200})" --name n --scratch /tmp
  run -1 "$launcher" --socket s --name n --scratch /nonexistent
  [ "$output" = "launcher: cannot open the scratch folder '/nonexistent': No such file or directory" ]
}

@test "it runs one program at a time, from GO to its end" {
  start
  talk runs-a-program
  ends TERM 143
}

@test "it writes, opens and empties files" {
  start
  talk serves-files
  ends TERM 143
}

@test "a collector that vanishes ends the run; the launcher connects again" {
  start
  talk vanishes
  ends INT 130
}

@test "nonsense is refused or hung up on" {
  start
  talk talks-nonsense
  ends TERM 143
}

@test "with --once it ends when there is no collector, or no more" {
  run -1 "$launcher" --once --socket "$socket" --name name --scratch "$BATS_TEST_TMPDIR/scratch"
  [ "$output" = "launcher: cannot connect to '$socket': No such file or directory" ]
  start
  talk serves-files
  ends TERM 143
  # the socket's file is there, and nobody listens
  run -1 "$launcher" --once --socket "$socket" --name name --scratch "$BATS_TEST_TMPDIR/scratch"
  [ "$output" = "launcher: cannot connect to '$socket': Connection refused" ]
}
