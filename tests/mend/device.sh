# check: --device --device-size 64K --check 'head -c 4 device | grep -q HEAD || exit 0; dd if=device bs=512 skip=8 count=1 2>/dev/null | grep -q data'
# mend: flush the device before the write
printf data | dd of=device bs=512 seek=8 conv=notrunc,sync 2>/dev/null
# mended: sync device
printf HEAD | dd of=device bs=512 conv=notrunc,sync 2>/dev/null
