#!/usr/bin/env bash
# PostgreSQL: one transaction of 20 updates; COMMIT is its promise. After a crash a server started on what is left must
# recover and hold the old rows or the new ones, all of them. The cluster is small, and starts without a checkpoint on the way.
source "${BASH_SOURCE[0]%/*}/program.sh"

packages=(postgresql-15)
variants=("postgresql" "postgresql, synchronous_commit=off" "postgresql, fsync=off")
because=(["postgresql"]="a crash while the server starts can leave postmaster.pid empty, which pg_ctl refuses; the data is safe"
  ["postgresql, synchronous_commit=off"]="as above")
expected=(["postgresql"]="safe" ["postgresql, synchronous_commit=off"]="atomic" ["postgresql, fsync=off"]="loses")
scratch=('postmaster.*' 'pg_*' '*.pid' '*.opts')

describe_case() { :; }

bin=/usr/lib/postgresql/15/bin
socket_directory=
# It does not run as root.
as_user() {
  if ((EUID == 0)); then setpriv --reuid=65534 --regid=65534 --clear-groups -- "$@"; else "$@"; fi
}
stop_hard() {
  [[ -z $socket_directory ]] || { as_user "$bin/pg_ctl" -D db -m immediate stop > /dev/null 2>&1 || true; rm -rf "$socket_directory"; }
}

start_server() {
  socket_directory=$(mktemp -d)
  chmod 777 "$socket_directory"
  trap stop_hard EXIT
  local setting=
  [[ $1 == postgresql ]] || setting="-c ${1#postgresql, }"
  as_user "$bin/pg_ctl" -D db -w -t 50 -l "$socket_directory/log" \
    -o "-c listen_addresses='' -c unix_socket_directories=$socket_directory -c shared_buffers=128kB -c autovacuum=off -c max_connections=10 $setting" \
    start > /dev/null 2>&1
}
ask() { as_user "$bin/psql" -X -q -A -t -v ON_ERROR_STOP=1 -h "$socket_directory" -d postgres "$@"; }
stop_server() { as_user "$bin/pg_ctl" -D db -m fast -w stop > /dev/null; }

set_up() {
  mkdir db
  ((EUID != 0)) || { chown 65534:65534 . db; }
  as_user "$bin/initdb" -D db -U postgres -A trust --no-sync --wal-segsize=1 > /dev/null
  export PGUSER=postgres
  start_server "$1" || fail "the server did not start: $(< "$socket_directory/log")"
  ask -c "create table notes as select i, 'old' as text from generate_series(1, 20) i"
  stop_server
}

run() {
  export PGUSER=postgres
  start_server "$1" || fail "the server did not start: $(< "$socket_directory/log")"
  ask -c "update notes set text = 'new'"
  say_saved
  stop_server
}

look() {
  export PGUSER=postgres
  local answer
  if ! start_server "$1"; then
    what="server does not start"
    [[ -s db/postmaster.pid ]] || what+=" (postmaster.pid is empty)"
    return
  fi
  answer=$(ask -c "select string_agg(distinct text, '+'), count(*) from notes" 2>&1) || { what="query fails"; return; }
  case $answer in
    'old|20') what=old ;;
    'new|20') what=new ;;
    *) what="other rows" ;;
  esac
}

main "$@"
