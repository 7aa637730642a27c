# check: --no-durable --file f
# mend: fdatasync t before the link
echo contents > t
# mended: sync -d t
ln t f
