# check: --no-durable --file f
# setup: echo old > f
# mend: fdatasync t before each rename
for i in 1 2 3; do
  echo version $i > t
  # mended: sync -d t
  mv t f
done
