# LibTorch for this tree, found and never downloaded: in .venv, or in the folder that LOCKSTEP_TORCH
# names (it holds include/ and lib/). One imported target, LibTorch::cpu, is all the tree sees.

if(NOT LOCKSTEP_TORCH)
  file(GLOB found "${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch")
  list(LENGTH found found_count)
  if(NOT found_count EQUAL 1)
    message(FATAL_ERROR "No LibTorch in .venv: run ./lockstep setup, or pass -DLOCKSTEP_TORCH=FOLDER "
                        "(the folder that holds include/ and lib/).")
  endif()
  set(LOCKSTEP_TORCH "${found}" CACHE PATH "The LibTorch folder that holds include/ and lib/")
endif()

include("${CMAKE_CURRENT_LIST_DIR}/LibTorchTarget.cmake")
lockstep_import_torch("${LOCKSTEP_TORCH}" problem)
if(problem)
  message(FATAL_ERROR "LOCKSTEP_TORCH=${LOCKSTEP_TORCH} ${problem}")
endif()

find_path(LOCKSTEP_GLOO_INCLUDE gloo/context.h REQUIRED
          DOC "The folder that holds gloo/context.h (headers alone; Gloo itself is in libtorch_cpu)")
# In this tree alone: no public header includes Gloo's.
target_include_directories(LibTorch::cpu SYSTEM INTERFACE "${LOCKSTEP_GLOO_INCLUDE}")
