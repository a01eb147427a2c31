# The installed files, and the .deb and tar.gz that `./dev package` makes of them.
include_guard()
include(GNUInstallDirs)

install(TARGETS gpulens RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
install(FILES deploy/gpulens.service DESTINATION lib/systemd/system COMPONENT program)
install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
# Tests of a machine with a GPU: ctest --test-dir share/gpulens/tests -L gpu
install(DIRECTORY tests/gpu/ DESTINATION ${CMAKE_INSTALL_DATADIR}/gpulens/tests COMPONENT program
        FILES_MATCHING PATTERN "*.py" PATTERN "CTestTestfile.cmake")
# A file of the machine: only the .deb brings it, `cmake --install` and the tar.gz do not.
install(FILES deploy/gpulens.yaml DESTINATION /etc/gpulens COMPONENT machine EXCLUDE_FROM_ALL)
install(FILES deploy/gpulens.yaml DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT program)

set(CPACK_PACKAGE_NAME gpulens)
set(CPACK_PACKAGE_VENDOR gpulens)
set(CPACK_PACKAGE_CONTACT "the gpulens project <gpulens@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "telemetry of a GPU machine and the LLM engines on it")
set(CPACK_PACKAGE_DESCRIPTION "One agent that reads the host, its GPUs and the engines that serve on it,
rates the quality of each number, and serves them to Prometheus and WebSocket clients on the loopback address.")
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES TRUE)
set(CPACK_MONOLITHIC_INSTALL FALSE)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_INCLUDE_TOPLEVEL_DIRECTORY TRUE)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6 (>= 2.36)")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
  ${CMAKE_SOURCE_DIR}/deploy/debian/conffiles ${CMAKE_SOURCE_DIR}/deploy/debian/postinst
  ${CMAKE_SOURCE_DIR}/deploy/debian/prerm ${CMAKE_SOURCE_DIR}/deploy/debian/postrm)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION TRUE)
string(TOLOWER "${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}" system)
set(CPACK_PACKAGE_FILE_NAME gpulens-${PROJECT_VERSION}-${system})
# Components and prefix of a format are set when it is made.
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_SOURCE_DIR}/cmake/PackageFormat.cmake)
include(CPack)
