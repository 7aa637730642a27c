# check: --no-durable --file f
# setup: echo old > f
# none
echo new contents > t
sync t
rm f
mv t f
