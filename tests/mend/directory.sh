# check: --file f
# setup: echo old > f
# mend: fsync the directory . before the mark
echo new contents > t
sync t
mv t f
# mended: sync .
