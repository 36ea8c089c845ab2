#!/usr/bin/env bash
# Boots a virtual machine with Debian 13, systemd and cgroup v2, runs one job in it, brings files back.
#   scripts/vm/run.sh [-o OUTDIR] [-t SECONDS] amd64|arm64 JOBSCRIPT [NAME=PATH …]
#     NAME=PATH  a file or folder the job finds as NAME in its working folder; a NAME that ends in
#                .stream stays on the disk, the job reads it with `job_file NAME`
#     -o OUTDIR  where the files that the job left in $OUT go (default BUILD/vm/ARCH/out, emptied first),
#                with console.log, job.log, job.uptime (seconds of uptime at its start and end), journal.log
#     -t SECONDS limit for the whole machine, default 900
# The job is a bash script that runs as root, two CPUs, 4 GB, no network. Docker is installed and not started:
# `systemctl start docker`. Exit status: the job's; 124 for a machine that had to be stopped, 125 if it
# never got to the end of its job. Emulation has its own faults: a kernel that panics or hangs before
# the job starts is booted once more, and OUTDIR/retries says so.
# The root disk is made at the first use (root needed) and kept under BUILD/vm/ARCH.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=${BUILD:-$here/../../build}

usage() {
  sed -n '3,4p' "$0" >&2
  exit 2
}
limit_s=900 out=
while getopts o:t: option; do
  case $option in
  o) out=$OPTARG ;;
  t) limit_s=$OPTARG ;;
  *) usage ;;
  esac
done
shift $((OPTIND - 1))
[ $# -ge 2 ] || usage
arch=$1 job=$2
shift 2
case $arch in
amd64) qemu=(qemu-system-x86_64 -cpu "max,la57=off") console=ttyS0 ;;
arm64) qemu=(qemu-system-aarch64 -machine virt -cpu "max,pauth-impdef=on") console=ttyAMA0 ;;
*) usage ;;
esac
disks=$build/vm/$arch
out=${out:-$disks/out}

# Everything that shapes the disk is in these files; a change of one makes a new one.
recipe=$(cat "$here/rootfs.sh" "$here"/guest/* | sha256sum)
if [ "$(cat "$disks/recipe" 2>/dev/null)" != "$recipe" ]; then
  "$here/rootfs.sh" "$arch" "$disks"
  echo "$recipe" >"$disks/recipe"
fi

rm -rf "$out"
mkdir -p "$out"
work=$(mktemp -d "$disks/run.XXXXXX")
trap 'rm -rf "$work"' EXIT
add() { # NAME PATH: appends a file or a folder to the job's disk under that name
  local path
  path=$(realpath "$2")
  tar -r -f "$work/job.tar" --owner=0 --group=0 -C "$(dirname "$path")" \
    --transform "flags=rh;s,^$(basename "$path" | sed 's/[].[*^$,\\]/\\&/g'),$1," "$(basename "$path")"
}
add job.sh "$job"
for file in "$@"; do
  add "${file%%=*}" "${file#*=}"
done

boot() {
  truncate -s 0 "$work/out.tar"
  truncate -s 2G "$work/out.tar"
  # TMPDIR: the root disk's changes go to a file there that QEMU has already unlinked
  TMPDIR=$work timeout --kill-after=5 "$limit_s" "${qemu[@]}" \
    -accel tcg,thread=multi,tb-size=512 -smp 2 -m 4096 -display none -monitor none -nic none -no-reboot \
    -chardev "stdio,id=console,signal=off,logfile=$out/console.log" -serial chardev:console \
    -kernel "$disks/vmlinuz" -initrd "$disks/initrd" \
    -append "console=$console quiet panic=-1 systemd.unit=job.service systemd.show_status=no mitigations=off" \
    -drive "file=$disks/root.img,format=raw,if=virtio,snapshot=on,cache=unsafe" \
    -drive "file=$work/job.tar,format=raw,if=virtio,readonly=on" \
    -drive "file=$work/out.tar,format=raw,if=virtio,cache=unsafe" </dev/null
}

status=0
boot || status=$?
if ! grep -q '^job: done' "$out/console.log" &&
  { grep -q 'Kernel panic' "$out/console.log" || ! grep -q '^job: starts' "$out/console.log"; }; then
  echo "run.sh: the emulated kernel panicked or hung; trying once more" >&2
  mv "$out/console.log" "$out/console.first.log"
  echo 1 >"$out/retries"
  status=0
  boot || status=$?
fi
tar -x -f "$work/out.tar" -C "$out" 2>/dev/null || true
if [ "$status" -ne 0 ]; then
  exit "$status"
fi
exit "$(cat "$out/job.status" 2>/dev/null || echo 125)"
