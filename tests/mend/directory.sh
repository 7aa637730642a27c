# check: --file f
# setup: echo old > f
# mend: fsync . before the mark
echo new contents > t
sync t
mv t f
# mended: sync .
