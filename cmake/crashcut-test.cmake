# crashcut_add_test(): a crash test of a program as a test of CTest.
#
#   crashcut_add_test(NAME save COMMAND save notes.txt FILES notes.txt SETUP "echo old > notes.txt")
#
# COMMAND    a target or a program, and its arguments. For kinds other than check it may be a C or C++ file: crashcut compiles it.
# KIND       check (default), run, threads, pmem or cxl: the command of crashcut
# SETUP      check: a shell command that runs first; what it leaves is durable
# FILES      check: these files must be found old or new, whole
# CHECKER    check: a shell command that looks at a crashed disk; status 0 is fine
# MODEL      the journaling mode: ordered, journal or writeback
# TIME       seconds; then the search stops
# OPTIONS    other options of that command of crashcut
#
# The test passes if crashcut has verified the program. It fails on a violation, and its output is the report. It is "Skipped" if a bound
# ended the search with nothing found. Programs for pmem and cxl are compiled with crashcut_pmem().
function(crashcut_add_test)
  set(check_only SETUP CHECKER FILES)
  cmake_parse_arguments(PARSE_ARGV 0 TEST "" "NAME;KIND;SETUP;CHECKER;MODEL;TIME" "COMMAND;FILES;OPTIONS")
  if(TEST_UNPARSED_ARGUMENTS OR NOT TEST_NAME OR NOT TEST_COMMAND)
    message(FATAL_ERROR "crashcut_add_test() needs NAME and COMMAND, and does not know: ${TEST_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT TEST_KIND)
    set(TEST_KIND check)
  elseif(NOT TEST_KIND MATCHES "^(check|run|threads|pmem|cxl)$")
    message(FATAL_ERROR "crashcut_add_test(NAME ${TEST_NAME}): KIND is check, run, threads, pmem or cxl, not ${TEST_KIND}")
  endif()
  set(words ${TEST_OPTIONS})
  foreach(option IN ITEMS SETUP:setup CHECKER:check FILES:file MODEL:data TIME:time)
    string(REPLACE ":" ";" option ${option})
    list(GET option 0 name)
    list(GET option 1 word)
    if(name IN_LIST check_only AND DEFINED TEST_${name} AND NOT TEST_KIND STREQUAL "check")
      message(FATAL_ERROR "crashcut_add_test(NAME ${TEST_NAME}): ${name} is for KIND check. The program itself sets up and checks otherwise.")
    endif()
    foreach(value IN LISTS TEST_${name})
      list(APPEND words --${word} ${value})
    endforeach()
  endforeach()
  list(POP_FRONT TEST_COMMAND program)
  if(TARGET ${program})
    set(program $<TARGET_FILE:${program}>)
  elseif(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${program})
    set(program ${CMAKE_CURRENT_SOURCE_DIR}/${program})
  endif()
  # Beside crashcut's libraries, in cmake/.
  add_test(NAME ${TEST_NAME}
    COMMAND ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../crashcut ${TEST_KIND} ${words} -- ${program} ${TEST_COMMAND})
  set_tests_properties(${TEST_NAME} PROPERTIES LABELS crashcut SKIP_RETURN_CODE 3)
endfunction()

# crashcut_gtest.h, which runs this crashcut.
if(NOT TARGET crashcut::gtest)
  add_library(crashcut::gtest INTERFACE IMPORTED)
  get_filename_component(crashcut_home ${CMAKE_CURRENT_LIST_DIR}/.. ABSOLUTE)
  set_target_properties(crashcut::gtest PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES ${crashcut_home}/include
    INTERFACE_COMPILE_DEFINITIONS "CRASHCUT_COMMAND=\"${crashcut_home}/crashcut\"")
endif()
