#!/usr/bin/env bash
# Installs a build into a directory of its own and uses it from there: test.sh BUILD_DIRECTORY
# Another project's test is built with find_package(crashcut), and the command judges the example and its fix.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" > "$work/install.log"
cmake -S "$here" -B "$work/notes" -G Ninja -DCMAKE_BUILD_TYPE=Debug \
  -DCMAKE_CXX_COMPILER="$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")" \
  -DCMAKE_PREFIX_PATH="$work/prefix" > "$work/configure.log"
cmake --build "$work/notes"
"$work/notes/notes_test"

for file in man/man1/crashcut.1 bash-completion/completions/crashcut zsh/vendor-completions/_crashcut \
  fish/vendor_completions.d/crashcut.fish; do
  if ! grep -q crashcut "$work/prefix/share/$file"; then
    echo "installed: share/$file is missing or empty" >&2
    exit 1
  fi
done

cp "$here"/../../workloads/examples/save_{lossy,safe}.c "$work"
cd "$work"
"$work/prefix/bin/crashcut" run save_safe.c
code=0
"$work/prefix/bin/crashcut" run save_lossy.c || code=$?
if [ "$code" != 1 ]; then
  echo "installed: save_lossy.c ended with $code, not with a violation" >&2
  exit 1
fi
