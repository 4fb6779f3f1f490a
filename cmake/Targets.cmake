# Two ways to make a library of this tree: with torch or without. Everything is compiled with the
# same flags (-fPIC, -pthread), or the precompiled headers could not be shared.

# lockstep_header(NAME OPTIMIZE [TORCH]): the precompiled header of JSON and RapidCheck, and of LibTorch,
# for files of one optimisation level, which clang requires to agree.
function(lockstep_header name optimize)
  cmake_parse_arguments(arg "TORCH" "" "" ${ARGN})
  set(kind plain)
  if(arg_TORCH)
    set(kind torch)
  endif()
  add_library(${name} STATIC "${PROJECT_SOURCE_DIR}/cmake/${kind}_header.cpp")
  target_link_libraries(${name} PUBLIC nlohmann_json::nlohmann_json rapidcheck $<$<BOOL:${arg_TORCH}>:LibTorch::cpu>)
  target_compile_options(${name} PRIVATE ${optimize})
  target_precompile_headers(${name} PRIVATE "${PROJECT_SOURCE_DIR}/cmake/plain_header.h")
  if(arg_TORCH)
    target_precompile_headers(${name} PRIVATE "${PROJECT_SOURCE_DIR}/cmake/torch_header.h")
  endif()
endfunction()

# lockstep_library(NAME [PLAIN | LIBTORCH | TORCH] [APART] [TEST] SOURCES a.cpp ... [LINK target ...])
# SOURCES may be empty: then the library is its headers. The first option names the precompiled header
# that its files share: PLAIN of JSON and RapidCheck, LIBTORCH of LibTorch alone (ddp/, reference/),
# TORCH of both. LOCKSTEP_BATCHED compiles files six at a time, twelve with torch, each batch of which
# pays four seconds for templates, so that names in unnamed namespaces must differ within a library;
# APART: not this library's. TEST: files with torch are compiled as LOCKSTEP_OPTIMIZE_TESTS says.
function(lockstep_library name)
  cmake_parse_arguments(arg "TORCH;LIBTORCH;APART;PLAIN;TEST" "" "SOURCES;LINK" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "lockstep_library(${name}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_SOURCES)
    add_library(${name} INTERFACE)
    target_include_directories(${name} INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>")
    target_link_libraries(${name} INTERFACE ${arg_LINK})
    return()
  endif()
  add_library(${name} STATIC ${arg_SOURCES})
  # What is for this tree alone stays out of the package that is made of some of its libraries.
  target_include_directories(${name} PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>")
  target_link_libraries(${name} PUBLIC ${arg_LINK} PRIVATE $<BUILD_INTERFACE:lockstep_warnings>)
  set(optimize)
  if(arg_TORCH OR arg_LIBTORCH)
    target_link_libraries(${name} PUBLIC LibTorch::cpu)
    set(optimize "${LOCKSTEP_OPTIMIZE_TORCH}")
  endif()
  # Tests without torch compute, and templates that they compile without optimising serve the whole program.
  set(of_test)
  if(arg_TEST AND arg_TORCH AND LOCKSTEP_OPTIMIZE_TESTS)
    set(optimize "${LOCKSTEP_OPTIMIZE_TESTS}")
    set(of_test _test)
  endif()
  target_compile_options(${name} PRIVATE ${optimize})
  if(arg_PLAIN)
    target_precompile_headers(${name} REUSE_FROM lockstep_plain_header)
  elseif(arg_TORCH)
    target_precompile_headers(${name} REUSE_FROM lockstep_torch${of_test}_header)
  elseif(arg_LIBTORCH)
    target_precompile_headers(${name} REUSE_FROM lockstep_libtorch_header)
  endif()
  if(LOCKSTEP_BATCHED AND NOT arg_APART)
    set(batch 6)
    if(arg_TORCH OR arg_LIBTORCH)
      set(batch 12)
    endif()
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${batch})
  endif()
endfunction()

# lockstep_test(NAME [PLAIN | TORCH] [APART] [LONG] SOURCES a.cpp ... [LINK target ...])
# A GoogleTest program. Its files go into a library of their own: CMake compiles executables with
# -fPIE, which silently drops a precompiled header. CTest runs each of its tests by itself; with TORCH
# each suite, since loading LibTorch takes a third of a second. LONG: each test, and these first.
function(lockstep_test name)
  cmake_parse_arguments(arg "TORCH;APART;PLAIN;LONG" "" "SOURCES;LINK" ${ARGN})
  set(how)
  foreach(option TORCH APART PLAIN)
    if(arg_${option})
      list(APPEND how ${option})
    endif()
  endforeach()
  lockstep_library(${name}_cases TEST ${how} SOURCES ${arg_SOURCES} LINK ${arg_LINK} GTest::gtest)
  add_executable(${name} "${PROJECT_SOURCE_DIR}/tests/main.cpp")
  # Whole, since nothing refers to a test by name.
  target_link_libraries(${name} PRIVATE -Wl,--whole-archive ${name}_cases -Wl,--no-whole-archive
                                        ${arg_LINK} GTest::gtest)
  # "quick" needs no torch; the others are what they test.
  set(label quick)
  if(arg_TORCH)
    cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY "${PROJECT_SOURCE_DIR}/tests" OUTPUT_VARIABLE folder)
    set(label worlds)
    if(folder MATCHES "^(ddp|train|reference)")
      set(label ddp)
    elseif(folder MATCHES "^(scenarios|demos)")
      set(label scenarios)
    endif()
  endif()
  set_property(GLOBAL APPEND PROPERTY lockstep_tests_${label} ${name})
  if(arg_TORCH AND NOT arg_LONG)
    set(suites "${CMAKE_CURRENT_BINARY_DIR}/${name}_suites.cmake")
    add_custom_command(TARGET ${name} POST_BUILD BYPRODUCTS "${suites}" VERBATIM
                       COMMAND "${CMAKE_COMMAND}" -D "NAME=${name}" -D "PROGRAM=$<TARGET_FILE:${name}>" -D "FILE=${suites}" -D "LABEL=${label}"
                               -P "${PROJECT_SOURCE_DIR}/cmake/AddSuites.cmake")
    # Until it is built, one test that fails stands for all.
    set(included "${CMAKE_CURRENT_BINARY_DIR}/${name}_included.cmake")
    file(WRITE "${included}" "if(EXISTS [==[${suites}]==])\n  include([==[${suites}]==])\nelse()\n"
                             "  add_test(${name}_NOT_BUILT ${name}_NOT_BUILT)\nendif()\n")
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${included}")
    return()
  endif()
  set(cost 0)
  if(arg_LONG)
    set(cost 200)
  endif()
  gtest_discover_tests(${name} TEST_PREFIX "${name}." DISCOVERY_TIMEOUT 60
                       PROPERTIES TIMEOUT 900 COST ${cost} LABELS ${label})
endfunction()

# lockstep_nightly_test(NAME COMMAND ...): a test of hours rather than minutes, which ./lockstep test leaves
# out: one of the suite's with many more cases, or drawn mutants.
function(lockstep_nightly_test name)
  add_test(NAME nightly.${name} ${ARGN})
  set_tests_properties(nightly.${name} PROPERTIES LABELS nightly TIMEOUT 14400 SKIP_RETURN_CODE 77
                                                  ENVIRONMENT LOCKSTEP_CAMPAIGNS=1)
endfunction()

# lockstep_outside_tests(): the tests of this folder that have no label run programs from outside.
function(lockstep_outside_tests)
  get_property(tests DIRECTORY PROPERTY TESTS)
  foreach(test IN LISTS tests)
    get_test_property("${test}" LABELS labels)
    if(NOT labels)
      set_tests_properties("${test}" PROPERTIES LABELS outside)
    endif()
  endforeach()
endfunction()
