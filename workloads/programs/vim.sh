#!/usr/bin/env bash
# vim with its defaults: opens notes.txt, replaces its line, saves it (:w), leaves (:q). While it saves it keeps the old
# version as notes.txt~. With 'nofsync nowritebackup' it does neither, as some settings found on the net advise.
source "${BASH_SOURCE[0]%/*}/program.sh"
source "$programs/terminal.sh"

packages=(vim tmux)
variants=("vim" "vim, backupcopy=yes" "vim, nofsync nowritebackup")
scratch=('.notes.txt.sw?' '4913')

describe_case() {
  options=(--file notes.txt)
  [[ $1 == *nowritebackup ]] || backup=notes.txt~
}

run() {
  local settings='backupskip='  # it keeps no backup of what lies below /tmp, and the modelled disk may
  [[ $1 == vim ]] || settings+=" ${1#vim, }"
  open_terminal vim -u DEFAULTS -i NONE -c "set $settings" notes.txt
  await "$old_text"
  type_keys cc "$new_text" Escape :w Enter
  await '[0-9]B written'
  say_saved
  type_keys :q Enter
  await_end
}

main "$@"
