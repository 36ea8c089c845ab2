#!/usr/bin/env bash
# cpus.sh [DIR]: how this machine's CPUs are shared out for placement "split", as two shell assignments:
# the instrument (mock and collector) and the contender never share a core, hyperthreads included. With
# four cores or more the instrument gets two of them, else one; two CPUs of one core are split all the
# same, one CPU is shared. DIR stands in for /sys/devices/system/cpu.
set -euo pipefail
dir=${1:-/sys/devices/system/cpu}

expand() { # LIST, as "0-2,5"
  local part
  for part in ${1//,/ }; do
    seq "${part%-*}" "${part#*-}"
  done
}

join() {
  local IFS=,
  echo "$*"
}

# A core is named by the list of its threads.
declare -A threads_of=()
cores=() all=()
for cpu in $(expand "$(cat "$dir/online")"); do
  core=$(cat "$dir/cpu$cpu/topology/thread_siblings_list" 2>/dev/null || echo "$cpu")
  [ -n "${threads_of[$core]:-}" ] || cores+=("$core")
  threads_of[$core]+="$cpu "
  all+=("$cpu")
done

instrument=() contender=()
if [ ${#cores[@]} -eq 1 ]; then
  instrument=("${all[0]}")
  contender=("${all[@]:1}")
  [ ${#contender[@]} -gt 0 ] || contender=("${all[0]}")
else
  mine=1
  [ ${#cores[@]} -lt 4 ] || mine=2
  for core in "${cores[@]}"; do
    # shellcheck disable=SC2206 # a list of numbers
    if [ $mine -gt 0 ]; then
      instrument+=(${threads_of[$core]})
      mine=$((mine - 1))
    else
      contender+=(${threads_of[$core]})
    fi
  done
fi
echo "TURNMETER_CPUS_INSTRUMENT=$(join "${instrument[@]}")"
echo "TURNMETER_CPUS_CONTENDER=$(join "${contender[@]}")"
