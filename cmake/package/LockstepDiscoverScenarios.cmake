# lockstep_discover_scenarios(TARGET
#   [SELECT argument...] [EXTRA_ARGS argument...]
#   [PROCESSORS count] [CASE_TIMEOUT seconds]
#   [WORKING_DIRECTORY folder] [TEST_PREFIX prefix] [TEST_SUFFIX suffix] [TEST_LIST variable]
#   [PROPERTIES name value...] [DISCOVERY_TIMEOUT seconds])
#
# A CTest test for each scenario that TARGET lists, a program that calls lockstep::main. The form is that of
# gtest_discover_tests: the program is asked as it has been built, and may be registered more than once, for another
# subject say, with another TEST_PREFIX.
#
#   SELECT             which scenarios: the arguments of `list`, such as `gradients sampler` or `--tag core`
#   EXTRA_ARGS         further arguments of `run`, such as `--subject mine --tier sim --seed 7`
#   PROCESSORS         ranks alive at once (2): `run -j`, and the test's property, by which ctest -j plans
#   CASE_TIMEOUT       seconds that one case may take (30): `run --timeout`. The test's own TIMEOUT is well above, so
#                      that a case that hangs is a verdict with its story, and not a test that ctest has killed
#   WORKING_DIRECTORY  where .lockstep is, with the failures (CMAKE_CURRENT_BINARY_DIR)
#   TEST_LIST          the variable with the tests' names, for TEST_INCLUDE_FILES (TARGET_SCENARIOS)
#   PROPERTIES         further properties of every test, which win over those that are set here
#   DISCOVERY_TIMEOUT  seconds that the program may take to list its scenarios (60: LibTorch is loaded)
#
# A test has its scenario's tags as LABELS, and SKIP_RETURN_CODE 77: a scenario whose every case the subject refuses is
# skipped.
set(_LOCKSTEP_ADD_SCENARIOS "${CMAKE_CURRENT_LIST_DIR}/LockstepAddScenarios.cmake")

function(lockstep_discover_scenarios target)
  set(one PROCESSORS CASE_TIMEOUT WORKING_DIRECTORY TEST_PREFIX TEST_SUFFIX TEST_LIST DISCOVERY_TIMEOUT)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "${one}" "SELECT;EXTRA_ARGS;PROPERTIES")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "lockstep_discover_scenarios(${target}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  foreach(default PROCESSORS:2 CASE_TIMEOUT:30 DISCOVERY_TIMEOUT:60 TEST_LIST:${target}_SCENARIOS)
    string(REGEX MATCH "^([A-Z_]+):(.*)$" default "${default}")
    if(NOT DEFINED arg_${CMAKE_MATCH_1})
      set(arg_${CMAKE_MATCH_1} "${CMAKE_MATCH_2}")
    endif()
  endforeach()
  foreach(number PROCESSORS CASE_TIMEOUT DISCOVERY_TIMEOUT)
    if(NOT arg_${number} MATCHES "^[1-9][0-9]*$")
      message(FATAL_ERROR "lockstep_discover_scenarios(${target}): ${number} is '${arg_${number}}', expected a whole "
                          "number from 1")
    endif()
  endforeach()
  if(NOT TARGET ${target})
    message(FATAL_ERROR "lockstep_discover_scenarios(${target}): there is no target ${target}")
  endif()
  if(NOT arg_WORKING_DIRECTORY)
    set(arg_WORKING_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}")
  endif()

  get_property(calls TARGET ${target} PROPERTY LOCKSTEP_DISCOVER_CALLS)
  math(EXPR calls "0${calls} + 1")
  set_property(TARGET ${target} PROPERTY LOCKSTEP_DISCOVER_CALLS ${calls})
  set(base "${CMAKE_CURRENT_BINARY_DIR}/${target}_scenarios_${calls}")
  # Each by itself: in a list of these, those that are lists would fall apart.
  add_custom_command(TARGET ${target} POST_BUILD BYPRODUCTS "${base}_tests.cmake" VERBATIM
    COMMAND "${CMAKE_COMMAND}" -D "PROGRAM=$<TARGET_FILE:${target}>" -D "FILE=${base}_tests.cmake"
            -D "SELECT=${arg_SELECT}" -D "EXTRA_ARGS=${arg_EXTRA_ARGS}" -D "PROPERTIES=${arg_PROPERTIES}"
            -D "PROCESSORS=${arg_PROCESSORS}" -D "CASE_TIMEOUT=${arg_CASE_TIMEOUT}"
            -D "WORKING_DIRECTORY=${arg_WORKING_DIRECTORY}" -D "TEST_PREFIX=${arg_TEST_PREFIX}"
            -D "TEST_SUFFIX=${arg_TEST_SUFFIX}" -D "TEST_LIST=${arg_TEST_LIST}"
            -D "DISCOVERY_TIMEOUT=${arg_DISCOVERY_TIMEOUT}" -P "${_LOCKSTEP_ADD_SCENARIOS}")
  file(WRITE "${base}_include.cmake"
       "if(EXISTS \"${base}_tests.cmake\")\n  include(\"${base}_tests.cmake\")\n"
       "else()\n  add_test(${target}_NOT_BUILT ${target}_NOT_BUILT)\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${base}_include.cmake")
endfunction()
