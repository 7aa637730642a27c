#!/usr/bin/env bash
# GLib's g_file_set_contents(), which many desktop programs save with, and its durable form (drivers/glib_driver.c).
source "${BASH_SOURCE[0]%/*}/program.sh"

packages=(libglib2.0-dev)
variants=("glib g_file_set_contents" "glib g_file_set_contents_full, durable")
expected=(["glib g_file_set_contents"]="atomic" ["glib g_file_set_contents_full, durable"]="safe")
because=(["glib g_file_set_contents"]="GLib fsyncs the directory too, which it does not promise")

use_driver glib_driver
option_of() { REPLY=; [[ $1 != *durable ]] || REPLY=durable; }

main "$@"
