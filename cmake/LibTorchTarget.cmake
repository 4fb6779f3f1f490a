# LibTorch as one imported target, LibTorch::cpu. Part of this tree, and of the package that is made of
# it: whoever uses the package gets LibTorch by the same rules.
#
# The wheel's own TorchConfig insists on nvcc and links libtorch.so, which drags in the CUDA
# libraries; so the target is ours and names the CPU libraries alone. Whoever wants the others names
# LibTorch::cuda, which is there where LibTorch has them.

# lockstep_import_torch(FOLDER PROBLEM): FOLDER holds include/ and lib/. Where it does not there is no
# target, and PROBLEM is the end of a sentence about it; else PROBLEM is empty.
function(lockstep_import_torch folder problem)
  foreach(needed include/torch/csrc/api/include/torch/torch.h lib/libtorch_cpu.so lib/libc10.so)
    if(NOT EXISTS "${folder}/${needed}")
      set(${problem} "holds no ${needed}: that is no LibTorch." PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(${problem} "" PARENT_SCOPE)
  if(TARGET LibTorch::cpu)
    return()
  endif()

  add_library(LibTorch::c10 SHARED IMPORTED)
  set_target_properties(LibTorch::c10 PROPERTIES IMPORTED_LOCATION "${folder}/lib/libc10.so")
  add_library(LibTorch::torch_cpu SHARED IMPORTED)
  set_target_properties(LibTorch::torch_cpu PROPERTIES
                        IMPORTED_LOCATION "${folder}/lib/libtorch_cpu.so")

  add_library(LibTorch::cpu INTERFACE IMPORTED)
  # Without these macros the c10d headers are silently empty.
  target_compile_definitions(LibTorch::cpu INTERFACE USE_DISTRIBUTED USE_C10D USE_C10D_GLOO)
  target_include_directories(LibTorch::cpu SYSTEM INTERFACE
                             "${folder}/include" "${folder}/include/torch/csrc/api/include")
  target_link_libraries(LibTorch::cpu INTERFACE LibTorch::torch_cpu LibTorch::c10)
  target_link_options(LibTorch::cpu INTERFACE -Wl,--allow-shlib-undefined)
  # PyTorch's own builds hold Gloo, which LibTorch's headers call; Debian's is linked with Debian's.
  execute_process(COMMAND "${CMAKE_READELF}" -d "${folder}/lib/libtorch_cpu.so" OUTPUT_VARIABLE libraries ERROR_QUIET)
  if(libraries MATCHES "\\[libgloo\\.so")
    target_link_libraries(LibTorch::cpu INTERFACE gloo)
  endif()

  # Nothing refers to it by name: its initialisers tell LibTorch of CUDA.
  if(EXISTS "${folder}/lib/libtorch_cuda.so")
    add_library(LibTorch::cuda INTERFACE IMPORTED)
    target_link_libraries(LibTorch::cuda INTERFACE LibTorch::cpu
      "-Wl,--no-as-needed,${folder}/lib/libtorch_cuda.so,${folder}/lib/libc10_cuda.so,--as-needed")
  endif()
endfunction()

# lockstep_torch_version(FOLDER VERSION): such as 2.11; "unknown" where the headers do not tell.
function(lockstep_torch_version folder version)
  set(${version} unknown PARENT_SCOPE)
  # The second is where it was until 2.8.
  foreach(header include/torch/headeronly/version.h include/torch/csrc/api/include/torch/version.h)
    if(EXISTS "${folder}/${header}")
      file(READ "${folder}/${header}" text)
      if(text MATCHES "TORCH_VERSION_MAJOR ([0-9]+).*TORCH_VERSION_MINOR ([0-9]+)")
        set(${version} "${CMAKE_MATCH_1}.${CMAKE_MATCH_2}" PARENT_SCOPE)
        return()
      endif()
    endif()
  endforeach()
endfunction()
