#!/usr/bin/env bash
# micro: opens notes.txt, replaces its line, saves it (^S), leaves (^Q). Its own backups are in the home directory, not
# beside the file; it removes them when it has saved.
source "${BASH_SOURCE[0]%/*}/program.sh"
source "$programs/terminal.sh"

packages=(micro tmux)
variants=("micro")

run() {
  open_terminal micro notes.txt
  await "$old_text"
  type_keys C-k "$new_text" Enter C-s
  await 'Saved notes.txt'
  say_saved
  type_keys C-q
  await_end
}

main "$@"
