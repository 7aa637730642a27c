# `cpack -G DEB` in the build directory makes a Debian package of what `cmake --install` leaves.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME crashcut)
set(CPACK_PACKAGE_CONTACT "the crashcut maintainers <maintainers@crashcut.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "crash-consistency model checker for files, threads and persistent memory")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
"crashcut pulls the plug on a program at every moment that matters, and shows
what the program finds when the power comes back.")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)

# shlibdeps finds the libraries. What crashcut starts by name, it does not:
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# fusermount3, for users who are not root, removes what a killed `crashcut mount` left. The compilers are for programs that are given
# as source (clang-14: for crashcut pmem and cxl). gdb: crashcut gdb.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "fuse3, gcc | c-compiler, g++, clang-14, gdb")
# --fs kernel:...; then what find_package(crashcut) and crashcut_gtest.h look for.
set(CPACK_DEBIAN_PACKAGE_SUGGESTS
  "e2fsprogs, xfsprogs, btrfs-progs, cmake, libgtest-dev, libfmt-dev, nlohmann-json3-dev, libboost-dev, libexpected-dev, libdw-dev, python3-pytest")
include(CPack)
