# Whether the subject pytorch is built, LOCKSTEP_PYTORCH_BUILT. It needs .venv-peer (./lockstep setup
# --peer), whose PyTorch has to be of LibTorch's release, and Python's headers and library. Else
# LOCKSTEP_PYTORCH_WHY says in a sentence what is missing. The package for Python has found its own before
# (cmake/PythonPackage.cmake), and needs no library: a Python loads it.

set(LOCKSTEP_PEER "${PROJECT_SOURCE_DIR}/.venv-peer" CACHE PATH "The environment that holds PyTorch itself")

# lockstep_find_peer(): sets LOCKSTEP_PYTORCH_WHY, and where that is empty LOCKSTEP_PEER_TORCH,
# LOCKSTEP_PEER_PYTHON_INCLUDE and LOCKSTEP_PEER_PYTHON_LIBRARY.
function(lockstep_find_peer)
  set(LOCKSTEP_PEER_TORCH "" PARENT_SCOPE)
  file(GLOB torch "${LOCKSTEP_PEER}/lib/python3*/site-packages/torch")
  list(LENGTH torch count)
  if(NOT count EQUAL 1 OR NOT EXISTS "${LOCKSTEP_PEER}/.complete")
    set(LOCKSTEP_PYTORCH_WHY "PyTorch is not installed: ./lockstep setup --peer installs it in .venv-peer" PARENT_SCOPE)
    return()
  endif()
  lockstep_torch_version("${torch}" peer)
  lockstep_torch_version("${LOCKSTEP_TORCH}" own)
  if(NOT peer STREQUAL own)
    set(LOCKSTEP_PYTORCH_WHY "PyTorch in ${LOCKSTEP_PEER} is of ${peer} and this program's LibTorch of ${own}: \
pass -DLOCKSTEP_TORCH=${torch} to build with that one" PARENT_SCOPE)
    return()
  endif()
  if(LOCKSTEP_SANITIZE)
    set(LOCKSTEP_PYTORCH_WHY "this program was built with sanitizers (${LOCKSTEP_SANITIZE}), and Python was not" PARENT_SCOPE)
    return()
  endif()
  execute_process(
    COMMAND "${LOCKSTEP_PEER}/bin/python" -I -c "import sysconfig as s; print(s.get_path('include'), \
s.get_config_var('LIBDIR') + '/' + s.get_config_var('LDLIBRARY'), sep=';')"
    OUTPUT_VARIABLE paths OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
  list(APPEND paths missing missing)
  list(GET paths 0 include)
  list(GET paths 1 library)
  if(failed OR NOT EXISTS "${include}/Python.h" OR NOT EXISTS "${library}" OR NOT library MATCHES "\\.so")
    set(LOCKSTEP_PYTORCH_WHY "Python's headers or its shared library are not installed: ./lockstep setup \
installs them (python3-dev)" PARENT_SCOPE)
    return()
  endif()
  set(LOCKSTEP_PYTORCH_WHY "" PARENT_SCOPE)
  set(LOCKSTEP_PEER_TORCH "${torch}" PARENT_SCOPE)
  set(LOCKSTEP_PEER_PYTHON_INCLUDE "${include}" PARENT_SCOPE)
  set(LOCKSTEP_PEER_PYTHON_LIBRARY "${library}" PARENT_SCOPE)
endfunction()

# lockstep_release_of_peer(): sets LOCKSTEP_PEER_RELEASE, such as 2.11.0+cu130. The program is built anew where
# it changes, and compares it with what is there as it runs.
function(lockstep_release_of_peer)
  set(file "${LOCKSTEP_PEER_TORCH}/version.py")
  file(STRINGS "${file}" release REGEX "^__version__ = '")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
  string(REGEX REPLACE "^__version__ = '([^']*)'.*" "\\1" release "${release}")
  set(LOCKSTEP_PEER_RELEASE "${release}" PARENT_SCOPE)
endfunction()

if(NOT LOCKSTEP_PYTHON_PACKAGE)
  lockstep_find_peer()
endif()
set(LOCKSTEP_PYTORCH_BUILT FALSE)
if(LOCKSTEP_PYTORCH_WHY)
  message(STATUS "PyTorch: no, ${LOCKSTEP_PYTORCH_WHY}")
else()
  set(LOCKSTEP_PYTORCH_BUILT TRUE)
  lockstep_release_of_peer()
  message(STATUS "PyTorch: yes, ${LOCKSTEP_PEER_RELEASE} in ${LOCKSTEP_PEER_TORCH}")
endif()
