# check: --check '! grep -q removed "$CRASHCUT_MARKS" || test ! -e secret'
# setup: echo key > secret
# mend: fsync the directory . before the mark
rm secret
# mended: sync .
crashcut mark removed
