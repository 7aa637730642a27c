# shellcheck shell=bash
# server.sh: what the scripts share whose program is a server that holds one value. A script sources program.sh and
# this, and sets:
#   server_name              the program, for messages
#   launch VARIANT           starts the server in the background on the current directory; its output goes to $log
#   ask WORD...              its client
#   is_up put get quit       whether it answers; puts a text; prints the text; asks it to end
# Its socket or its log lie in $own, a directory outside of the modelled disk.

server=
own=
log=

describe_case() { :; }

stop_hard() {
  [[ -z $server ]] || kill -9 "$server" 2>/dev/null || true
  [[ -z $own ]] || rm -rf "$own"
}

# Fails when the server ended instead.
start_server() {
  own=$(mktemp -d)
  log=$own/log
  trap stop_hard EXIT
  launch "$1"
  server=$!
  local deadline=$((SECONDS + 60))
  until is_up > /dev/null 2>&1; do
    kill -0 "$server" 2>/dev/null || return 1
    ((SECONDS < deadline)) || fail "$server_name does not answer: $(tail -3 "$log")"
    sleep 0.01
  done
}

must_start() { start_server "$1" || fail "$server_name did not start: $(< "$log")"; }
end_server() {
  quit
  wait "$server" || true
}

set_up() {
  must_start "$1"
  put "$old_text" || fail "the first value was not taken"
  end_server
}

run() {
  must_start "$1"
  put "$new_text" || fail "the new value was not taken"
  say_saved
  end_server
}

look() {
  if ! start_server "$1"; then what="server does not start"; return; fi
  case $(get 2>&1) in
    "$old_text") what=old ;;
    "$new_text") what=new ;;
    '') what=missing ;;
    *) what="something else" ;;
  esac
}
