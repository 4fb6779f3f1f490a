# LibTorch, found and never downloaded. One imported target, LibTorch::cpu, is all the tree sees.
#
# The wheel's own TorchConfig insists on nvcc and links libtorch.so, which drags in the CUDA
# libraries; so the target is ours and names the CPU libraries alone. LOCKSTEP_TORCH points at any
# other LibTorch (the folder that holds include/ and lib/).

if(NOT LOCKSTEP_TORCH)
  file(GLOB found "${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch")
  list(LENGTH found found_count)
  if(NOT found_count EQUAL 1)
    message(FATAL_ERROR "No LibTorch in .venv: run ./lockstep setup, or pass -DLOCKSTEP_TORCH=FOLDER "
                        "(the folder that holds include/ and lib/).")
  endif()
  set(LOCKSTEP_TORCH "${found}" CACHE PATH "The LibTorch folder that holds include/ and lib/")
endif()

foreach(needed include/torch/csrc/api/include/torch/torch.h lib/libtorch_cpu.so lib/libc10.so)
  if(NOT EXISTS "${LOCKSTEP_TORCH}/${needed}")
    message(FATAL_ERROR "LOCKSTEP_TORCH=${LOCKSTEP_TORCH} holds no ${needed}: that is no LibTorch.")
  endif()
endforeach()

find_path(LOCKSTEP_GLOO_INCLUDE gloo/context.h REQUIRED
          DOC "The folder that holds gloo/context.h (headers alone; Gloo itself is in libtorch_cpu)")

add_library(LibTorch::c10 SHARED IMPORTED)
set_target_properties(LibTorch::c10 PROPERTIES IMPORTED_LOCATION "${LOCKSTEP_TORCH}/lib/libc10.so")
add_library(LibTorch::torch_cpu SHARED IMPORTED)
set_target_properties(LibTorch::torch_cpu PROPERTIES
                      IMPORTED_LOCATION "${LOCKSTEP_TORCH}/lib/libtorch_cpu.so")

add_library(LibTorch::cpu INTERFACE IMPORTED)
# Without these macros the c10d headers are silently empty.
target_compile_definitions(LibTorch::cpu INTERFACE USE_DISTRIBUTED USE_C10D USE_C10D_GLOO)
target_include_directories(LibTorch::cpu SYSTEM INTERFACE
                           "${LOCKSTEP_TORCH}/include"
                           "${LOCKSTEP_TORCH}/include/torch/csrc/api/include"
                           "${LOCKSTEP_GLOO_INCLUDE}")
target_link_libraries(LibTorch::cpu INTERFACE LibTorch::torch_cpu LibTorch::c10)
target_link_options(LibTorch::cpu INTERFACE -Wl,--allow-shlib-undefined)
