#!/usr/bin/env bash
# Makes what a virtual machine boots from: a kernel, a small initrd and a root disk with Debian 13,
# systemd, Docker and compose. Does nothing when they are there and were made by this same recipe.
#   scripts/vm/rootfs.sh amd64|arm64 DIR      writes DIR/vmlinuz, DIR/initrd, DIR/root.img
# Packages are unpacked, never installed: no maintainer script runs, so a foreign architecture costs
# no emulation and both are made in the same way. What those scripts would have left behind and a
# booting system needs (users, module dependencies, the machine's id) is written here.
# Needs root (files of the disk belong to root) and `scripts/deps.sh vm`. The mirror is the one of this
# machine's apt configuration, or DEBIAN_MIRROR; apt checks its signatures as always.
set -euo pipefail
arch=${1:?architecture: amd64 or arm64} out=${2:?folder to write to}
here=$(cd "$(dirname "$0")" && pwd)
# Debian's cloud kernel has ext4 and virtio-pci built in; all else that the initrd needs:
initrd_modules=(virtio_blk)
packages=(
  systemd-sysv dbus kmod apparmor linux-image-cloud-"$arch" busybox-static
  docker.io docker-cli docker-compose
  base-files base-passwd bash coreutils dash findutils grep libc-bin mount procps sed tar util-linux
  # shared libraries of the suite's programs and unit tests, for jobs without containers
  libcmocka0 libcurl4t64 libjansson4 libmd0 libmicrohttpd12t64
  bats curl jq
)
masked_units=(
  systemd-hwdb-update.service systemd-journal-catalog-update.service ldconfig.service kmod-static-nodes.service
  systemd-udevd.service systemd-udevd-control.socket systemd-udevd-kernel.socket systemd-udev-trigger.service systemd-udev-load-credentials.service
  systemd-modules-load.service modprobe@configfs.service modprobe@fuse.service
  dev-hugepages.mount dev-mqueue.mount run-lock.mount
  sys-kernel-debug.mount sys-kernel-tracing.mount sys-kernel-config.mount sys-fs-fuse-connections.mount
  proc-sys-fs-binfmt_misc.automount systemd-ask-password-console.path systemd-random-seed.service
  systemd-creds.socket systemd-initctl.socket systemd-hostnamed.socket systemd-logind.service
)

recipe=$(cat "$0" "$here"/guest/* | sha256sum)
if [ "$(cat "$out/recipe" 2>/dev/null)" = "$recipe" ]; then
  exit
fi
mkdir -p "$out"
work=$(mktemp -d "$out/rootfs.XXXXXX")
trap 'rm -rf "$work"' EXIT
root=$work/root

mirror=${DEBIAN_MIRROR:-$("$here"/../debian-mirror.sh)}
# Documentation and firmware descriptions are a third of what would be unpacked.
mmdebstrap --quiet --mode=root --variant=extract --architectures="$arch" \
  --aptopt='APT::Install-Recommends "false"' \
  --include="$(IFS=,; echo "${packages[*]}")" trixie "$root" "deb $mirror trixie main"
rm -rf "$root"/usr/share/{doc,man,locale,info,i18n} "$root"/usr/lib/linux-image-* \
  "$root"/usr/lib/udev/hwdb.d "$root"/usr/lib/*-linux-gnu/gconv

# ---- what maintainer scripts would have done
cp "$root/usr/share/base-passwd/passwd.master" "$root/etc/passwd"
cp "$root/usr/share/base-passwd/group.master" "$root/etc/group"
echo 'g docker - -' >"$root/usr/lib/sysusers.d/docker.conf" # docker.socket's group
tr -d - </proc/sys/kernel/random/uuid >"$root/etc/machine-id"
echo turnmeter-vm >"$root/etc/hostname"
printf '127.0.0.1 localhost turnmeter-vm\n::1 localhost\n' >"$root/etc/hosts"
: >"$root/etc/fstab"
: >"$root/etc/resolv.conf"
kernel=$(basename "$root"/usr/lib/modules/*)
depmod -b "$root" "$kernel"

rmdir "$root/var/run" "$root/var/lock"
ln -s /run "$root/var/run"
ln -s /run/lock "$root/var/lock"

# ---- the machine is for one job: no logins, no devices to find, nothing that costs time under emulation
for unit in "${masked_units[@]}"; do
  ln -s /dev/null "$root/etc/systemd/system/$unit"
done
install -D -m 644 "$here/guest/job.service" "$root/etc/systemd/system/job.service"
install -D -m 755 "$here/guest/run-job.sh" "$root/usr/local/sbin/run-job"
install -D -m 644 "$here/guest/daemon.json" "$root/etc/docker/daemon.json"

# ---- initrd: busybox loads the disk's driver and hands over
initrd=$work/initrd
mkdir -p "$initrd"/{bin,dev,proc,sys,root}
cp "$root/usr/bin/busybox" "$initrd/bin/"
install -m 755 "$here/guest/init.sh" "$initrd/init"
for module in "${initrd_modules[@]}"; do
  file=$(find "$root/usr/lib/modules/$kernel" -name "$module.ko*")
  case "$file" in
  *.xz) xz -dc "$file" >"$initrd/$module.ko" ;;
  *.ko) cp "$file" "$initrd/$module.ko" ;;
  *)
    echo "rootfs.sh: no usable module '$module' in $kernel: found '$file'" >&2
    exit 1
    ;;
  esac
done
(cd "$initrd" && find . | cpio --quiet -o -H newc | gzip -1) >"$work/initrd.gz"

mke2fs -q -t ext4 -O ^has_journal -m 0 -E lazy_itable_init=1,nodiscard -d "$root" "$work/root.img" 6G >/dev/null
cp "$root/boot/vmlinuz-$kernel" "$work/vmlinuz"
mv "$work/vmlinuz" "$out/vmlinuz"
mv "$work/initrd.gz" "$out/initrd"
mv "$work/root.img" "$out/root.img"
echo "$recipe" >"$out/recipe"
