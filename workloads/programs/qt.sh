#!/usr/bin/env bash
# Qt's ways to save (drivers/qt_driver.cc): QSaveFile and QSettings write a temporary file and rename it, QFile writes in place.
source "${BASH_SOURCE[0]%/*}/program.sh"

packages=(qtbase5-dev)
variants=("qt QSaveFile" "qt QSettings" "qt QFile")
expected=(["qt QSaveFile"]="atomic" ["qt QSettings"]="atomic" ["qt QFile"]="loses")
scratch=('*.lock')

use_driver qt_driver
option_of() { REPLY=${1#qt }; }

main "$@"
