#!/usr/bin/env bash
# expect_verdict.sh verified|violation run|check CRASHCUT MODE PROGRAM FORM: crashcut must come to this verdict, in this
# journaling mode, on a storage program in this form. Skips (77) where there is no /dev/fuse.
set -euo pipefail

verdict=$1 front_end=$2 crashcut=$3 mode=$4 program=$5 form=$6
declare -A codes=([verified]=0 [violation]=1)

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
status=0
case $front_end in
  run) "$crashcut" run --data "$mode" "$program" "$form" || status=$? ;;
  check)
    if [[ ! -e /dev/fuse ]]; then
      echo "skipped: there is no /dev/fuse"
      exit 77
    fi
    "$crashcut" check --data "$mode" --out "$directory/out" --check "$(printf '%q ' "$program" "$form" recover)" \
      -- "$program" "$form" || status=$?
    ;;
esac
if ((status != codes[$verdict])); then
  echo "expected $verdict (${codes[$verdict]}), the exit code is $status" >&2
  exit 1
fi
