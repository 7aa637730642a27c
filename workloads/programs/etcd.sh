#!/usr/bin/env bash
# etcd: one put; OK is its promise. After a crash a server started on what is left must hold the old or the new value.
source "${BASH_SOURCE[0]%/*}/program.sh"

packages=(etcd-server etcd-client)
variants=("etcd")
expected=(["etcd"]="safe")

describe_case() { :; }

socket_directory=
server=
stop_hard() {
  [[ -z $server ]] || kill -9 "$server" 2>/dev/null || true
  [[ -z $socket_directory ]] || rm -rf "$socket_directory"
}

# Ports of its own: two checks run at a time.
start_server() {
  socket_directory=$(mktemp -d)
  trap stop_hard EXIT
  port=$((20000 + RANDOM % 20000))
  local peer=http://127.0.0.1:$((port + 20000))
  etcd --data-dir "$PWD/db" --listen-client-urls "http://127.0.0.1:$port" --advertise-client-urls "http://127.0.0.1:$port" \
    --listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" --initial-cluster "default=$peer" > "$socket_directory/log" 2>&1 &
  server=$!
  local deadline=$((SECONDS + 60))
  until ask endpoint health > /dev/null 2>&1; do
    kill -0 "$server" 2>/dev/null || return 1
    ((SECONDS < deadline)) || fail "etcd does not answer: $(tail -3 "$socket_directory/log")"
    sleep 0.02
  done
}
ask() { ETCDCTL_API=3 etcdctl --endpoints "http://127.0.0.1:$port" "$@"; }

set_up() {
  start_server || fail "etcd did not start: $(< "$socket_directory/log")"
  ask put notes "$old_text" > /dev/null
  kill "$server"
  wait "$server" || true
}

run() {
  start_server || fail "etcd did not start: $(< "$socket_directory/log")"
  ask put notes "$new_text" > /dev/null
  say_saved
  kill "$server"
  wait "$server" || true
}

look() {
  local answer
  if ! start_server; then what="server does not start"; return; fi
  answer=$(ask get --print-value-only notes 2>&1)
  case $answer in
    "$old_text") what=old ;;
    "$new_text") what=new ;;
    '') what=missing ;;
    *) what="something else" ;;
  esac
}

main "$@"
