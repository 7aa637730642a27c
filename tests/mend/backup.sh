# check: --check 'grep -qx old f || grep -qx new f || grep -qx old f.bak'
# setup: echo old > f
# mend: fdatasync f.bak before the truncate
cp f f.bak
# mended: sync -d f.bak
echo new > f
sync f
rm f.bak
