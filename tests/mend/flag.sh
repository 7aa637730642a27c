# check: --check 'test ! -e done || grep -q data d'
# mend: fdatasync d before the create
echo data > d
# mended: sync -d d
touch done
