#!/usr/bin/env bash
# Builds one preset of CMakePresets.json, whole or some targets of it:
#   scripts/build.sh [release|clang|asan|tsan [target...]]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=${1:-release}
targets=("${@:2}")
echo "build: configuring and building ${targets[*]:-everything} of preset $preset in build/$preset"
cmake --preset "$preset" --log-level=WARNING
cmake --build --preset "$preset" ${targets:+--target "${targets[@]}"}
