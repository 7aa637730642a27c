#!/usr/bin/env bash
# Other people's suites inside the mount: stress-ng's filesystem stressors, fio with verification, git, the build of
# a real project. Each passes or fails by itself; the exit code is 0 if all passed, 77 where nothing can be mounted.
#   --long      minutes instead of seconds for each
#   --server P  the program that mounts (default: build/release/tests/mount_server)
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

server=build/release/tests/mount_server
seconds=1
while (($#)); do
  case $1 in
    --long) seconds=20 ;;
    --server) server=$2 && shift ;;
    *)
      echo "mount_suites: unknown option $1 (there are --long, --server P)" >&2
      exit 2
      ;;
  esac
  shift
done
server=$(realpath "$server") || exit 1

if ((EUID != 0)) || [[ ! -w /dev/fuse ]]; then
  echo "mount_suites: SKIPPED, needs root and /dev/fuse"
  exit 77
fi
if ! scripts/setup.sh stress-ng fio git make >/dev/null; then
  echo "mount_suites: SKIPPED, could not install stress-ng, fio, git and make"
  exit 77
fi

base=$(mktemp -d /tmp/crashcut_suites.XXXXXX)
mounted=$base/m
log=$base/log
mkdir "$mounted"
server_pid=
cleanup() {
  [[ $server_pid ]] && kill "$server_pid" 2>/dev/null && wait "$server_pid"
  mountpoint -q "$mounted" && umount -l "$mounted"
  rm -rf "$base"
}
trap cleanup EXIT

"$server" "$mounted" "$base/trace" >"$base/ready" 2>"$base/server.log" &
server_pid=$!
for _ in $(seq 100); do
  grep -q ready "$base/ready" && break
  sleep 0.1
done
grep -q ready "$base/ready" || {
  echo "mount_suites: FAILED, no mount: $(cat "$base/server.log")"
  exit 1
}

failed=0
# check NAME COMMAND...: runs it in a fresh directory of the mount.
check() {
  local name=$1 start=$SECONDS
  shift
  mkdir -p "$mounted/work"
  if (cd "$mounted/work" && "$@") >"$log" 2>&1 && kill -0 "$server_pid" 2>/dev/null; then
    echo "pass  $name ($((SECONDS - start)) s)"
  else
    echo "FAIL  $name"
    tail -n 15 "$log" | sed 's/^/      /'
    failed=$((failed + 1))
  fi
  rm -rf "$mounted/work"
}

# Stressors whose methods need what FUSE does not have (ioctls of ext4, fanotify marks, whiteouts) are not here.
stressors=(dentry dir fallocate flock getdent link lockofd msync rename seek symlink xattr)
((seconds > 1)) && stressors+=(access chdir chmod chown copy-file dirdeep dirmany dup fcntl filename fstat hdd iomix locka
  lockf mknod open sendfile splice sync-file touch utime)
stress() { stress-ng --temp-path . --verify --timeout "${seconds}s" --oomable "--$1" 1 --"$1"-ops $((seconds * 3000)); }
for stressor in "${stressors[@]}"; do
  check "stress-ng $stressor" stress "$stressor"
done

verify() { fio --name=job --directory=. --size="$((seconds * 2))M" --verify=crc32c --verify_fatal=1 --do_verify=1 "$@"; }
check "fio random writes, verified" verify --rw=randwrite --bs=4k --ioengine=psync
((seconds > 1)) && check "fio odd sizes, verified" verify --rw=randwrite --bsrange=512-64k --bs_unaligned=1 --ioengine=psync
check "fio direct, libaio, verified" verify --rw=randrw --bs=4k --ioengine=libaio --iodepth=8 --direct=1
check "fio io_uring, verified" verify --rw=randwrite --bs=4k --ioengine=io_uring --iodepth=8
check "fio mmap, verified" verify --rw=randwrite --bs=4k --ioengine=mmap
check "fio fsync, verified" verify --rw=randwrite --bs=4k --ioengine=psync --fsync=16

repository=$PWD
clone() {
  git clone -q --no-hardlinks "$repository" clone && cd clone && git fsck --full --strict && git status --porcelain |
    (! grep .) && git checkout -q -b other && echo x >>README.md && git -c user.name=x -c user.email=x@x commit -qam x && git gc -q && git fsck --full
}
check "git clone, fsck, commit, gc" clone

# A project of many small steps: configure writes and runs programs, make compiles and links, the result is run.
project() {
  cp -r "$repository"/{CMakeLists.txt,CMakePresets.json,cli,cmake,blocklayer,cxl,fusefs,include,inject,persist,pmem,recovery,scheduler,scripts,tests,workloads} . &&
    cmake -S . -B build -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS=-O0 -DCMAKE_C_FLAGS=-O0 >/dev/null &&
    cmake --build build --target "$1" -j2 && { [[ $1 != crashcut_persist ]] || ls build/persist/*.a; }
}
check "configure and build a part of this project" project crashcut_persist
((seconds > 1)) && check "build this project's filesystem" project filesystem_test

sleep 0.2
kill "$server_pid"
if wait "$server_pid"; then
  echo "pass  the server unmounts and finishes its trace"
else
  echo "FAIL  the server: $(cat "$base/server.log")"
  failed=$((failed + 1))
fi
server_pid=
((failed == 0)) && echo "mount_suites: all passed" || echo "mount_suites: $failed FAILED"
((failed == 0))
