# check: --file d/f
# setup: mkdir d; echo old > d/f
# mend: fsync the directory d before the mark
echo new contents > d/t
sync d/t
mv d/t d/f
# mended: sync d
