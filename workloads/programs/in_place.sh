#!/usr/bin/env bash
# Tools that change a file in place: none of them has anything to say of power failures.
source "${BASH_SOURCE[0]%/*}/program.sh"

packages=(coreutils perl patch crudini rsync nodejs python3)
variants=("perl -i" "patch" "sort -o" "crudini --set" "rsync" "rsync --inplace" "rsync --fsync"
  "node fs.writeFileSync" "node write, fsync, rename" "python3 open(f, 'w')")
expected=(["perl -i"]="loses" ["patch"]="loses" ["sort -o"]="loses" ["crudini --set"]="atomic"
  ["rsync"]="loses" ["rsync --inplace"]="loses" ["rsync --fsync"]="atomic"
  ["node fs.writeFileSync"]="loses" ["node write, fsync, rename"]="atomic" ["python3 open(f, 'w')"]="loses")
because=(["crudini --set"]="it fsyncs the directory too"
  ["rsync --inplace"]="the file is shorter than a sector, which is written whole")

# Where a file has more than a line, what is asked for is still one line of it.
set_up() {
  case $1 in
    crudini*) old_text=$'[notes]\ntext = the old notes' ;;
  esac
  echo "$old_text" > notes.txt
}
outside=
new_of() {
  case $1 in
    crudini*) old_text=$'[notes]\ntext = the old notes' new_text=$'[notes]\ntext = the new notes' ;;
  esac
}
look() {
  new_of "$1"
  describe notes.txt
}

run() {
  new_of "$1"
  outside=$(mktemp -d)
  trap 'rm -rf "$outside"' EXIT
  echo "$new_text" > "$outside/notes.txt"
  case $1 in
    "perl -i") perl -i -pe 's/old/new/' notes.txt ;;
    patch) printf -- '--- notes.txt\n+++ notes.txt\n@@ -1 +1 @@\n-%s\n+%s\n' "$old_text" "$new_text" | patch -s notes.txt ;;
    "sort -o") sort -o notes.txt "$outside/notes.txt" ;;
    "crudini --set") crudini --set notes.txt notes text 'the new notes' ;;
    rsync) rsync --ignore-times "$outside/notes.txt" notes.txt ;;
    "rsync --inplace") rsync --ignore-times --inplace "$outside/notes.txt" notes.txt ;;
    "rsync --fsync") rsync --ignore-times --fsync "$outside/notes.txt" notes.txt ;;
    "node fs.writeFileSync") node -e "fs.writeFileSync('notes.txt', '$new_text\n')" ;;
    "node write, fsync, rename") node -e "const f = fs.openSync('t', 'w'); fs.writeSync(f, '$new_text\n'); fs.fsyncSync(f); fs.closeSync(f); fs.renameSync('t', 'notes.txt')" ;;
    python3*) python3 -c "with open('notes.txt', 'w') as f: f.write('$new_text\n')" ;;
  esac
  say_saved
}

main "$@"
