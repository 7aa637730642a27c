# check: --file f
# setup: echo old > f
# mend: fdatasync t before the rename
echo new contents > t
# mended: sync -d t
mv t f
sync .
