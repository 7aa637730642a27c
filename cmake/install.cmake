# What `cmake --install` leaves: the command with the library that it looks for beside itself and loads into programs, crashcut.h for programs
# under test, and libcrashcut with its headers for tests in C++ (find_package(crashcut)).
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(home ${CMAKE_INSTALL_LIBDIR}/crashcut)
install(TARGETS crashcut RUNTIME DESTINATION ${home})
install(TARGETS crashcut_runtime LIBRARY DESTINATION ${home})
install(FILES include/crashcut.h include/crashcut_gtest.h DESTINATION ${home}/include)
install(DIRECTORY ${CMAKE_BINARY_DIR}/instrument DESTINATION ${home})  # crashcut flags
install(FILES ${CMAKE_BINARY_DIR}/crashcut_gdb.py DESTINATION ${home})
install(FILES include/crashcut.h include/crashcut_gtest.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/crashcut RENAME copyright)
install(CODE "
  set(bin \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}\")
  file(MAKE_DIRECTORY \${bin})
  file(CREATE_LINK ../${home}/crashcut \${bin}/crashcut SYMBOLIC)")

# Where Debian's Python looks, if the prefix is /usr.
install(FILES python/crashcut_pytest.py DESTINATION lib/python3/dist-packages)

# What shells and man know of the command, by the command itself.
install(CODE "
  set(share \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}\")
  foreach(what IN ITEMS bash:bash-completion/completions/crashcut zsh:zsh/vendor-completions/_crashcut
      fish:fish/vendor_completions.d/crashcut.fish man:man/man1/crashcut.1)
    string(REPLACE \":\" \";\" what \${what})
    list(GET what 0 name)
    list(GET what 1 path)
    get_filename_component(folder \${share}/\${path} DIRECTORY)
    file(MAKE_DIRECTORY \${folder})
    execute_process(COMMAND \"$<TARGET_FILE:crashcut>\" completion \${name} OUTPUT_FILE \${share}/\${path}
      COMMAND_ERROR_IS_FATAL ANY)
  endforeach()")

install(TARGETS
  crashcut_recovery crashcut_source crashcut_result crashcut_inprocess crashcut_search crashcut_scheduler crashcut_fusefs crashcut_pmem crashcut_persist
  EXPORT crashcut ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT crashcut NAMESPACE crashcut:: FILE crashcut-targets.cmake DESTINATION ${home}/cmake)
install(DIRECTORY persist fusefs pmem DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/crashcut
  FILES_MATCHING PATTERN *.h PATTERN mount EXCLUDE)
install(FILES recovery/crash_test.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/crashcut/recovery)
configure_package_config_file(cmake/crashcut-config.cmake.in ${CMAKE_BINARY_DIR}/crashcut-config.cmake
  INSTALL_DESTINATION ${home}/cmake)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/crashcut-config-version.cmake COMPATIBILITY ExactVersion)
install(FILES cmake/crashcut-pmem.cmake cmake/crashcut-test.cmake ${CMAKE_BINARY_DIR}/crashcut-config.cmake ${CMAKE_BINARY_DIR}/crashcut-config-version.cmake
  DESTINATION ${home}/cmake)

file(RELATIVE_PATH crashcut_pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/crashcut.pc.in ${CMAKE_BINARY_DIR}/crashcut.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/crashcut.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
