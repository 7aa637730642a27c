# check: --check '! grep -q saved "$CRASHCUT_MARKS" || grep -q data d'
# mend: fsync d before the mark
# fdatasync would not do: what it waits for may have been written back before the rename.
echo data > t
mv t d
# mended: sync d
crashcut mark saved
