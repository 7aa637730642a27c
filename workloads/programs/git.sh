#!/usr/bin/env bash
# git commit: a second commit. After a crash the branch must name the first or the second commit, git must be able to read
# all of that commit, and its index; then git fsck must find nothing wrong.
source "${BASH_SOURCE[0]%/*}/program.sh"

packages=(git)
variants=("git commit" "git commit, core.fsync=all")

describe_case() { :; }

export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org
export GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z'

set_up() {
  git init -q -b main .
  git config gc.auto 0
  [[ $1 != *core.fsync=all ]] || git config core.fsync all
  echo "$old_text" > notes.txt
  git add notes.txt
  git commit -q -m old
}

run() {
  echo "$new_text" > notes.txt
  git commit -q -a -m new
  say_saved
}

look() {
  local text
  if ! text=$(git show -s --format=%s HEAD 2>/dev/null); then what="no commit"; return; fi
  if ! git cat-file -p HEAD:notes.txt > /dev/null 2>&1; then what="commit without its files"; return; fi
  if ! git ls-files > /dev/null 2>&1; then what="index damaged"; return; fi
  if ! git fsck --full --no-progress > /dev/null 2>&1; then what="git fsck complains"; return; fi
  what=$text
}

main "$@"
