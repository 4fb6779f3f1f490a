# Writes FILE, which adds a CTest test for each scenario that PROGRAM lists. A script of
# LockstepDiscoverScenarios.cmake, which explains the variables that it is given.
cmake_minimum_required(VERSION 3.25)

set(json "${FILE}.json")
file(REMOVE "${FILE}" "${json}")
execute_process(COMMAND "${PROGRAM}" list ${SELECT} --json "${json}" TIMEOUT ${DISCOVERY_TIMEOUT}
                WORKING_DIRECTORY "${WORKING_DIRECTORY}" RESULT_VARIABLE failed OUTPUT_QUIET ERROR_VARIABLE said)
if(NOT failed EQUAL 0)
  string(STRIP "${said}" said)
  message(FATAL_ERROR "lockstep_discover_scenarios: ${PROGRAM} does not list its scenarios (${failed})\n${said}")
endif()
file(READ "${json}" json)

# A case that hangs is run again, and made smaller, before its story is told: so many deadlines, and time for the
# other cases on a busy machine.
math(EXPR timeout "300 + 4 * ${CASE_TIMEOUT}")

# quoted(VARIABLE ARGUMENT...): the arguments, each in brackets.
function(quoted variable)
  set(text "")
  foreach(argument IN LISTS ARGN)
    string(APPEND text " [==[${argument}]==]")
  endforeach()
  set(${variable} "${text}" PARENT_SCOPE)
endfunction()

quoted(extra ${EXTRA_ARGS})
quoted(further ${PROPERTIES})
set(script "")
set(tests "")
string(JSON count LENGTH "${json}" scenarios)
math(EXPR last "${count} - 1")
foreach(index RANGE ${last})
  string(JSON name GET "${json}" scenarios ${index} name)
  string(JSON tag_count LENGTH "${json}" scenarios ${index} tags)
  set(labels "")
  if(tag_count)
    math(EXPR last_tag "${tag_count} - 1")
    foreach(tag_index RANGE ${last_tag})
      string(JSON tag GET "${json}" scenarios ${index} tags ${tag_index})
      list(APPEND labels "${tag}")
    endforeach()
  endif()
  set(test "${TEST_PREFIX}${name}${TEST_SUFFIX}")
  list(APPEND tests "${test}")
  quoted(command "${PROGRAM}" run "${name}" -j ${PROCESSORS} --timeout ${CASE_TIMEOUT})
  string(APPEND script
         "add_test([==[${test}]==]${command}${extra})\n"
         "set_tests_properties([==[${test}]==] PROPERTIES LABELS [==[${labels}]==] PROCESSORS ${PROCESSORS} TIMEOUT "
         "${timeout} SKIP_RETURN_CODE 77 WORKING_DIRECTORY [==[${WORKING_DIRECTORY}]==]${further})\n")
endforeach()
quoted(tests ${tests})
file(WRITE "${FILE}" "${script}set(${TEST_LIST}${tests})\n")
