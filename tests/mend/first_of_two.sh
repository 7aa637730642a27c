# check: --check 'test ! -e b || grep -q 1 a'
# mend: fdatasync a before the rename
echo 1 > a.t
mv a.t a
echo 2 > b.t
# mended: sync -d a
mv b.t b
