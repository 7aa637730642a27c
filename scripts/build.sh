#!/usr/bin/env bash
# Builds one preset of CMakePresets.json: scripts/build.sh [release|clang|asan|tsan]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=${1:-release}
echo "build: configuring and building preset $preset in build/$preset"
cmake --preset "$preset" --log-level=WARNING
cmake --build --preset "$preset"
