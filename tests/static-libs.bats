#!/usr/bin/env bats
# scripts/static-libs.sh and scripts/deps.sh with programs in the place of apt's and compilers: what is said and left
# when something fails, and what happens when two come at once. What they make for real is in native.bats.

bats_require_minimum_version 1.5.0

setup() {
  cd "$BATS_TEST_DIRNAME/.." || return
  fake=$BATS_TEST_TMPDIR/fake
  export SOURCES=$BATS_TEST_TMPDIR/sources # what is "fetched"
  export TMPDIR=$BATS_TEST_TMPDIR/tmp
  export PATH=$fake:$PATH CC=fake-cc HOST=
  out=$BATS_TEST_TMPDIR/out
  mkdir "$fake" "$SOURCES" "$TMPDIR"
  program dpkg-source autoreconf libtoolize fake-cc <<<'exit 0'
  program apt-cache <<<'echo "Version: 1"'
  program apt-get <<'END'
for word; do [ "$word" = source ] && found=yes; package=$word; done
[ "${found:-}" ] || exit 0
cp -r "$SOURCES/${package%=*}-1" .
END
  local name
  for name in jansson zlib curl; do
    source_of $name <<<'printf "lib libz.a install:\n\tmkdir -p out && touch %s/made\n" '"$SOURCES/$name-1"' >Makefile; mkdir -p src lib include
for dir in src lib include; do cp Makefile $dir; done'
  done
  mkdir -p "$SOURCES"/mbedtls-1/{library,include/mbedtls,include/psa}
  touch "$SOURCES"/mbedtls-1/library/x.a
  echo 'lib:' >"$SOURCES/mbedtls-1/Makefile"
}

teardown() {
  if [ -s "$BATS_TEST_TMPDIR/pid" ]; then kill "$(cat "$BATS_TEST_TMPDIR/pid")" 2>/dev/null || true; fi
}

program() { # NAME…, its text on stdin
  local name text
  text=$(cat)
  for name; do
    printf '#!/bin/sh\n%s\n' "$text" >"$fake/$name"
    chmod +x "$fake/$name"
  done
}

source_of() { # PACKAGE, its configure on stdin
  mkdir -p "$SOURCES/$1-1"
  { echo '#!/bin/sh' && cat; } >"$SOURCES/$1-1/configure"
  chmod +x "$SOURCES/$1-1/configure"
}

nothing_is_left() {
  [ -z "$(ls -A "$TMPDIR")" ]
  if [ -s "$BATS_TEST_TMPDIR/pid" ]; then # gone, or dead and not yet waited for by init
    ! grep '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$(cat "$BATS_TEST_TMPDIR/pid")/status" 2>/dev/null
  fi
}

@test "both variants are made, and nothing else is left" {
  local variant
  for variant in min full; do
    run -0 timeout 60 scripts/static-libs.sh $variant "$out/$variant"
    [ -z "$output" ]
    [ -e "$out/$variant/.made" ]
    nothing_is_left
  done
  [ "$(cat "$out/min/versions")" = "jansson 1" ]
  [ -e "$SOURCES/curl-1/made" ] && [ -e "$SOURCES/zlib-1/made" ]
}

@test "one of several that are built at once fails: its own message, the others end, nothing is left" {
  source_of jansson <<<'while [ ! -s '"$BATS_TEST_TMPDIR/pid"' ]; do sleep 0.02; done; echo "jansson: no"; exit 1'
  source_of zlib <<<'echo "zlib: going on"; sleep 300 & echo $! >'"$BATS_TEST_TMPDIR/pid"'; wait'
  run -1 timeout 60 scripts/static-libs.sh full "$out"
  echo "$output"
  [ "$output" = "jansson: no" ]
  [ ! -e "$out/.made" ]
  nothing_is_left
}

@test "told to end while it builds: nothing is left" {
  source_of jansson <<<'sleep 300 & echo $! >'"$BATS_TEST_TMPDIR/pid"'; wait'
  scripts/static-libs.sh min "$out" 3>&- &
  local script=$! status=0
  while [ ! -s "$BATS_TEST_TMPDIR/pid" ]; do
    kill -0 $script
    sleep 0.02
  done
  kill $script
  wait $script || status=$?
  [ $status -eq 143 ]
  nothing_is_left
}

@test "make -j looks for the packages of both variants once" {
  run -0 make -n -j4 BUILD="$BATS_TEST_TMPDIR/build" static-libs
  [ "$(grep -c 'deps.sh static' <<<"$output")" -eq 1 ]
  [ "$(grep -cE 'static-libs.sh (full|min) ' <<<"$output")" -eq 2 ]
}

@test "two that miss the same packages at once: the second waits and finds them" {
  mkdir "$BATS_TEST_TMPDIR/scripts"
  cp scripts/deps.sh "$BATS_TEST_TMPDIR/scripts"
  program id <<<'echo 0'
  program dpkg-query <<<'if [ -e '"$BATS_TEST_TMPDIR/installed"' ]; then echo install ok installed; fi'
  printf '#!/bin/sh\necho "$*" >>%s\nsleep 0.5\ntouch %s\n' "$BATS_TEST_TMPDIR/installs" "$BATS_TEST_TMPDIR/installed" \
    >"$BATS_TEST_TMPDIR/scripts/setup.sh"
  chmod +x "$BATS_TEST_TMPDIR/scripts/setup.sh"
  "$BATS_TEST_TMPDIR/scripts/deps.sh" static 3>&- &
  local first=$!
  "$BATS_TEST_TMPDIR/scripts/deps.sh" static
  wait $first
  [ "$(cat "$BATS_TEST_TMPDIR/installs")" = "dpkg-dev autoconf automake libtool" ]
}
