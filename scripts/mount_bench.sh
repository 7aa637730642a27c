#!/usr/bin/env bash
# Measures the mounted filesystem while it records, beside libfuse's passthrough example, which is built from Debian's
# source package into a directory outside this tree. Everything on one core, tmpfs behind both.
#   scripts/mount_bench.sh [--repeat N] [--core N]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
  echo "mount_bench: $*" >&2
  exit 1
}

build=${CRASHCUT_BUILD:-build/release}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/crashcut/libfuse
passthrough=$cache/passthrough_ll

if [[ ! -x $passthrough ]]; then
  echo "mount_bench: building libfuse's passthrough_ll in $cache"
  mkdir -p "$cache/lists/partial" "$cache/source"
  # A list of its own: the machine's package sources stay as they are.
  printf 'deb-src http://deb.debian.org/debian bookworm main\n' >"$cache/sources.list"
  apt=(apt-get -q -o "Dir::Etc::sourcelist=$cache/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::Lists=$cache/lists")
  "${apt[@]}" update || fail "no network: libfuse's sources cannot be had"
  (cd "$cache/source" && "${apt[@]}" --download-only source fuse3) || fail "libfuse's sources cannot be had"
  tar -xf "$cache"/source/fuse3_*.orig.tar.* -C "$cache/source" --strip-components=1
  read -ra flags <<<"$(pkg-config --cflags --libs fuse3)"
  gcc -O2 -D_FILE_OFFSET_BITS=64 -DHAVE_STRUCT_STAT_ST_ATIM "$cache/source/example/passthrough_ll.c" -o "$passthrough" "${flags[@]}"
fi

cmake --build "$build" --target mount_bench mount_server >/dev/null
echo "mount_bench: $(uname -r), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg)"
exec "$build/mount_bench" "$build/tests/mount_server" "$passthrough" "$@"
