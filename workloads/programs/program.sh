# shellcheck shell=bash
# program.sh: what the scripts of this directory share. A script is one real program, in some variants:
#
#   SCRIPT variants              lists them
#   SCRIPT packages              lists the Debian packages that they need
#   SCRIPT expected VARIANT      what the program's makers promise: safe, atomic or loses (scripts/tried.py)
#   SCRIPT because VARIANT       why crashcut says otherwise; nothing where it does not
#   SCRIPT check VARIANT [...]   crashcut check of one; more options go to crashcut (--data, -o, --out, ...)
#
# It sets, and then calls main "$@":
#   variants packages drivers    arrays; drivers are programs of ours that it needs (workloads/programs/drivers)
#   expected because             associative arrays by variant, see above; only scripts/tried.py asks for them
#   scratch                      an array of patterns: files that hold no text (locks), left out of the table
#   set_up VARIANT               leaves the starting state in the current directory, the modelled disk
#   run VARIANT                  the program at work; calls say_saved when the program has said that it saved
#   look VARIANT                 after a crash: sets what to what is there: old, new, and anything else is a loss
#   describe_case VARIANT        sets options, an array for crashcut check, and backup, the name of the file that may
#                                have the old version (empty: none)
#
# After a crash the checker prints "while: WHAT" or "after: WHAT", by whether the program had said saved, and where
# there is a backup, what that holds. Status 0 is fine: old or new, and new after it had said saved.
set -euo pipefail

script=$0
[[ $script == /* ]] || script=$PWD/$script
programs=${script%/*}
crashcut=${CRASHCUT:-$programs/../../build/release/crashcut}
driver_directory=${PROGRAM_DRIVERS:-$programs/../../build/release/drivers}
drivers=()
scratch=()
declare -A expected=() because=()
options=()
backup=
what=

old_text='the old notes'
new_text='the new notes'

fail() {
  echo "${script##*/}: $*" >&2
  exit 1
}

say_saved() { "$crashcut" mark saved; }

was_saved() {
  local marks mark
  mapfile -t marks < "$CRASHCUT_MARKS"
  for mark in "${marks[@]}"; do
    if [[ $mark == saved ]]; then return 0; fi
  done
  return 1
}

set_up() { echo "$old_text" > notes.txt; }
describe_case() { options=(--file notes.txt); }
look() { describe notes.txt; }

# For a library: a driver of ours does it all, as DRIVER set_up|run|look WORD; the script sets REPLY to the word for a
# variant in option_of VARIANT.
use_driver() {
  drivers=("$1")
  drive() {
    option_of "$2"
    "$driver_directory/${drivers[0]}" "$1" "$REPLY"
  }
  describe_case() { :; }
  set_up() { drive set_up "$1"; }
  run() { drive run "$1"; }
  look() {
    if ! what=$(drive look "$1" 2>/dev/null); then what="reading it crashes"; fi
  }
}

# Sets what to what a file holds now that held $old_text and was to hold $new_text. It starts no process: it runs on
# every crash state.
describe() {
  local text=
  if [[ ! -e $1 ]]; then what=missing; return; fi
  if IFS= read -r -d '' text < "$1"; then what=NULs; return; fi  # up to the first NUL, or to the end
  case $text in
    '') what=empty ;;
    "$old_text"$'\n') what=old ;;
    "$new_text"$'\n') what=new ;;
    *) what="something else" ;;
  esac
  [[ $what != "something else" || ${new_text}$'\n' != "$text"* ]] || what="a part"
}

# The checker.
judge() {
  local when=while found in_backup=
  describe_case "$1"
  look "$1"
  found=$what
  if [[ -n $backup && $found != new ]]; then
    describe "$backup"
    in_backup=$what
  fi
  if [[ $found != new ]] && was_saved; then when=after; fi
  echo "$when: $found${in_backup:+; backup: $in_backup}"
  case $when:$found:$in_backup in
    *:new:* | while:old:* | while:*:old | while:*:new) ;;
    *) exit 1 ;;
  esac
}

# One check. Every path is absolute: the program starts in the modelled disk.
check() {
  local variant=$1
  shift
  CRASHCUT=$(realpath "$crashcut")
  PROGRAM_DRIVERS=$(realpath -m "$driver_directory")
  export CRASHCUT PROGRAM_DRIVERS
  describe_case "$variant"
  exec "$CRASHCUT" check "${options[@]}" ${backup:+--backup "$backup"} --outcomes \
    --setup "$(printf '%q ' "$script" set_up "$variant")" --check "$(printf '%q ' "$script" judge "$variant")" \
    "$@" -- "$script" run "$variant"
}

main() {
  local verb=${1:-}
  case $verb in
    variants | packages | drivers | scratch)
      local -n list=$verb
      ((${#list[@]} == 0)) || printf '%s\n' "${list[@]}"
      ;;
    expected) echo "${expected[$2]:-}" ;;
    because) echo "${because[$2]:-}" ;;
    set_up | run | judge | check)
      (($# >= 2)) || fail "$verb of which variant? There are: $(printf "'%s' " "${variants[@]}")"
      local variant
      for variant in "${variants[@]}"; do
        if [[ $variant == "$2" ]]; then "$@"; return; fi
      done
      fail "no variant '$2'. There are: $(printf "'%s' " "${variants[@]}")"
      ;;
    *) fail "usage: variants | packages | check VARIANT [options of crashcut check]" ;;
  esac
}
