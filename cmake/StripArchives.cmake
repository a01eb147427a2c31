# Run by cpack on the files of a package: it strips programs, but not archives.
file(GLOB_RECURSE archives ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*.a)
foreach(archive ${archives})
  execute_process(COMMAND ${CPACK_STRIP_PROGRAM} --strip-debug --remove-section=.comment --remove-section=.note --enable-deterministic-archives
                          ${archive} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
