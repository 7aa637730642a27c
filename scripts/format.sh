#!/usr/bin/env bash
# Brings every C and C++ file of the tree into the form of .clang-format; with --check it only names those that are not.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mode=(-i)
case ${1:-} in
  '') ;;
  --check) mode=(--dry-run --Werror) ;;
  *)
    echo "format: unknown option $1 (there is --check)" >&2
    exit 2
    ;;
esac

# Other versions break some lines elsewhere.
if ! clang-format --version 2>/dev/null | grep -q 'version 14\.'; then
  echo "format: there is no clang-format 14 (scripts/setup.sh installs Debian's)" >&2
  exit 77
fi

find . \( -name build -o -name .git \) -prune -o -type f \( -name '*.cc' -o -name '*.h' -o -name '*.c' -o -name '*.cpp' \) -print0 |
  xargs -0 clang-format "${mode[@]}"
