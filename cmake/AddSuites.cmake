# Writes FILE, which adds a CTest test for each suite that PROGRAM, a GoogleTest program, lists. A script of
# lockstep_test(), cmake/Targets.cmake.
cmake_minimum_required(VERSION 3.25)

execute_process(COMMAND "${PROGRAM}" --gtest_list_tests TIMEOUT 60 RESULT_VARIABLE failed
                OUTPUT_VARIABLE listed ERROR_VARIABLE said)
# A suite's name ends with a dot; its tests are indented.
string(REGEX MATCHALL "(^|\n)[A-Za-z0-9_/]+\\." suites "${listed}")
if(NOT failed EQUAL 0 OR NOT suites)
  message(FATAL_ERROR "${PROGRAM} does not list its tests (${failed})\n${said}")
endif()
set(script "")
foreach(suite IN LISTS suites)
  string(REGEX REPLACE "[\n.]" "" suite "${suite}")
  string(APPEND script
         "add_test([==[${NAME}.${suite}]==] [==[${PROGRAM}]==] [==[--gtest_filter=${suite}.*]==])\n"
         "set_tests_properties([==[${NAME}.${suite}]==] PROPERTIES TIMEOUT 900 SKIP_RETURN_CODE 77 LABELS ${LABEL})\n")
endforeach()
file(WRITE "${FILE}" "${script}")
