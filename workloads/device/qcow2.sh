#!/usr/bin/env bash
# qemu-io on a qcow2 image in a raw device, judged: qcow2.sh CRASHCUT [MODE...], where a mode is one of qemu-io's -t (none,
# writethrough, directsync, writeback, unsafe), or native: -t none with aio=native, which is libaio; all without one. The
# set-up makes the image and writes a cluster. The program overwrites it, writes another one and flushes. After a crash
# `qemu-img check` may find leaked clusters and nothing worse, and what was flushed is there.
# Prints a line a mode. Status 0: all but unsafe, which sends no flushes, are verified, and unsafe is not; 77: it cannot
# run here.
set -euo pipefail

image=driver=qcow2,file.driver=file,file.filename=device,file.locking=off
io() {
  local mode=$1 options=$image
  [[ $mode != native ]] || { mode=none; options+=,file.aio=native; }
  qemu-io -t "$mode" --image-opts "$options" "${@:2}" > /dev/null
}

set_up() {
  local made
  made=$(mktemp)
  qemu-img create -q -f qcow2 "$made" 4M
  dd if="$made" of=device conv=notrunc status=none
  rm "$made"
  io writethrough -c 'write -P 0x11 0 64k'
}
run() { io "$1" -c 'write -P 0x22 0 64k' -c 'write -P 0x33 1M 64k' -c flush; }
judge() {
  local status=0
  qemu-img check -q --image-opts "$image" > /dev/null 2>&1 || status=$?
  [[ $status == 0 || $status == 3 ]] || { echo "qemu-img check: status $status"; exit 1; }  # 3: leaked clusters
  grep -qx exit "$CRASHCUT_MARKS" || exit 0
  qemu-io -r --image-opts "$image" -c 'read -P 0x22 0 64k' -c 'read -P 0x33 1M 64k' | grep -q 'verification failed' || exit 0
  echo "what was flushed is lost"
  exit 1
}

case $1 in
  set_up | run | judge) "$@"; exit ;;
esac

crashcut=$(realpath "$1")
script=$(realpath "$0")
shift
command -v qemu-io > /dev/null && command -v qemu-img > /dev/null || { echo "skipped: no qemu-io (Debian: qemu-utils)"; exit 77; }
[[ -r /dev/fuse && -w /dev/fuse ]] || { echo "skipped: no access to /dev/fuse"; exit 77; }
[[ $# -gt 0 ]] || set -- none native writethrough directsync writeback unsafe
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
failed=0
for mode; do
  status=0
  (cd "$directory" && "$crashcut" check --device --device-size 8M --sector 4096 --max-recoveries 100 --out "$directory/$mode" --setup "$script set_up" \
    --check "$script judge" -- "$script" run "$mode") > "$directory/log" 2>&1 || status=$?
  echo "$mode: $(tail -1 "$directory/log")"
  expected=0
  [[ $mode != unsafe ]] || expected=1
  [[ $status == "$expected" ]] || { cat "$directory/log"; failed=1; }
done
exit "$failed"
