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
  # no row may name a scratch folder: it would be emptied
  local none=$BATS_TEST_TMPDIR/none row
  for row in "|--socket, --name and --scratch must be given" "--socket s --name n|--socket, --name and --scratch must be given" \
    "--socket= --name n --scratch $none|--socket, --name and --scratch must be given" \
    "--socket s --name n --scratch=|--socket, --name and --scratch must be given" \
    "--socket s --name= --scratch $none|--name: must be" "--socket s --name a/b --scratch $none|--name: must be" \
    "--socket s --name A --scratch $none|--name: must be" "--socket s --name $(printf 'x%.0s' {1..64}) --scratch $none|--name: must be" \
    "--socket $(printf 'x%.0s' {1..200}) --name n --scratch $none|--socket: must be shorter than 108" \
    "--socket s --name n --scratch $none/$(printf 'x%.0s' {1..4096})|--here and --scratch must be shorter" \
    "--socket s --name n --scratch $none x|no argument"; do
    read -ra arguments <<<"${row%%|*}"
    run -2 --separate-stderr "$launcher" "${arguments[@]}"
    [ -z "$output" ]
    [ "${#stderr_lines[@]}" -eq 1 ]
    [[ $stderr == "launcher: ${row#*|}"* ]] || {
      echo "$row: $stderr"
      return 1
    }
  done
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

@test "ended by a signal in a run, it ends the program and says nothing of it" {
  start
  talk is-signalled
  local status=0
  wait "$pid" || status=$?
  pid=
  [ "$status" -eq 143 ]
  [ -z "$(ls -A "$BATS_TEST_TMPDIR/scratch")" ]
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
