#!/usr/bin/env bash
# Neovim without settings: opens notes.txt, replaces its line, saves it (:w), leaves (:q). 'nobackup writebackup' is its
# default; 'fsync' as its manual says is on. With 'backup' it keeps the old version as notes.txt~.
source "${BASH_SOURCE[0]%/*}/program.sh"
source "$programs/terminal.sh"

packages=(neovim tmux)
variants=("nvim" "nvim, backup")
scratch=('4913' '*.swp' '*.shada*')
expected=(["nvim"]="loses" ["nvim, backup"]="loses")

describe_case() {
  options=(--file notes.txt)
  backup=notes.txt~
}

run() {
  local settings='backupskip= backupdir=. noswapfile'
  [[ $1 == nvim ]] || settings+=" ${1#nvim, }"
  open_terminal nvim --clean -i NONE -c "set $settings" notes.txt
  await "$old_text"
  type_keys cc "$new_text" Escape :w Enter
  await '[0-9]B written'
  say_saved
  type_keys :q Enter
  await_end
}

main "$@"
