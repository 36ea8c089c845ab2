#!/bin/busybox sh
# shellcheck shell=dash
# First program of the kernel: loads the disk's driver, mounts the root and hands over to systemd.
b=/bin/busybox
for module in /*.ko; do
  $b insmod "$module" || echo "initrd: cannot load $module"
done
$b mount -t devtmpfs dev /dev
tries=0
while [ ! -b /dev/vda ] && [ $tries -lt 100 ]; do
  tries=$((tries + 1))
  $b sleep 0.1
done
$b mount -t ext4 -o rw,noatime /dev/vda /root || exec $b poweroff -f
$b mount --move /dev /root/dev
exec $b switch_root /root /usr/lib/systemd/systemd
