#!/usr/bin/env bash
# What docs/ci.md says of containers: test.sh CRASHCUT
# run, threads, pmem and cxl work as a user without privileges where there is no /dev/fuse, and check says that it needs one.
# With the capabilities that Docker gives, and SYS_ADMIN, check works too. Skips (77) without root, who makes these surroundings.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
crashcut=$(realpath "$1")
skip() {
  echo "unprivileged: SKIPPED: $*"
  exit 77
}
((EUID == 0)) || skip "only root can hide /dev/fuse"
command -v setpriv > /dev/null || skip "there is no setpriv"
unshare -m true 2> /dev/null || skip "there are no mount namespaces here"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$here"/../installed/*.c "$here"/../../workloads/examples/save_*.c "$work"
chown -R nobody "$work"
chmod 755 "$work"

cat > "$work/use.sh" <<'END'
set -u
crashcut=$1
# expect CODE TEXT WORD...: crashcut with these words ends with this code and prints this text.
expect() {
  local expected=$1 text=$2 code=0
  shift 2
  "$crashcut" "$@" > output 2>&1 || code=$?
  if [ "$code" != "$expected" ] || ! grep -qF -- "$text" output; then
    cat output
    echo "unprivileged: crashcut $* ended with $code, not with $expected and \"$text\"" >&2
    exit 1
  fi
  echo "crashcut $*: exit code $code"
}
END
cat > "$work/user.sh" <<'END'
source ./use.sh
[ "$(id -u)" != 0 ] && ! [ -e /dev/fuse ] || { echo "unprivileged: /dev/fuse is still there, or this is root" >&2; exit 1; }
expect 0 'verified: all 2 recoveries, none failed' run save_safe.c
expect 1 'violation: recovery aborted' run save_lossy.c
expect 0 'verified for lock and thread calls and instrumented variables' threads counter.c locked
expect 1 'violation: data race between' threads counter.c
if [ -e "$(dirname "$crashcut")/instrument/libcrashcut_pmem_plugin.so" ]; then
  expect 0 'verified' pmem log.c flushed
  expect 1 'A flush of log+0x40' pmem log.c
  expect 0 'verified for all schedules' cxl --machines 2 --schedules all letter.c flushed
  expect 1 'violation: ' cxl --machines 2 --schedules all letter.c
fi
expect 2 'there is no /dev/fuse on this machine' check -- true
END
cat > "$work/container.sh" <<'END'
source ./use.sh
expect 0 'verified: all 2 recoveries, none failed' check --setup 'echo old > f' --file f -- sh -c 'echo new > t && sync t && mv t f && sync .'
expect 1 'violation (lost)' check --setup 'echo old > f' --file f -- sh -c 'echo new > f'
END

# shellcheck disable=SC2016  # the inner shell expands
unshare -m --propagation private bash -euc '
  mount -t tmpfs dev /dev
  for node in null:3 zero:5 full:7 random:8 urandom:9; do mknod -m 666 "/dev/${node%:*}" c 1 "${node#*:}"; done
  mkdir -m 1777 /dev/shm
  ln -s /proc/self/fd /dev/fd
  cd "$1"
  exec setpriv --reuid nobody --regid nogroup --clear-groups --bounding-set=-all --no-new-privs env HOME="$1" TMPDIR="$1" bash user.sh "$0"
' "$crashcut" "$work"

[ -w /dev/fuse ] || skip "the rest, for there is no /dev/fuse that can be opened"
# https://docs.docker.com/engine/containers/run/#runtime-privilege-and-linux-capabilities
docker=+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,+setpcap,+net_bind_service,+net_raw,+sys_chroot,+mknod,+audit_write,+setfcap
cd "$work"
setpriv --bounding-set="-all,$docker,+sys_admin" --inh-caps=-all bash container.sh "$crashcut"
echo "unprivileged: passed"
