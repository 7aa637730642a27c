#!/usr/bin/env bash
# Installs what is missing, builds crashcut, and lets it judge a save routine that loses data, and its fix.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Runs crashcut on an example and insists on its exit code: 0 nothing found, 1 violation.
expect_verdict() {
  local expected=$1 example=$2 status=0
  echo "\$ build/release/crashcut run $example"
  build/release/crashcut run "$example" || status=$?
  if ((status != expected)); then
    echo "demo: exit code $status where $expected was expected" >&2
    exit 1
  fi
  echo
}

echo "== 1/4 packages"
scripts/setup.sh
echo "== 2/4 build"
scripts/build.sh release crashcut
echo "== 3/4 a save routine that loses data: crashcut must find it"
expect_verdict 1 workloads/examples/save_lossy.c
echo "== 4/4 its fix: crashcut must find nothing"
expect_verdict 0 workloads/examples/save_safe.c
echo "demo: the lossy one was caught, the fix holds"
