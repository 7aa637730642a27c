#!/usr/bin/env bash
# useradd and chsh of passwd, below the modelled disk: /etc/passwd must be the old or the new one, whole.
source "${BASH_SOURCE[0]%/*}/program.sh"

packages=(passwd)
variants=("useradd" "usermod -s")
expected=(["useradd"]="atomic" ["usermod -s"]="atomic")
because=(["useradd"]="the files that it fsyncs after passwd commit the rename of passwd, which came before in the journal")

scratch=('*.lock' '*-' '.pwd.lock')
describe_case() { :; }

set_up() {
  mkdir -p etc
  echo 'root:x:0:0:root:/root:/bin/sh' > etc/passwd
  echo 'root:*:19000:0:99999:7:::' > etc/shadow
  echo 'root:x:0:' > etc/group
  echo 'root:*::' > etc/gshadow
  : > etc/login.defs
  mkdir -p etc/pam.d
}

run() {
  case $1 in
    useradd) useradd --prefix "$PWD" -M -N -u 1000 -g 0 notes ;;
    *) usermod --prefix "$PWD" -s /bin/bash root ;;
  esac
  say_saved
}

look() {
  local line found=old lines=0
  if [[ ! -e etc/passwd ]]; then what=missing; return; fi
  while IFS= read -r line; do
    lines=$((lines + 1))
    case $line in
      root:x:0:0:root:/root:/bin/sh) ;;
      root:x:0:0:root:/root:/bin/bash | notes:x:1000:0:*) found=new ;;
      *) what="garbage"; return ;;
    esac
  done < etc/passwd
  what=$found
  ((lines > 0)) || what=empty
}

main "$@"
