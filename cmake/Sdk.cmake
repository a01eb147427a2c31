# The SDK as others get it: its headers, one static archive of all that it is made of, and gpulensConfig.cmake.
#   cmake --install build/release --component sdk --prefix /opt/gpulens
include_guard()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
include(SdkParts)

gpulens_closure(sdk_own sdk_foreign ${GPULENS_SDK_PARTS})
# Its sources are compiled once more, each alone and for shared objects: a program takes whole objects out of an archive, and the
# Python package, which compiles them so, finds them in ccache (docs/adr/0034-python-package.md).
gpulens_sources(sdk_sources ${sdk_own})
add_library(gpulens_sdk STATIC EXCLUDE_FROM_ALL ${sdk_sources})
target_link_libraries(gpulens_sdk PRIVATE gpulens_flags)
target_include_directories(gpulens_sdk PRIVATE src include)
set_target_properties(gpulens_sdk PROPERTIES LINKER_LANGUAGE CXX POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden)

# The libraries of the system that some part needs: dep_nghttp2 is libnghttp2.
set(GPULENS_SDK_SYSTEM)
foreach(target ${sdk_foreign})
  if(target MATCHES "^OpenSSL::(.*)")
    string(TOLOWER ${CMAKE_MATCH_1} library)
  else()
    get_target_property(library ${target} IMPORTED_LOCATION)
    get_filename_component(library ${library} NAME_WE)
    string(REGEX REPLACE "^lib" "" library ${library})
  endif()
  list(APPEND GPULENS_SDK_SYSTEM ${library})
endforeach()

set(sdk_cmake ${CMAKE_INSTALL_LIBDIR}/cmake/gpulens)
configure_package_config_file(cmake/gpulensConfig.cmake.in ${CMAKE_BINARY_DIR}/sdk/gpulensConfig.cmake
                              INSTALL_DESTINATION ${sdk_cmake} PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/sdk/gpulensConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(TARGETS gpulens_sdk ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT sdk EXCLUDE_FROM_ALL)
install(DIRECTORY include/gpulens DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT sdk EXCLUDE_FROM_ALL
        FILES_MATCHING PATTERN "*.h")
install(FILES ${CMAKE_BINARY_DIR}/sdk/gpulensConfig.cmake ${CMAKE_BINARY_DIR}/sdk/gpulensConfigVersion.cmake
        DESTINATION ${sdk_cmake} COMPONENT sdk EXCLUDE_FROM_ALL)
# For pkg-config, which looks in share/pkgconfig on every distribution.
set(pc_libraries)
foreach(library ${GPULENS_SDK_SYSTEM})
  string(APPEND pc_libraries " -l${library}")
endforeach()
configure_file(cmake/gpulens.pc.in ${CMAKE_BINARY_DIR}/sdk/gpulens.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/sdk/gpulens.pc DESTINATION ${CMAKE_INSTALL_DATADIR}/pkgconfig COMPONENT sdk EXCLUDE_FROM_ALL)

# A foreign project that is built against an installation.
if(GPULENS_TESTS AND NOT GPULENS_SANITIZE)
  add_test(NAME tools_install COMMAND ${CMAKE_COMMAND} -D BUILD=${CMAKE_BINARY_DIR} -D GENERATOR=${CMAKE_GENERATOR}
           -D CXX=${CMAKE_CXX_COMPILER} -D C=${CMAKE_C_COMPILER} -P ${CMAKE_SOURCE_DIR}/tests/install/install_test.cmake)
  set_tests_properties(tools_install PROPERTIES LABELS tools TIMEOUT 300)
endif()
