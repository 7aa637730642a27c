# check: --device --device-size 64K --check '! grep -q saved "$CRASHCUT_MARKS" || dd if=device bs=512 skip=8 count=1 2>/dev/null | grep -q data'
# mend: flush the device before the mark
printf data | dd of=device bs=512 seek=8 conv=notrunc,sync 2>/dev/null
# mended: sync device
crashcut mark saved
