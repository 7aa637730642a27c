#!/usr/bin/env bash
# emacs: opens notes.txt, replaces its line, saves it (C-x C-s), leaves. It keeps the old version as notes.txt~, which it
# makes by renaming notes.txt; with backup-by-copying-when-linked, by copying a file that has another hard link. As a batch
# job it calls no fsync: write-region-inhibit-fsync is then t.
source "${BASH_SOURCE[0]%/*}/program.sh"
source "$programs/terminal.sh"

packages=(emacs-nox tmux)
variants=("emacs" "emacs, backup-by-copying-when-linked" "emacs --batch")
scratch=('.#*')

# It keeps no backup of what lies below /tmp, and the modelled disk may.
backs_up_here='(setq backup-enable-predicate (lambda (name) t))'

describe_case() {
  options=(--file notes.txt)
  backup=notes.txt~
}

set_up() {
  echo "$old_text" > notes.txt
  [[ $1 != *when-linked ]] || ln notes.txt link.txt
}

run_batch() {
  emacs --batch -Q --eval "$backs_up_here" notes.txt \
    --eval "(progn (erase-buffer) (insert \"$new_text\n\") (save-buffer))" 2>/dev/null
  say_saved
}

run() {
  if [[ $1 == "emacs --batch" ]]; then run_batch; return; fi
  local copies=nil
  [[ $1 != *when-linked ]] || copies=t
  open_terminal emacs -nw -Q --eval "$backs_up_here" --eval "(setq backup-by-copying-when-linked $copies)" notes.txt
  await "$old_text"
  type_keys C-k "$new_text" C-x C-s
  await 'Wrote .*notes.txt'
  say_saved
  type_keys C-x C-c
  await_end
}

main "$@"
