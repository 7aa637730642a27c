#!/usr/bin/env bash
# MariaDB with InnoDB: one transaction of 20 updates; COMMIT is its promise. After a crash a server started on what is left
# must recover and hold the old rows or the new ones, all of them. InnoDB writes with O_DIRECT, its default;
# innodb_use_native_aio=1 by io_uring, or by libaio if that is missing; innodb_linux_aio=aio by libaio.
source "${BASH_SOURCE[0]%/*}/program.sh"

packages=(mariadb-server)
variants=("mariadb" "mariadb, innodb_use_native_aio=1" "mariadb, innodb_linux_aio=aio" "mariadb, innodb_flush_log_at_trx_commit=2")
expected=(["mariadb"]="safe" ["mariadb, innodb_use_native_aio=1"]="safe" ["mariadb, innodb_linux_aio=aio"]="safe" ["mariadb, innodb_flush_log_at_trx_commit=2"]="atomic")
because=(["mariadb, innodb_flush_log_at_trx_commit=2"]="the search ended before it came to a state without the last commit")
scratch=('*.pid' 'aria_log*' 'ib_buffer_pool')

describe_case() { :; }

socket_directory=
server=
stop_hard() {
  [[ -z $server ]] || kill -9 "$server" 2>/dev/null || true
  [[ -z $socket_directory ]] || rm -rf "$socket_directory"
}
settings=(--no-defaults --datadir=db --skip-networking --innodb-buffer-pool-size=8M --innodb-log-file-size=4M
  --innodb-data-file-path=ibdata1:4M:autoextend --innodb-fast-shutdown=0 --innodb-use-native-aio=0 --user=root --skip-grant-tables)

start_server() {
  socket_directory=$(mktemp -d)
  trap stop_hard EXIT
  local setting=()
  [[ $1 == mariadb ]] || setting=("--${1#mariadb, }")
  [[ $1 != *linux_aio* ]] || setting+=(--innodb-use-native-aio=1)
  mariadbd "${settings[@]}" "${setting[@]}" --datadir="$PWD/db" --socket="$socket_directory/s" > "$socket_directory/log" 2>&1 &
  server=$!
  local deadline=$((SECONDS + 60))
  until ask -e 'select 1' > /dev/null 2>&1; do
    kill -0 "$server" 2>/dev/null || return 1
    ((SECONDS < deadline)) || fail "mariadbd does not answer"
    sleep 0.02
  done
}
ask() { mariadb --no-defaults -S "$socket_directory/s" -N "$@"; }
stop_server() {
  ask -e shutdown
  wait "$server"
}

set_up() {
  mariadb-install-db --no-defaults --datadir="$PWD/db" --user=root --skip-test-db --auth-root-authentication-method=normal \
    --innodb-log-file-size=4M --innodb-data-file-path=ibdata1:4M:autoextend > /dev/null 2>&1
  start_server "$1" || fail "the server did not start: $(< "$socket_directory/log")"
  ask -e "create database d; create table d.notes (i int primary key, text varchar(10)) engine=innodb;
    use d; insert into notes select seq, 'old' from seq_1_to_20"
  stop_server
}

run() {
  start_server "$1" || fail "the server did not start: $(< "$socket_directory/log")"
  ask -e "update d.notes set text = 'new'"
  say_saved
  stop_server
}

look() {
  local answer
  if ! start_server "$1"; then what="server does not start"; return; fi
  answer=$(ask -e "select group_concat(distinct text), count(*) from d.notes" 2>&1) || { what="query fails"; return; }
  case $answer in
    old*20) what=old ;;
    new*20) what=new ;;
    *) what="other rows" ;;
  esac
}

main "$@"
