# check: --check 'grep -qx old f || grep -qx new f || grep -qx old f.bak'
# setup: echo old > f
# mend: fdatasync f before the unlink
cp f f.bak
sync f.bak
echo new > f
# mended: sync -d f
rm f.bak
