#!/usr/bin/env bash
# mg, a small Emacs: opens notes.txt, replaces its line, saves it (C-x C-s), leaves. It keeps a backup, notes.txt~.
source "${BASH_SOURCE[0]%/*}/program.sh"
source "$programs/terminal.sh"

packages=(mg tmux)
variants=("mg")
expected=(["mg"]="loses")

describe_case() {
  options=(--file notes.txt)
  backup=notes.txt~
}

run() {
  open_terminal mg -n notes.txt
  await "$old_text"
  type_keys C-k "$new_text" C-x C-s
  await 'Wrote '
  say_saved
  type_keys C-x C-c
  await_end
}

main "$@"
