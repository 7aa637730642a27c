#!/usr/bin/env bash
# Installs what is missing, builds crashcut and passes its tests.
#   --long   a hundred times as many random cases
#   --clang  built by clang instead of g++
#   --asan   under the address and undefined-behaviour sanitizers
#   --tsan   under the thread sanitizer, which is told to let a mount's process start threads after it was forked
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

presets=()
for option in "$@"; do
  case $option in
    --long) export CRASHCUT_LONG=1 ;;
    --clang | --asan | --tsan) presets+=("${option#--}") ;;
    *)
      echo "test: unknown option $option (there are --long, --clang, --asan, --tsan)" >&2
      exit 2
      ;;
  esac
done

echo "== 1/3 packages"
scripts/setup.sh
for preset in "${presets[@]:-release}"; do
  echo "== 2/3 build, $preset"
  scripts/build.sh "$preset"
  echo "== 3/3 tests, $preset${CRASHCUT_LONG:+, long}"
  # Seconds a test: none comes near it, so one that reaches it hangs.
  if ! ctest --preset "$preset" --parallel "$(nproc)" --timeout "$((${CRASHCUT_LONG:+12 *} 600))"; then
    echo "test: FAILED with preset $preset" >&2
    exit 1
  fi
  echo "test: passed with preset $preset"
done
