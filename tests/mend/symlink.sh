# check: --check 'test -s current/x'
# setup: mkdir v1; echo old > v1/x; ln -s v1 current
# mend: fdatasync v2/x before the rename
mkdir v2
echo new > v2/x
ln -s v2 l
# mended: sync -d v2/x
mv -T l current
