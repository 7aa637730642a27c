# check: --file f
# setup: echo old > f
# mend: no single change helps, but these do together: fdatasync t before the rename
echo new contents > t
# mended: sync -d t
mv t f
# mended: sync .
