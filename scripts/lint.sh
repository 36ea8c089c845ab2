#!/usr/bin/env bash
# Formatting, static analysis and warnings of everything that git tracks; all findings are shown, exit 1 on any.
set -uo pipefail
build=${BUILD:-build}/lint
mkdir -p "$build"
status=0
fail() {
  echo "lint: $*" >&2
  status=1
}

mapfile -t sources < <(git ls-files '*.c')
mapfile -t c_files < <(git ls-files '*.c' '*.h')
mapfile -t scripts < <(git ls-files '*.sh' .ci/run)

clang-format --dry-run --Werror "${c_files[@]}" || fail "formatting: run clang-format -i on the files above"
shellcheck "${scripts[@]}" || fail "shellcheck"
printf '%s\n' "${sources[@]}" | xargs -P "$(nproc)" -n 4 sh -c \
  'clang-tidy --quiet "$@" -- -std=c17 -D_GNU_SOURCE -DTURNMETER_VERSION=\"0\" -I.' sh \
  2>"$build/clang-tidy.err" >"$build/clang-tidy.out" || {
  cat "$build/clang-tidy.out"
  grep -v 'warnings\? generated' "$build/clang-tidy.err" >&2
  fail "clang-tidy"
}
make -s static-libs || fail "libraries of the static agents"
for compiler in gcc clang; do
  make -s -j "$(nproc)" BUILD="$build/$compiler" CC="$compiler" WERROR=-Werror STATIC_LIBS="${BUILD:-build}/static-libs" all unit-programs || fail "$compiler -Werror"
done
exit "$status"
