#!/usr/bin/env bash
# emacs: opens notes.txt, replaces its line, saves it (C-x C-s), leaves. It keeps the old version as notes.txt~, which it
# makes by renaming notes.txt, or by copying it when it has another hard link. As a batch job it calls no fsync:
# write-region-inhibit-fsync is then t.
source "${BASH_SOURCE[0]%/*}/program.sh"
source "$programs/terminal.sh"

packages=(emacs-nox tmux)
variants=("emacs" "emacs, hard link" "emacs --batch")
scratch=('.#*')

describe_case() {
  options=(--file notes.txt)
  backup=notes.txt~
}

set_up() {
  echo "$old_text" > notes.txt
  [[ $1 != "emacs, hard link" ]] || ln notes.txt link.txt
}

run_batch() {
  local -x TMPDIR=/nonexistent
  emacs --batch -Q notes.txt --eval "(progn (erase-buffer) (insert \"$new_text\n\") (save-buffer))" 2>/dev/null
  say_saved
}

run() {
  if [[ $1 == "emacs --batch" ]]; then run_batch; return; fi
  open_terminal emacs -nw -Q notes.txt
  await "$old_text"
  type_keys C-k "$new_text" C-x C-s
  await 'Wrote .*notes.txt'
  say_saved
  type_keys C-x C-c
  await_end
}

main "$@"
