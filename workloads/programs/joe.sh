#!/usr/bin/env bash
# joe: opens notes.txt, replaces its line, saves it (^K D), leaves (^K X). By default it keeps a backup, notes.txt~.
source "${BASH_SOURCE[0]%/*}/program.sh"
source "$programs/terminal.sh"

packages=(joe tmux)
variants=("joe" "joe -nobackups")
scratch=('.#*')

describe_case() {
  options=(--file notes.txt)
  [[ $1 != "joe" ]] || backup=notes.txt~
}

run() {
  # shellcheck disable=SC2086
  open_terminal $1 notes.txt
  await "$old_text"
  type_keys C-y "$new_text" Enter C-k d
  await 'Name of file to save'
  type_keys Enter
  await 'File notes.txt saved'
  say_saved
  type_keys C-k q
  await_end
}

main "$@"
