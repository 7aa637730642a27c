#!/usr/bin/env bash
# ne, the nice editor: opens notes.txt, replaces its line, saves it (C-s), leaves (C-q).
source "${BASH_SOURCE[0]%/*}/program.sh"
source "$programs/terminal.sh"

packages=(ne tmux)
variants=("ne")
scratch=('#*' '.*')
expected=(["ne"]="loses")

run() {
  open_terminal ne --no-config notes.txt
  await "$old_text"
  type_keys C-y "$new_text" Enter C-s
  await 'Saved'
  say_saved
  type_keys C-q
  await_end
}

main "$@"
