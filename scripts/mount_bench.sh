#!/usr/bin/env bash
# Measures the mounted filesystem while it records, beside libfuse's passthrough example, which is built from the
# source that comes with Debian's libfuse3-dev into a directory outside this tree. Everything on one core, tmpfs behind
# both. The exit code is 0 where ours is at least as fast in every row, 77 where nothing can be mounted.
#   scripts/mount_bench.sh [--repeat N] [--core N]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
  echo "mount_bench: $*" >&2
  exit 1
}

if ((EUID != 0)) || [[ ! -w /dev/fuse ]]; then
  echo "mount_bench: SKIPPED, needs root and /dev/fuse"
  exit 77
fi

build=${CRASHCUT_BUILD:-build/release}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/crashcut/libfuse
passthrough=$cache/passthrough_ll
examples=/usr/share/doc/libfuse3-dev/examples

# Where documentation is not installed (containers): out of the package itself. Containers come without lists of packages
# too, or with old ones, which name versions that the mirrors no longer have.
unpack_examples() {
  (cd "$cache" && rm -f libfuse3-dev_*.deb && apt-get -q update && apt-get -q download libfuse3-dev &&
    dpkg-deb -x libfuse3-dev_*.deb package) >/dev/null || return 1
  examples=$cache/package$examples
}

if [[ ! -x $passthrough ]]; then
  echo "mount_bench: building libfuse's passthrough_ll in $cache"
  mkdir -p "$cache"
  [[ -e $examples/passthrough_ll.c ]] || unpack_examples || fail "libfuse's examples cannot be had (apt-get download libfuse3-dev)"
  read -ra flags <<<"$(pkg-config --cflags --libs fuse3)"
  gcc -O2 -D_FILE_OFFSET_BITS=64 -DHAVE_STRUCT_STAT_ST_ATIM "$examples/passthrough_ll.c" -o "$passthrough" "${flags[@]}"
fi

[[ -e $build/CMakeCache.txt ]] || cmake --preset release >/dev/null
cmake --build "$build" --target mount_bench mount_server >/dev/null
echo "mount_bench: $(uname -r), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg)"
exec "$build/mount_bench" "$build/tests/mount_server" "$passthrough" "$@"
