#!/usr/bin/env bash
# The fixture of python/crashcut_pytest.py, in a small project: test.sh CRASHCUT
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
crashcut=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

skip() {
  echo "pytest: SKIPPED: $*"
  exit 77
}
fail() {
  cat "$work/out"
  echo "pytest: $*" >&2
  exit 1
}
/usr/bin/python3 -c 'import pytest' 2> /dev/null || skip "there is no pytest (scripts/setup.sh installs Debian's)"
[ -w /dev/fuse ] || skip "there is no /dev/fuse that can be opened"

cp "$here"/*.py "$work"
code=0
(cd "$work" && PYTHONPATH=$here/../../python /usr/bin/python3 -m pytest -rA -v --crashcut="$crashcut" --basetemp "$work/tmp" > out 2>&1) || code=$?
# expect LINE...: the output has these lines, blanks counted as one.
expect() {
  for line in "$@"; do
    grep -qF "$line" <(tr -s " " < "$work/out") || fail "there is no \"$line\""
  done
}
((code == 1)) || fail "exit code $code, not 1"
expect "PASSED test_notes.py::test_rename_is_safe" "PASSED test_notes.py::test_function_of_the_test_itself" \
  "PASSED test_notes.py::test_several_checks_in_one_test" "PASSED test_notes.py::test_lambda_is_refused" \
  "3 failed, 4 passed, 1 skipped"
# The report is the message.
expect "violation (lost): a crash can leave notes.txt empty: truncate(notes.txt, 0) had persisted" \
  "FAILED test_notes.py::test_in_place_is_lost" "FAILED test_notes.py::test_without_fsync_is_lost" \
  "yes 11 python3: rename(notes.tmp, notes.txt)"
expect "bounded (max_recoveries): 1 recovery, none failed"
# A function that fails is no violation.
expect "FAILED test_notes.py::test_function_that_fails_has_no_verdict" "E crashcut_pytest.CrashcutFailed: " "ValueError: no disk"
echo "pytest: passed"
