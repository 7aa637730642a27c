# shellcheck shell=bash
# terminal.sh: an editor that needs a terminal, in a tmux of its own, typed into without a person.
#
# Nothing waits for a fixed time: each step waits for what the screen shows next, for at most patience_s.

terminal=()
home=
patience_s=60

close_terminal() {
  "${terminal[@]}" kill-server 2>/dev/null || true
  rm -rf "$home"
}

# The editor sees no settings of the user's, and an empty home outside the modelled disk. The socket lies there too: by a
# process number, which is small and soon used again in a sandbox, two checks at a time would meet in one tmux.
open_terminal() {
  home=$(mktemp -d)
  terminal=(tmux -S "$home/tmux" -f /dev/null)
  trap close_terminal EXIT
  "${terminal[@]}" new-session -d -x 80 -y 24 \
    "$(printf '%q ' env -i TERM=screen LANG=C.UTF-8 "PATH=$PATH" "HOME=$home" "$@")"
}

type_keys() { "${terminal[@]}" send-keys "$@"; }

screen() { "${terminal[@]}" capture-pane -p 2>/dev/null || true; }

# Waits until a line of the screen matches.
await() {
  local deadline=$((SECONDS + patience_s))
  until grep -q -e "$1" <<< "$(screen)"; do
    if ((SECONDS > deadline)); then
      screen >&2
      fail "the editor did not show '$1'"
    fi
    sleep 0.01
  done
}

# Waits until the editor has ended, and the tmux with it.
await_end() {
  local deadline=$((SECONDS + patience_s))
  while "${terminal[@]}" has-session 2>/dev/null; do
    if ((SECONDS > deadline)); then
      screen >&2
      fail "the editor did not end"
    fi
    sleep 0.01
  done
}
