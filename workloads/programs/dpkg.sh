#!/usr/bin/env bash
# dpkg: installs the second version of a package over the first, below the modelled disk. After a crash, and after dpkg
# --configure -a, which its manual asks for, the file must be old or new, whole, and the database readable.
source "${BASH_SOURCE[0]%/*}/program.sh"

packages=(dpkg)
variants=("dpkg -i" "dpkg -i --force-unsafe-io")
expected=(["dpkg -i"]="safe" ["dpkg -i --force-unsafe-io"]="loses")

describe_case() { :; }

in_root() { dpkg --root="$PWD/root" --log=/dev/null --force-not-root --force-script-chrootless --force-bad-path "$@"; }

build() {
  local work
  work=$(mktemp -d)
  mkdir -p "$work/p/DEBIAN" "$work/p/opt"
  printf 'Package: notes\nVersion: %s\nArchitecture: all\nMaintainer: a <a@example.org>\nDescription: notes\n' "$1" > "$work/p/DEBIAN/control"
  echo "$2" > "$work/p/opt/notes.txt"
  dpkg-deb --root-owner-group -b "$work/p" "$work/notes.deb" > /dev/null
  REPLY=$work/notes.deb
}

set_up() {
  mkdir -p root/var/lib/dpkg/info root/var/lib/dpkg/updates root/opt
  : > root/var/lib/dpkg/status
  : > root/var/lib/dpkg/available
  build 1 "$old_text"
  in_root -i "$REPLY" > /dev/null
}

run() {
  local force=(--no-force-unsafe-io)  # containers' images switch it on for all
  [[ $1 == "dpkg -i" ]] || force=(--force-unsafe-io)
  build 2 "$new_text"
  in_root "${force[@]}" -i "$REPLY" > /dev/null
  say_saved
}

look() {
  local version
  in_root --configure -a > /dev/null 2>&1 || true
  if ! version=$(dpkg-query --root="$PWD/root" --admindir="$PWD/root/var/lib/dpkg" -W -f '${Version}' notes 2>&1); then
    what="database damaged"
    return
  fi
  describe root/opt/notes.txt
  if [[ $what == new && $version == 1 ]]; then what=old; fi  # unpacked, not yet noted: a second install does the rest
  if [[ $what == old && $version == 2 ]]; then what="noted as new, file old"; fi
}

main "$@"
