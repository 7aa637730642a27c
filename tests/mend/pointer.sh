# check: --check 'grep -q v "$(cat current)"'
# setup: echo v1 > data1; echo data1 > current
# mend: fdatasync data2 before the rename
echo v2 > data2
echo data2 > c
sync c
# mended: sync -d data2
mv c current
