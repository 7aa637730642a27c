#!/usr/bin/env bash
# redis with an append-only file: SET while the server runs, by redis-cli; OK is its promise. After a crash a server
# started on what is left must hold the old or the new value.
source "${BASH_SOURCE[0]%/*}/program.sh"
source "${BASH_SOURCE[0]%/*}/server.sh"

packages=(redis-server redis-tools)
variants=("redis appendfsync=always" "redis appendfsync=everysec" "redis appendfsync=no")

server_name=redis-server
launch() {
  redis-server --port 0 --unixsocket "$own/s" --dir . --save '' --appendonly yes --appendfsync "${1#*=}" \
    --daemonize no > "$log" 2>&1 &
}
ask() { redis-cli -s "$own/s" "$@"; }
is_up() { [[ $(ask ping) == PONG ]]; }
put() { [[ $(ask set notes "$1") == OK ]]; }
get() { ask get notes; }
quit() { ask shutdown; }

main "$@"
