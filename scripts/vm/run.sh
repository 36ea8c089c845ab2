#!/usr/bin/env bash
# Boots a virtual machine with Debian 13, systemd and cgroup v2, runs one job in it, brings files back.
#   scripts/vm/run.sh [-o OUTDIR] [-t SECONDS] [-d DISK] amd64|arm64 JOBSCRIPT [NAME=PATH …]
#     NAME=PATH  a file or folder the job finds as NAME in its working folder; a NAME that ends in
#                .stream stays on the disk, the job reads it with `job_file NAME`
#     -o OUTDIR  where the files that the job left in $OUT go (default BUILD/vm/ARCH/out, emptied first),
#                with console.log, job.log, job.uptime (seconds of uptime at its start and end), journal.log
#     -t SECONDS limit for the whole machine, default 900
#     -d DISK    ext4 image to be /var/lib/docker; it is not changed
# The job is a bash script that runs as root, two CPUs, 4 GB, no network. Docker is installed and not started:
# `systemctl start docker`. Exit status: the job's; 124 for a machine that had to be stopped, 125 if it
# never got to the end of its job. Emulation has its own faults: a kernel that panics, whose systemd gives up or
# hangs before the job starts (for VM_BOOT_S seconds, default 150), or whose clock ran away (a fifth and 20 s more
# passed inside than outside: time limits meant nothing), is booted once more, and OUTDIR/console.first.log is what
# it said.
# The root disk is made at the first use (root needed) and kept under BUILD/vm/ARCH.
# An example, unit tests of this machine's build on cgroup v2:
#   make unit-programs && scripts/vm/run.sh amd64 JOBSCRIPT unit=build/unit tests=tests
#   with the JOBSCRIPT: for t in unit/*/test_*; do "$t" || exit 1; done
set -euo pipefail

usage() {
  sed -n '3p' "$0" >&2
  exit 2
}

# Appends a file or a folder to the job's disk under a name.
add() { # NAME PATH
  local path
  path=$(realpath "$2")
  tar -r -f "$work/job.tar" --owner=0 --group=0 -C "$(dirname "$path")" \
    --transform "flags=rh;s,^$(basename "$path" | sed 's/[].[*^$,\\]/\\&/g'),$1," "$(basename "$path")"
}

# The rate of an x86 machine's counter is told, not left to be found out: see counter_khz.c.
counter_khz() {
  local program=$disks/counter_khz
  [ "$program" -nt "$here/counter_khz.c" ] || "${CC:-cc}" -O2 -o "$program" "$here/counter_khz.c"
  "$program"
}

boot() {
  local waited=0 started=$SECONDS drives=() append="quiet panic=-1 maxcpus=1 mitigations=off TERM=dumb systemd.unit=job.service systemd.show_status=no"
  truncate -s 0 "$work/out.tar"
  truncate -s 2G "$work/out.tar"
  drives+=(-drive "file=$disks/root.img,format=raw,if=virtio,snapshot=on,cache=unsafe")
  drives+=(-drive "file=$work/job.tar,format=raw,if=virtio,readonly=on")
  drives+=(-drive "file=$work/out.tar,format=raw,if=virtio,cache=unsafe")
  if [ -n "$docker_disk" ]; then
    drives+=(-drive "file=$docker_disk,format=raw,if=virtio,snapshot=on,cache=unsafe")
  fi
  # TMPDIR: what the machine writes to its disks goes to files there that QEMU has already unlinked
  TMPDIR=$work timeout --kill-after=5 "$limit_s" "${qemu[@]}" \
    -accel "tcg,thread=multi,tb-size=2048" -smp 2 -m 4096 -display none -monitor none -nic none -no-reboot \
    -chardev "stdio,id=console,signal=off,logfile=$out/console.log" -serial chardev:console \
    -kernel "$disks/vmlinuz" -initrd "$disks/initrd" -append "console=$console $append" \
    "${drives[@]}" </dev/null &
  machine=$!
  while kill -0 "$machine" 2>/dev/null; do
    sleep 1
    waited=$((waited + 1))
    grep -q 'job: starts' "$out/console.log" 2>/dev/null && continue
    if [ $waited -ge "${VM_BOOT_S:-150}" ] || grep -q 'Freezing execution' "$out/console.log" 2>/dev/null; then
      kill "$machine"
    fi
  done
  local status=0
  wait "$machine" || status=$?
  machine='' took=$((SECONDS - started))
  return $status
}

# shellcheck disable=SC2317 # called by the trap
clean() {
  [ -z "$machine" ] || kill "$machine" 2>/dev/null || true
  rm -rf "$work"
}

# What went wrong with the emulation, if anything; nothing is said of a job that failed by itself.
emulation_fault() {
  local uptime
  uptime=$(sed -n 's/.*job: done after \([0-9]*\).*/\1/p' "$out/console.log")
  if [ -n "$uptime" ]; then
    [ "$uptime" -le $((took * 6 / 5 + 20)) ] || echo "the machine's clock ran away: $uptime s inside, $took s outside"
  elif grep -q 'Kernel panic' "$out/console.log"; then
    echo "the emulated kernel panicked"
  elif ! grep -q 'job: starts' "$out/console.log"; then
    echo "the emulated machine hung before its job"
  fi
}

main() {
  here=$(cd "$(dirname "$0")" && pwd)
  local option file job fault status=0
  limit_s=900 out='' docker_disk='' machine='' took=0
  while getopts o:t:d: option; do
    case $option in
    o) out=$OPTARG ;;
    t) limit_s=$OPTARG ;;
    d) docker_disk=$OPTARG ;;
    *) usage ;;
    esac
  done
  shift $((OPTIND - 1))
  [ $# -ge 2 ] || usage
  arch=$1 job=$2
  shift 2
  case $arch in
  # Where the CPU says that its string instructions are fast, kernel and libraries copy and clear memory by them, which the
  # emulator does byte by byte: a quarter of its time.
  amd64) qemu=(qemu-system-x86_64 -cpu "max,la57=off,erms=off,fsrm=off") console="ttyS0 no_timer_check tsc=reliable" ;;
  # Signed return addresses, scalable vectors and a fifth level of page tables cost a third of the emulator's time.
  arm64) qemu=(qemu-system-aarch64 -machine virt -cpu "max,pauth=off,sve=off,lpa2=off") console=ttyAMA0 ;;
  *) usage ;;
  esac
  disks=$(realpath -m "${BUILD:-$here/../../build}/vm/$arch")
  out=${out:-$disks/out}
  "$here/rootfs.sh" "$arch" "$disks"
  [ "$arch" != amd64 ] || console+=" tsc_early_khz=$(counter_khz)"

  rm -rf "$out"
  mkdir -p "$out"
  work=$(mktemp -d "$disks/run.XXXXXX")
  trap clean EXIT
  add job.sh "$job"
  for file in "$@"; do
    add "${file%%=*}" "${file#*=}"
  done

  boot || status=$?
  fault=$(emulation_fault)
  if [ -n "$fault" ]; then
    echo "run.sh: $fault; trying once more" >&2
    mv "$out/console.log" "$out/console.first.log"
    status=0
    boot || status=$?
  fi
  tar -x -f "$work/out.tar" -C "$out" 2>/dev/null || true
  [ "$status" -ne 0 ] || status=$(cat "$out/job.status" 2>/dev/null || echo 125)
  exit "$status"
}

main "$@"
