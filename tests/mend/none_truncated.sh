# check: --file f
# setup: echo old > f
# none
echo new contents > f
