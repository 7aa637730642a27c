#!/usr/bin/env bash
# Installs the Debian packages that crashcut is built with, those that are missing and no others. Arguments are further
# packages to install: scripts/setup.sh nano joe
set -euo pipefail

packages=(
  g++ cmake ninja-build pkg-config clang    # g++ 12 builds it; clang 14 must be able to
  libfmt-dev libcli11-dev nlohmann-json3-dev libexpected-dev libboost-filesystem-dev
  libpmemobj-dev                            # programs with pools, which crashcut pmem --trap runs in tests
  libzydis-dev                              # instructions by which threads meet; crashcut pmem --trap
  clang-14 llvm-14-dev                      # the plugin of crashcut cc and crashcut cxx
  libfuse3-dev fuse3                        # the mounted front end
  libgtest-dev libbenchmark-dev liburing-dev libsqlite3-dev e2fsprogs xfsprogs btrfs-progs
  clang-format                              # scripts/format.sh
  libdw-dev                                 # names and source lines in reports
  gdb binutils                              # crashcut gdb; objcopy, objdump and nm in tests
  zsh fish groff-base                       # completions and the manual page are read by what they are for, in tests
  debootstrap python3-pytest                # the package is installed in a fresh Debian; python/crashcut_pytest.py
  chromium chromium-driver                  # the tests of pages; large, and they are skipped without
  libaio-dev python3                        # workloads/storage, scripts/programs.py
  qemu-utils                                # workloads/device/qcow2.sh
)
packages+=("$@")

fail() {
  echo "setup: $*" >&2
  exit 1
}

is_installed() {
  [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

for tool in apt-get dpkg-query; do
  command -v "$tool" >/dev/null || fail "this is not a Debian ($tool is missing). Install what these packages hold: ${packages[*]}"
done

missing=()
for package in "${packages[@]}"; do
  is_installed "$package" || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  echo "setup: nothing to install"
  exit 0
fi

as_root=(env)
if ((EUID != 0)); then
  command -v sudo >/dev/null || fail "not root and no sudo. As root, run: apt-get install ${missing[*]}"
  as_root=(sudo env)
fi

echo "setup: installing ${missing[*]}"
"${as_root[@]}" apt-get update -q || fail "apt-get update failed (no network, or no permission)"
"${as_root[@]}" DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}" ||
  fail "could not install ${missing[*]}"
echo "setup: done"
