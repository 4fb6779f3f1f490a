# What `cmake --install` installs, part by part: each part is a component of the install and of the
# package, so that find_package(lockstep COMPONENTS ddp) finds what --component ddp installed.
#
#   include/lockstep/ddp.h          all of it in one header: "lockstep/ddp.h"
#   include/lockstep/ddp/           its parts, included as in this tree: "ddp/init.h"
#   lib/liblockstep_ddp.a ...       static libraries
#   lib/cmake/lockstep/             the package: lockstep::ddp and LibTorch::cpu
#   lib/liblockstep_nccl.so         component nccl, where it is built: lockstep::ddp loads it when it is needed

include(CMakePackageConfigHelpers)

set(lockstep_package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/lockstep")
lockstep_torch_version("${LOCKSTEP_TORCH}" LOCKSTEP_TORCH_VERSION)
configure_file(cmake/package/lockstepConfig.cmake.in
               "${PROJECT_BINARY_DIR}/package/lockstepConfig.cmake" @ONLY)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/package/lockstepConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)

install(TARGETS lockstep_ddp lockstep_ddp_nccl lockstep_ddp_plan EXPORT lockstepTargets
        ARCHIVE COMPONENT ddp
        INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" "${CMAKE_INSTALL_INCLUDEDIR}/lockstep")
# All of them: those that users include, include the others.
install(DIRECTORY ddp DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/lockstep" COMPONENT ddp
        FILES_MATCHING PATTERN "*.h" PATTERN lockstep EXCLUDE)
install(FILES ddp/lockstep/ddp.h DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/lockstep" COMPONENT ddp)
install(EXPORT lockstepTargets NAMESPACE lockstep:: DESTINATION "${lockstep_package_folder}"
        COMPONENT ddp)
if(LOCKSTEP_NCCL_BUILT)
  set_target_properties(lockstep_nccl PROPERTIES INSTALL_RPATH "${LOCKSTEP_TORCH}/lib")
  install(TARGETS lockstep_nccl EXPORT lockstepNcclTargets
          LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT nccl)
  install(EXPORT lockstepNcclTargets NAMESPACE lockstep:: DESTINATION "${lockstep_package_folder}"
          COMPONENT nccl)
endif()
install(FILES cmake/LibTorchTarget.cmake "${PROJECT_BINARY_DIR}/package/lockstepConfig.cmake"
              "${PROJECT_BINARY_DIR}/package/lockstepConfigVersion.cmake"
        DESTINATION "${lockstep_package_folder}" COMPONENT ddp)
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT ddp)
