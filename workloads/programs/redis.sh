#!/usr/bin/env bash
# redis with an append-only file: SET while the server runs, by redis-cli; OK is its promise. After a crash a server
# started on what is left must hold the old or the new value.
source "${BASH_SOURCE[0]%/*}/program.sh"

packages=(redis-server redis-tools)
variants=("redis appendfsync=always" "redis appendfsync=everysec" "redis appendfsync=no")

describe_case() { :; }

server=
socket_directory=
stop_server() {
  [[ -z $server ]] || kill -9 "$server" 2>/dev/null || true
  [[ -z $socket_directory ]] || rm -rf "$socket_directory"
}

# Fails when the server ended instead.
start_server() {
  socket_directory=$(mktemp -d)
  trap stop_server EXIT
  redis-server --port 0 --unixsocket "$socket_directory/s" --dir . --save '' --appendonly yes \
    --appendfsync "${1#*=}" --daemonize no > "$socket_directory/log" 2>&1 &
  server=$!
  local deadline=$((SECONDS + 60))
  until [[ $(ask ping 2>/dev/null) == PONG ]]; do
    kill -0 "$server" 2>/dev/null || return 1
    ((SECONDS < deadline)) || fail "redis-server does not answer"
    sleep 0.01
  done
}
ask() { redis-cli -s "$socket_directory/s" "$@"; }

set_up() {
  start_server "$1" || fail "redis-server did not start: $(< "$socket_directory/log")"
  [[ $(ask set notes "$old_text") == OK ]] || fail "SET failed"
  ask shutdown
  wait "$server"
}

run() {
  start_server "$1" || fail "redis-server did not start: $(< "$socket_directory/log")"
  [[ $(ask set notes "$new_text") == OK ]] || fail "SET failed"
  say_saved
  ask shutdown
  wait "$server"
}

look() {
  local answer
  if ! start_server "$1"; then what="server does not start"; return; fi
  answer=$(ask get notes)
  case $answer in
    "$old_text") what=old ;;
    "$new_text") what=new ;;
    '') what=missing ;;
    *) what="something else" ;;
  esac
}

main "$@"
