# What `cmake --install` installs, part by part: each part is a component of the install and of the
# package, so that find_package(lockstep COMPONENTS ddp) finds what --component ddp installed.
#
#   include/lockstep/ddp.h          all of it in one header: "lockstep/ddp.h"
#   include/lockstep/ddp/, train/   its parts, included as in this tree: "ddp/init.h"
#   lib/liblockstep_ddp.a ...       static libraries
#   lib/cmake/lockstep/             the package: lockstep::ddp and LibTorch::cpu
#   include/lockstep/recorder.h     component recorder, in a build with the harness: lockstep::recorder
#   include/lockstep/harness.h      component harness, in such a build, with nothing of ddp: lockstep::harness,
#   include/lockstep/harness/       the headers that it includes (docs/bring_your_own.md),
#   lib/cmake/lockstep/             lockstep_discover_scenarios, and where it is built
#   lib/liblockstep_harness_nccl.so what lockstep::harness loads for NCCL
#   share/bash-completion, ...      component shell, in such a build: completion for bash, zsh and fish, and the manual page
#   lib/liblockstep_nccl.so         component nccl, where it is built: lockstep::ddp loads it when it is needed

include(CMakePackageConfigHelpers)

set(lockstep_package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/lockstep")
lockstep_torch_version("${LOCKSTEP_TORCH}" LOCKSTEP_TORCH_VERSION)
configure_file(cmake/package/lockstepConfig.cmake.in
               "${PROJECT_BINARY_DIR}/package/lockstepConfig.cmake" @ONLY)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/package/lockstepConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)

install(TARGETS lockstep_train lockstep_ddp lockstep_ddp_nccl lockstep_ddp_plan EXPORT lockstepTargets
        ARCHIVE COMPONENT ddp
        INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" "${CMAKE_INSTALL_INCLUDEDIR}/lockstep")
# All of them: those that users include, include the others.
install(DIRECTORY ddp train DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/lockstep" COMPONENT ddp
        FILES_MATCHING PATTERN "*.h" PATTERN lockstep EXCLUDE)
install(FILES train/lockstep/ddp.h DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/lockstep" COMPONENT ddp)
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
  set_target_properties(lockstep_recorder PROPERTIES EXPORT_NAME recorder)
  set(lockstep_parts lockstep_rank lockstep_rank_plain lockstep_process lockstep_cases
      lockstep_verdict lockstep_history lockstep_base)
  foreach(part IN LISTS lockstep_parts)
    string(REPLACE lockstep_ harness_ lockstep_part_name ${part})
    set_target_properties(${part} PROPERTIES EXPORT_NAME ${lockstep_part_name})
  endforeach()
  install(TARGETS lockstep_recorder ${lockstep_parts} EXPORT lockstepRecorderTargets
          ARCHIVE COMPONENT recorder
          INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
  install(FILES recorder/cpp/lockstep/recorder.h DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/lockstep"
          COMPONENT recorder)
  install(EXPORT lockstepRecorderTargets NAMESPACE lockstep:: DESTINATION "${lockstep_package_folder}"
          COMPONENT recorder)

  # Note [The harness stands alone]
  # Its export has all the libraries that it needs, those of ddp and recorder among them, so that no other component
  # has to be installed beside it. A namespace of their own keeps them apart from the same ones of other components.
  set_target_properties(lockstep_harness PROPERTIES EXPORT_NAME harness)
  set(lockstep_parts lockstep_cli lockstep_cli_files lockstep_campaign lockstep_archive lockstep_recorded lockstep_invariants lockstep_timeline lockstep_reports
                     lockstep_scenarios lockstep_standalone lockstep_scenario_cases lockstep_reference lockstep_canaries lockstep_worlds lockstep_worlds_plain lockstep_accelerator
                     lockstep_stream_order lockstep_cuda lockstep_cuda_hold_up)
  install(TARGETS lockstep_harness ${lockstep_parts} lockstep_rank lockstep_rank_plain lockstep_process
                  lockstep_cases lockstep_verdict lockstep_history lockstep_base lockstep_ddp_plan EXPORT lockstepHarnessTargets
          ARCHIVE COMPONENT harness
          INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" "${CMAKE_INSTALL_INCLUDEDIR}/lockstep")
  install(FILES cli/lockstep/harness.h DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/lockstep" COMPONENT harness)
  # Those that subject.h and rank_context.h include, and no others.
  foreach(header harness/worlds/subject.h harness/worlds/options.h harness/worlds/optimizers.h
                 harness/worlds/checkpoints.h harness/worlds/collectives.h harness/rank/rank_context.h harness/history/history.h
                 harness/base/case.h harness/base/fields.h harness/base/fields_inl.h
                 harness/base/characters.h
                 harness/base/json.h harness/base/words.h)
    get_filename_component(folder "${header}" DIRECTORY)
    install(FILES "${header}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/lockstep/${folder}" COMPONENT harness)
  endforeach()
  if(LOCKSTEP_NCCL_BUILT)  # By name, when it is first needed.
    set_target_properties(lockstep_harness_nccl PROPERTIES INSTALL_RPATH "${LOCKSTEP_TORCH}/lib")
    install(TARGETS lockstep_harness_nccl LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT harness)
  endif()
  install(EXPORT lockstepHarnessTargets NAMESPACE lockstep_harness:: DESTINATION "${lockstep_package_folder}"
          COMPONENT harness)
  install(FILES cmake/package/LockstepDiscoverScenarios.cmake cmake/package/LockstepAddScenarios.cmake
          DESTINATION "${lockstep_package_folder}" COMPONENT harness)
endif()
if(LOCKSTEP_HARNESS)
  # For shells and man: what the program prints, as it is installed.
  foreach(printed "completion bash:${CMAKE_INSTALL_DATADIR}/bash-completion/completions/lockstep"
                  "completion zsh:${CMAKE_INSTALL_DATADIR}/zsh/site-functions/_lockstep"
                  "completion fish:${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d/lockstep.fish"
                  "man:${CMAKE_INSTALL_MANDIR}/man1/lockstep.1")
    string(REGEX MATCH "^([^:]*):(.*)$" printed "${printed}")
    install(CODE "execute_process(COMMAND \"$<TARGET_FILE:lockstep>\" ${CMAKE_MATCH_1} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
                  file(WRITE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_MATCH_2}\" \"\${text}\")
                  message(STATUS \"Installing: \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_MATCH_2}\")"
            COMPONENT shell)
  endforeach()
endif()
# With whichever of them is installed.
foreach(component ddp recorder harness)
  install(FILES cmake/LibTorchTarget.cmake "${PROJECT_BINARY_DIR}/package/lockstepConfig.cmake"
                "${PROJECT_BINARY_DIR}/package/lockstepConfigVersion.cmake"
          DESTINATION "${lockstep_package_folder}" COMPONENT ${component})
  install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT ${component})
endforeach()
