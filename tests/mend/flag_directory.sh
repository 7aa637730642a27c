# check: --check 'test ! -e done/now || grep -q data d'
# setup: mkdir done
# mend: fdatasync d before the mkdir
echo data > d
# mended: sync -d d
mkdir done/now
