#!/usr/bin/env bash
# sqlite3: one transaction of 100 inserts into a table of 10 rows, with a rollback journal or a write-ahead log, under each
# PRAGMA synchronous. After a crash the database must pass its integrity check and hold 10 rows or 110.
source "${BASH_SOURCE[0]%/*}/program.sh"

packages=(sqlite3)
scratch=('*-shm')
variants=(
  "sqlite3 journal_mode=DELETE synchronous=FULL"
  "sqlite3 journal_mode=DELETE synchronous=NORMAL"
  "sqlite3 journal_mode=DELETE synchronous=OFF"
  "sqlite3 journal_mode=WAL synchronous=FULL"
  "sqlite3 journal_mode=WAL synchronous=NORMAL"
  "sqlite3 journal_mode=WAL synchronous=OFF"
)

describe_case() { :; }

# "sqlite3 a=b c=d" as "pragma a=b; pragma c=d;"
# shellcheck disable=SC2086
pragmas() { printf 'pragma %s;\n' ${1#sqlite3 }; }

insert_rows() {
  local i
  for ((i = $1; i < $2; ++i)); do echo "insert into notes values ($i, 'note number $i, of some length');"; done
}

set_up() {
  {
    pragmas "$1"
    echo 'create table notes (number integer primary key, text);'
    echo 'begin;'
    insert_rows 0 10
    echo 'commit;'
  } | sqlite3 -bail test.db > /dev/null
}

run() {
  {
    pragmas "$1"
    echo 'begin;'
    insert_rows 10 110
    echo 'commit;'
    echo ".shell $(printf '%q' "$crashcut") mark saved"
  } | sqlite3 -bail test.db > /dev/null
}

look() {
  local answer
  answer=$(sqlite3 -bail test.db 'pragma integrity_check; select count(*) from notes;' 2>&1) || true
  case $answer in
    $'ok\n10') what=old ;;
    $'ok\n110') what=new ;;
    ok*) what="other rows" ;;
    *malformed* | *"not a database"* | *"disk image"*) what="damaged" ;;
    *"no such table"*) what="empty" ;;
    *"row"*missing* | *"Page"* | *"page"* | *"btree"* | *"Tree"*) what="damaged" ;;
    *) what="error: ${answer//$'\n'/ }" ;;
  esac
}

main "$@"
