#!/bin/sh
# Uses an installed crashcut, on a system that may have little else: use.sh EXAMPLES
# A save by a shell script and its fix are checked, a C program and its fix are run.
set -eu
examples=$1
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"

# expect CODE TEXT COMMAND...: the command ends with this exit code and prints this text.
expect() {
  expected=$1 text=$2 code=0
  shift 2
  "$@" > output 2>&1 || code=$?
  if [ "$code" != "$expected" ] || ! grep -qF "$text" output; then
    cat output
    echo "package: \"$*\" ended with $code, not with $expected and \"$text\"" >&2
    exit 1
  fi
  tail -n 1 output
}

echo 'echo new > notes.txt' > lossy.sh
echo 'echo new > t && sync t && mv t notes.txt && sync .' > safe.sh
case $(crashcut --version) in
  *0.*) ;;
  *) echo "package: crashcut has no version" >&2 && exit 1 ;;
esac
for kind in lossy:1:'violation (lost): a crash can leave notes.txt empty' safe:0:'verified: all 2 recoveries, none failed'; do
  name=${kind%%:*} rest=${kind#*:}
  expect "${rest%%:*}" "${rest#*:}" \
    crashcut check --setup 'echo old > notes.txt' --file notes.txt -- sh "$directory/$name.sh"
done
expect 1 'violation: recovery aborted (SIGABRT)' crashcut run "$examples/save_lossy.c"
expect 0 'verified: all 2 recoveries, none failed' crashcut run "$examples/save_safe.c"
echo "package: used"
