# What `cmake --install` installs, part by part: each part is a component of the install and of the
# package, so that find_package(lockstep COMPONENTS ddp) finds what --component ddp installed.
#
#   include/lockstep/ddp.h          all of it in one header: "lockstep/ddp.h"
#   include/lockstep/ddp/           its parts, included as in this tree: "ddp/init.h"
#   lib/liblockstep_ddp.a ...       static libraries
#   lib/cmake/lockstep/             the package: lockstep::ddp and LibTorch::cpu
#   include/lockstep/recorder.h     component recorder, in a build with the harness: lockstep::recorder
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
if(LOCKSTEP_HARNESS)
  # By lockstep::recorder users link it; the others are its parts.
  set_target_properties(lockstep_record PROPERTIES EXPORT_NAME recorder)
  set(lockstep_parts lockstep_recorder lockstep_recorder_plain lockstep_process lockstep_core)
  foreach(part IN LISTS lockstep_parts)
    string(REPLACE lockstep_ harness_ lockstep_part_name ${part})
    set_target_properties(${part} PROPERTIES EXPORT_NAME ${lockstep_part_name})
  endforeach()
  install(TARGETS lockstep_record ${lockstep_parts} EXPORT lockstepRecorderTargets
          ARCHIVE COMPONENT recorder
          INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
  install(FILES recorder/cpp/lockstep/recorder.h DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/lockstep"
          COMPONENT recorder)
  install(EXPORT lockstepRecorderTargets NAMESPACE lockstep:: DESTINATION "${lockstep_package_folder}"
          COMPONENT recorder)
endif()
install(FILES cmake/LibTorchTarget.cmake "${PROJECT_BINARY_DIR}/package/lockstepConfig.cmake"
              "${PROJECT_BINARY_DIR}/package/lockstepConfigVersion.cmake"
        DESTINATION "${lockstep_package_folder}" COMPONENT ddp)
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT ddp)
