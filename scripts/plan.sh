#!/usr/bin/env bash
# plan.sh PLAN MEMBER: prints the value of a member that a plan has once, for scripts that run before there is a
# collector; lists come with commas. Prints nothing if it is null or not there.
set -euo pipefail
[ $# -eq 2 ] || {
  echo "usage: plan.sh PLAN MEMBER" >&2
  exit 2
}
tr -d '[:space:]' <"$1" |
  sed -n "s/.*[{,]\"$2\":\(\[[^]]*\]\|\"[^\"]*\"\|[^,}]*\).*/\1/p" | tr -d '[]"' | grep -vx null || true
