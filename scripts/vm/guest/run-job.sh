#!/bin/bash
# Runs the job of the second disk and powers the machine off. See scripts/vm/run.sh for both disks.
echo 1 >/sys/devices/system/cpu/cpu1/online
mkdir -p /job /out
if [ -b /dev/vdd ]; then
  mkdir -p /var/lib/docker
  mount -t ext4 /dev/vdd /var/lib/docker
fi
uptime=$(cut -d ' ' -f 1 /proc/uptime)
echo "job: starts after $uptime s of uptime, kernel $(uname -r), $(uname -m)"
# Only small files are unpacked; a large one is read off the disk where it is needed (job_file NAME).
tar -x -f /dev/vdb -C /job --exclude '*.stream'
job_file() { tar -x -O -f /dev/vdb "$1"; }
export -f job_file
export OUT=/out
cd /job || exit 1
set -o pipefail
bash ./job.sh 2>&1 | tee /out/job.log
echo $? >/out/job.status
echo "$uptime $(cut -d ' ' -f 1 /proc/uptime)" >/out/job.uptime
journalctl -b --no-hostname -o short-monotonic >/out/journal.log 2>&1
tar -c -f /dev/vdc -C /out . && sync /dev/vdc
echo "job: done after $(cut -d ' ' -f 1 /proc/uptime) s of uptime"
systemctl poweroff --force --force
