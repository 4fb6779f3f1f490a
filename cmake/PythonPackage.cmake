# Where LOCKSTEP_PYTHON_PACKAGE is on, the package `lockstep` for Python is built (pyproject.toml) against the PyTorch
# of the environment that runs the build. Sets LOCKSTEP_TORCH, and what cmake/Peer.cmake looks for else.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
execute_process(
  COMMAND "${Python3_EXECUTABLE}" -I -c "import importlib.util, pathlib, sys, sysconfig; torch = importlib.util.find_spec('torch'); \
print(sys.prefix, torch and pathlib.Path(torch.origin).parent, sysconfig.get_path('include'), sep=';')"
  OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
list(GET found 0 LOCKSTEP_PEER)
list(GET found 1 LOCKSTEP_PEER_TORCH)
list(GET found 2 LOCKSTEP_PEER_PYTHON_INCLUDE)
if(NOT EXISTS "${LOCKSTEP_PEER_TORCH}/lib/libtorch_python.so")
  message(FATAL_ERROR "${LOCKSTEP_PEER} holds no PyTorch: the package is built against that of the environment which it is \
for, so install torch there first")
endif()
if(NOT EXISTS "${LOCKSTEP_PEER_PYTHON_INCLUDE}/Python.h")
  message(FATAL_ERROR "${LOCKSTEP_PEER_PYTHON_INCLUDE} holds no Python.h: ./lockstep setup installs it (python3-dev)")
endif()
set(LOCKSTEP_TORCH "${LOCKSTEP_PEER_TORCH}")
