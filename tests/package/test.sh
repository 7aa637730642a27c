#!/usr/bin/env bash
# Makes the Debian package of a build and uses it: test.sh BUILD_DIRECTORY
# The short form unpacks it over this system's /usr in a mount namespace of its own. With CRASHCUT_LONG, apt installs it with what it
# depends on into a fresh Debian (debootstrap). Skips (77) without root, the tools, or, for the long form, the mirror.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$1
examples=$(cd "$here/../../workloads/examples" && pwd)
mirror=http://deb.debian.org/debian
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

skip() {
  echo "package: SKIPPED: $*"
  exit 77
}
fail() {
  echo "package: $*" >&2
  exit 1
}

for tool in cpack dpkg-deb dpkg-shlibdeps unshare; do
  command -v "$tool" > /dev/null || skip "there is no $tool"
done
(cd "$build" && cpack -G DEB -B "$work/made") > "$work/cpack.log" || fail "$(cat "$work/cpack.log")"
package=$(echo "$work"/made/crashcut_*.deb)

# field NAME WORD...: the field has the words.
field() {
  local value
  value=$(dpkg-deb -f "$package" "$1")
  for word in "${@:2}"; do
    [[ $value == *"$word"* ]] || fail "$1 does not name $word: $value"
  done
}
field Depends libc6 libdw1 libfuse3-3 libzydis
field Recommends clang-14 gdb fuse3 gcc
dpkg-deb -c "$package" > "$work/contents"
files=(bin/crashcut lib/crashcut/crashcut lib/crashcut/libcrashcut_runtime.so lib/libcrashcut.a include/crashcut.h
  include/crashcut_gtest.h share/man/man1/crashcut.1 share/bash-completion/completions/crashcut lib/pkgconfig/crashcut.pc
  lib/crashcut/cmake/crashcut-config.cmake share/doc/crashcut/copyright lib/python3/dist-packages/crashcut_pytest.py)
[ -e "$build/instrument/libcrashcut_pmem_plugin.so" ] && files+=(lib/crashcut/instrument/libcrashcut_pmem_plugin.so)
for file in "${files[@]}"; do
  grep -qE " \./usr/$file( ->.*)?$" "$work/contents" || fail "/usr/$file is not in the package"
done
echo "package: made, $(stat -c %s "$package") bytes"

((EUID == 0)) || skip "the package is made; only root can install it"
[ -w /dev/fuse ] || skip "the package is made; there is no /dev/fuse to use it with"
unshare -m true 2> /dev/null || skip "the package is made; there are no mount namespaces here to install it in"

if [ -z "${CRASHCUT_LONG:-}" ]; then
  dpkg-deb -x "$package" "$work/root"
  # shellcheck disable=SC2016  # the inner shell expands
  unshare -m --propagation private bash -c '
    mount -t overlay crashcut -o "lowerdir=$0/usr:/usr" /usr || exit 77
    [ "$(command -v crashcut)" = /usr/bin/crashcut ] && sh "$1" "$2"' "$work/root" "$here/use.sh" "$examples" || {
    code=$?
    ((code != 77)) || skip "the package is made; overlayfs cannot be mounted here"
    exit "$code"
  }
  exit 0
fi

command -v debootstrap > /dev/null || skip "there is no debootstrap"
wget -q --timeout=20 -O /dev/null "$mirror/dists/bookworm/Release" || skip "$mirror is not reached"
# shellcheck disable=SC2016  # the inner shell expands
# All that is mounted and started in there ends with the namespaces.
unshare -m -p -f --propagation private bash -euc '
  root=$0 package=$1 use=$2 examples=$3 mirror=$4
  debootstrap --variant=minbase bookworm "$root" "$mirror" > "$root.log" || { tail "$root.log"; exit 1; }
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  mkdir "$root/examples"
  cp "$examples"/*.c "$use" "$root/examples"
  cp "$package" "$root/crashcut.deb"
  in_root() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"; }
  in_root apt-get install -q -y --no-install-recommends gcc libc6-dev /crashcut.deb > "$root.log" || { tail "$root.log"; exit 1; }
  in_root apt-get install -q -y --simulate --install-recommends --reinstall /crashcut.deb > "$root.log" || { tail "$root.log"; exit 1; }
  in_root dpkg --verify crashcut
  in_root sh /examples/use.sh /examples
  in_root apt-get purge -q -y crashcut > "$root.log"
  ! [ -e "$root/usr/lib/crashcut" ] || { echo "package: a purge leaves /usr/lib/crashcut" >&2; exit 1; }
' "$work/debian" "$package" "$here/use.sh" "$examples" "$mirror"
echo "package: installed by apt in a fresh Debian, used and purged"
