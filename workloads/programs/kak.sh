#!/usr/bin/env bash
# Kakoune without settings: opens notes.txt, replaces its line, saves it (:write), leaves (:quit). It writes in place by
# default; with writemethod=replace it writes a temporary file, fsyncs it unless told otherwise, and renames it.
source "${BASH_SOURCE[0]%/*}/program.sh"
source "$programs/terminal.sh"

packages=(kakoune tmux)
variants=("kak" "kak, writemethod=replace")
expected=(["kak"]="loses" ["kak, writemethod=replace"]="atomic")

run() {
  local method=overwrite
  [[ $1 == kak ]] || method=${1#*=}
  # Its sessions are files below TMPDIR, by process number: each run has its own place for them.
  open_terminal sh -c 'TMPDIR=$HOME exec kak "$@"' kak -n -e "set-option global writemethod $method" notes.txt
  await "$old_text"
  type_keys '%' s old Enter '|' 'echo new' Enter
  await "^$new_text"
  type_keys ':write -sync; info %sh{printf wr%s itten}' Enter
  await 'written'
  say_saved
  type_keys ':quit!' Enter
  await_end
}

main "$@"
