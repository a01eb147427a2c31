# The SDK as others get it: its headers, one static archive of all that it is made of, and gpulensConfig.cmake.
#   cmake --install build/release --component sdk --prefix /opt/gpulens
include_guard()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# All targets of this project that `targets` are made of, and what else these link, by the names of the targets.
function(gpulens_closure own foreign)
  set(open ${ARGN})
  set(seen)
  set(others)
  while(open)
    list(POP_FRONT open target)
    if(NOT target MATCHES "^gpulens_")
      if(target MATCHES "^(dep_|OpenSSL::)")
        list(APPEND others ${target})
      endif()
      continue()
    endif()
    if(target IN_LIST seen)
      continue()
    endif()
    list(APPEND seen ${target})
    get_target_property(type ${target} TYPE)
    set(property LINK_LIBRARIES)
    if(type STREQUAL "INTERFACE_LIBRARY")
      set(property INTERFACE_LINK_LIBRARIES)
    endif()
    get_target_property(links ${target} ${property})
    if(links)
      list(APPEND open ${links})
    endif()
  endwhile()
  list(REMOVE_DUPLICATES others)
  set(${own} ${seen} PARENT_SCOPE)
  set(${foreign} ${others} PARENT_SCOPE)
endfunction()

# What stands here is in the archive, with all that it needs. A program takes what it names out of it, so what is not
# used costs nothing.
set(GPULENS_SDK_PARTS gpulens_instruments gpulens_sdk_energy gpulens_sdk_export gpulens_sdk_c gpulens_sdk_experiment
    gpulens_sdk_inference gpulens_sdk_ring gpulens_sdk_ring_resident gpulens_sdk_training)

gpulens_closure(sdk_own sdk_foreign ${GPULENS_SDK_PARTS})
# Its sources are compiled once more, each alone and for shared objects: a program takes whole objects out of an archive, and the
# Python package, which compiles them so, finds them in ccache (docs/adr/0034-python-package.md).
set(sdk_sources)
foreach(target ${sdk_own})
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "STATIC_LIBRARY")
    get_target_property(sources ${target} SOURCES)
    list(APPEND sdk_sources ${sources})
  endif()
endforeach()
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

# A project of somebody else that is built against an installation.
if(GPULENS_TESTS AND NOT GPULENS_SANITIZE)
  add_test(NAME tools_install COMMAND ${CMAKE_COMMAND} -D BUILD=${CMAKE_BINARY_DIR} -D GENERATOR=${CMAKE_GENERATOR}
           -D CXX=${CMAKE_CXX_COMPILER} -D C=${CMAKE_C_COMPILER} -P ${CMAKE_SOURCE_DIR}/tests/install/install_test.cmake)
  set_tests_properties(tools_install PROPERTIES LABELS tools TIMEOUT 300)
endif()
