# check: --check 'grep -q a old 2>/dev/null || grep -q a new'
# setup: echo a > old
# mend: fdatasync new before the unlink
cp old t
mv t new
# mended: sync -d new
rm old
