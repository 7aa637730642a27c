#!/usr/bin/env bash
# jed: opens notes.txt, replaces its line, saves it (C-x C-s), leaves. It keeps a backup, notes.txt~.
source "${BASH_SOURCE[0]%/*}/program.sh"
source "$programs/terminal.sh"

packages=(jed tmux)
variants=("jed")
scratch=('.#*' '#*#')
expected=(["jed"]="loses")

describe_case() {
  options=(--file notes.txt)
  backup=notes.txt~
}

run() {
  open_terminal jed -n notes.txt -f emacs
  await "$old_text"
  type_keys C-k "$new_text" C-x C-s
  await 'Wrote 1 lines'
  say_saved
  type_keys C-x C-c
  await_end
}

main "$@"
