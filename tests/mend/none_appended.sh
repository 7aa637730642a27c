# check: --file f
# setup: echo old > f
# none
echo more >> f
