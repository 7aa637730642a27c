#!/usr/bin/env bash
# Mercurial: a second commit. After a crash hg recover undoes what was interrupted, as its manual says; then hg verify must
# find nothing wrong, and the tip is the first commit or the second.
source "${BASH_SOURCE[0]%/*}/program.sh"

packages=(mercurial)
variants=("hg commit")
expected=(["hg commit"]="loses")

describe_case() { :; }
export HGRCPATH=/dev/null HGUSER=a HGPLAIN=1

set_up() {
  hg init .
  echo "$old_text" > notes.txt
  hg add -q notes.txt
  hg commit -q -m old -d '0 0'
}

run() {
  echo "$new_text" > notes.txt
  hg commit -q -m new -d '0 0'
  say_saved
}

look() {
  local text
  [[ ! -e .hg/store/journal ]] || hg --config ui.timeout=5 -q recover > /dev/null 2>&1 || true
  if ! text=$(hg --config ui.timeout=5 log -r tip -T '{desc}' 2>&1); then what="hg log fails"; return; fi
  if ! hg --config ui.timeout=5 -q verify > /dev/null 2>&1; then what="hg verify complains"; return; fi
  what=${text:-no commit}
}

main "$@"
