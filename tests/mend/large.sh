# check: --no-durable --file f
# setup: echo old > f
# mend: fdatasync t before the rename
head -c 10000 /dev/zero | tr '\0' a > t
# mended: sync -d t
mv t f
