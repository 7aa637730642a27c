#!/usr/bin/env bash
# etcd: one put; OK is its promise. After a crash a server started on what is left must hold the old or the new value.
source "${BASH_SOURCE[0]%/*}/program.sh"
source "${BASH_SOURCE[0]%/*}/server.sh"

packages=(etcd-server etcd-client)
variants=("etcd")
expected=(["etcd"]="safe")

server_name=etcd
# Ports of its own: two checks run at a time.
launch() {
  port=$((20000 + RANDOM % 20000))
  local client=http://127.0.0.1:$port peer=http://127.0.0.1:$((port + 20000))
  etcd --data-dir "$PWD/db" --listen-client-urls "$client" --advertise-client-urls "$client" \
    --listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" --initial-cluster "default=$peer" > "$log" 2>&1 &
}
ask() { ETCDCTL_API=3 etcdctl --endpoints "http://127.0.0.1:$port" "$@"; }
is_up() { ask endpoint health; }
put() { ask put notes "$1" > /dev/null; }
get() { ask get --print-value-only notes; }
quit() { kill "$server"; }

main "$@"
