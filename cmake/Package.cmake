# The installed files, and the packages that `./dev package` makes of them: gpulens, and gpulens-dev with the SDK (cmake/Sdk.cmake),
# each as .deb, .rpm and tar.gz. Files that are made of others (notices, manual page) are in build/release/package, where
# tools/package_files.py writes them; `cmake --install` leaves those out.
include_guard()
include(GNUInstallDirs)
set(made ${CMAKE_BINARY_DIR}/package)

install(TARGETS gpulens RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
install(FILES deploy/gpulens.yaml deploy/proxy.yaml DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT program)
# Tests of a machine with a GPU: ctest --test-dir share/gpulens/tests -L gpu
install(DIRECTORY tests/gpu/ DESTINATION ${CMAKE_INSTALL_DATADIR}/gpulens/tests COMPONENT program
        FILES_MATCHING PATTERN "*.py" PATTERN "CTestTestfile.cmake" PATTERN "__pycache__" EXCLUDE)
# Libraries that jobs load, under the names by which NCCL looks for them, too; and the folder that PyTorch's programs are started with.
add_custom_target(job_libraries DEPENDS gpulens-nccl-profiler gpulens-cuda gpulens-job)
install(TARGETS gpulens-nccl-profiler gpulens-cuda gpulens-job LIBRARY DESTINATION lib/gpulens COMPONENT program)
install(FILES ${CMAKE_BINARY_DIR}/libnccl-profiler-gpulens.so ${CMAKE_BINARY_DIR}/librccl-profiler-gpulens.so
        DESTINATION lib/gpulens COMPONENT program)
install(DIRECTORY python/gpulens/torch_hook/ DESTINATION ${CMAKE_INSTALL_DATADIR}/gpulens/torch COMPONENT program
        FILES_MATCHING PATTERN "*.py" PATTERN "__pycache__" EXCLUDE)
if(GPULENS_TESTS)
  add_dependencies(e2e_programs job_libraries)
endif()
install(DIRECTORY deploy/dashboards deploy/rules DESTINATION ${CMAKE_INSTALL_DATADIR}/gpulens COMPONENT program)
install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT source)
# The units name the place of the program; tar.gz is for /usr/local.
foreach(name gpulens gpulens-proxy)
  file(READ deploy/${name}.service unit)
  string(REPLACE /usr/bin/gpulens ${CMAKE_INSTALL_FULL_BINDIR}/gpulens unit "${unit}")
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/unit/${name}.service CONTENT "${unit}" @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/unit/${name}.service DESTINATION lib/systemd/system COMPONENT local)
endforeach()
# What the unit needs besides: the user, its folder in /run, and addresses that outlive the agent.
install(FILES deploy/gpulens.socket DESTINATION lib/systemd/system COMPONENT program)
install(FILES deploy/gpulens.sysusers DESTINATION lib/sysusers.d RENAME gpulens.conf COMPONENT program)
install(FILES deploy/gpulens.tmpfiles DESTINATION lib/tmpfiles.d RENAME gpulens.conf COMPONENT program)

# What every package has, and what only some have: cmake/PackageFormat.cmake chooses.
install(FILES ${made}/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT documents EXCLUDE_FROM_ALL)
install(DIRECTORY ${made}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT documents EXCLUDE_FROM_ALL)
install(FILES ${made}/completions/gpulens DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT documents EXCLUDE_FROM_ALL)
install(FILES ${made}/completions/gpulens.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT documents EXCLUDE_FROM_ALL)
# Where zsh looks: Debian's in a folder of its own, others' in site-functions.
install(FILES ${made}/completions/_gpulens DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions COMPONENT debian EXCLUDE_FROM_ALL)
install(FILES ${made}/completions/_gpulens DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT licenses EXCLUDE_FROM_ALL)
install(DIRECTORY ${made}/doc/ DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT documents EXCLUDE_FROM_ALL)
install(FILES ${made}/changelog.gz DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT debian EXCLUDE_FROM_ALL)
install(FILES deploy/gpulens.yaml DESTINATION /etc/gpulens COMPONENT machine EXCLUDE_FROM_ALL)
install(FILES deploy/gpulens.service deploy/gpulens-probes.service deploy/gpulens-proxy.service DESTINATION lib/systemd/system COMPONENT unit EXCLUDE_FROM_ALL)
install(DIRECTORY ${made}/licenses DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT licenses EXCLUDE_FROM_ALL)
install(FILES ${made}/copyright-dev DESTINATION ${CMAKE_INSTALL_DOCDIR}-dev RENAME copyright COMPONENT sdk_documents EXCLUDE_FROM_ALL)
install(FILES ${made}/changelog.gz DESTINATION ${CMAKE_INSTALL_DOCDIR}-dev COMPONENT sdk_debian EXCLUDE_FROM_ALL)
install(DIRECTORY ${made}/licenses DESTINATION ${CMAKE_INSTALL_DOCDIR}-dev COMPONENT sdk_licenses EXCLUDE_FROM_ALL)
# Debuggers look below /usr/lib/debug alone, so a tar.gz of these is for /usr.
install(DIRECTORY ${made}/debug/ DESTINATION lib/debug COMPONENT symbols EXCLUDE_FROM_ALL)
install(FILES ${made}/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR}-dbgsym COMPONENT symbols_debian EXCLUDE_FROM_ALL)
install(FILES ${made}/changelog.gz DESTINATION ${CMAKE_INSTALL_DOCDIR}-dbgsym COMPONENT symbols_debian EXCLUDE_FROM_ALL)
install(FILES ${made}/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR}-debuginfo COMPONENT symbols_notices EXCLUDE_FROM_ALL)
install(DIRECTORY ${made}/licenses DESTINATION ${CMAKE_INSTALL_DOCDIR}-debuginfo COMPONENT symbols_notices EXCLUDE_FROM_ALL)
install(FILES tests/install/CMakeLists.txt tests/install/consumer.c tests/install/consumer.cc tests/install/consumer_otlp.cc
        tests/install/consumer_ring.cc tests/install/consumer_store.c tests/install/consumer_store.cc
        DESTINATION ${CMAKE_INSTALL_DOCDIR}-dev/examples COMPONENT sdk_documents EXCLUDE_FROM_ALL)

set(summary "telemetry of a GPU machine and the LLM engines on it")
set(description "One agent that reads the host, its GPUs and the engines that serve on it,
rates the quality of each number, and serves them to Prometheus and
WebSocket clients on the loopback address.")
set(sdk_summary "C++ and C SDK of gpulens")
set(sdk_description "Headers, a static library, and files for CMake and pkg-config, to measure
inference, training and energy in a program and to export metrics from it.")
set(symbols_summary "debug symbols of gpulens")
set(symbols_description "What gdb, perf and other tools read to name functions and lines of the program,
found by its build id. It fits the program of the same version and build alone.")
set(CPACK_PACKAGE_NAME gpulens)
set(CPACK_PACKAGE_VENDOR "gpulens developers")
set(CPACK_PACKAGE_CONTACT "gpulens developers <maintainers@gpulens.invalid>")
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES TRUE)
set(CPACK_STRIP_PROGRAM ${CMAKE_STRIP})  # for cmake/StripArchives.cmake
if(CMAKE_CROSSCOMPILING)
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
  set(CPACK_RPM_PACKAGE_ARCHITECTURE ${CMAKE_SYSTEM_PROCESSOR})
endif()
set(CPACK_MONOLITHIC_INSTALL FALSE)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_INCLUDE_TOPLEVEL_DIRECTORY TRUE)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/cmake/StripArchives.cmake)
foreach(component PROGRAM UNIT DOCUMENTS DEBIAN MACHINE LOCAL LICENSES)
  set(CPACK_COMPONENT_${component}_GROUP gpulens)
  set(CPACK_COMPONENT_SDK_${component}_GROUP dev)
endforeach()
set(CPACK_COMPONENT_SDK_GROUP dev)
foreach(component SYMBOLS SYMBOLS_DEBIAN SYMBOLS_NOTICES)
  set(CPACK_COMPONENT_${component}_GROUP debug)
endforeach()

set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION TRUE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_GPULENS_PACKAGE_NAME gpulens)
set(CPACK_DEBIAN_GPULENS_PACKAGE_SECTION net)
set(CPACK_DEBIAN_GPULENS_DESCRIPTION "${summary}\n${description}")
# libcrypt and libseccomp are opened at run time: docs/adr/0047-libcrypt-at-run-time.md, 0073. The helpers of the maintainer scripts are of init-system-helpers.
set(CPACK_DEBIAN_GPULENS_PACKAGE_DEPENDS "libc6 (>= 2.34), libcrypt1, libseccomp2, init-system-helpers (>= 1.54~)")
set(CPACK_DEBIAN_GPULENS_PACKAGE_CONTROL_EXTRA
  ${CMAKE_SOURCE_DIR}/deploy/debian/conffiles ${CMAKE_SOURCE_DIR}/deploy/debian/postinst
  ${CMAKE_SOURCE_DIR}/deploy/debian/prerm ${CMAKE_SOURCE_DIR}/deploy/debian/postrm)
set(CPACK_DEBIAN_DEV_PACKAGE_NAME gpulens-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_DESCRIPTION "${sdk_summary}\n${sdk_description}")
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS
    "libc6-dev, libdeflate-dev, libnghttp2-dev, libsqlite3-dev, libssl-dev, libyaml-cpp-dev, libzstd-dev")
set(CPACK_DEBIAN_DEBUG_PACKAGE_NAME gpulens-dbgsym)
set(CPACK_DEBIAN_DEBUG_PACKAGE_SECTION debug)
set(CPACK_DEBIAN_DEBUG_DESCRIPTION "${symbols_summary}\n${symbols_description}")
set(CPACK_DEBIAN_DEBUG_PACKAGE_DEPENDS "gpulens (= ${PROJECT_VERSION})")

set(CPACK_RPM_COMPONENT_INSTALL TRUE)
set(CPACK_RPM_MAIN_COMPONENT gpulens)
set(CPACK_RPM_GPULENS_PACKAGE_REQUIRES "libseccomp")  # opened at run time
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_LICENSE "Apache-2.0")
# In a .deb summaries begin with a small letter, in an .rpm with a capital.
set(CPACK_RPM_GPULENS_PACKAGE_SUMMARY "Telemetry of a GPU machine and the LLM engines on it")
set(CPACK_RPM_GPULENS_PACKAGE_DESCRIPTION ${description})
set(CPACK_RPM_GPULENS_USER_FILELIST "%config(noreplace) /etc/gpulens/gpulens.yaml")
set(CPACK_RPM_GPULENS_POST_INSTALL_SCRIPT_FILE ${CMAKE_SOURCE_DIR}/deploy/rpm/post)
set(CPACK_RPM_GPULENS_PRE_UNINSTALL_SCRIPT_FILE ${CMAKE_SOURCE_DIR}/deploy/rpm/preun)
set(CPACK_RPM_GPULENS_POST_UNINSTALL_SCRIPT_FILE ${CMAKE_SOURCE_DIR}/deploy/rpm/postun)
set(CPACK_RPM_DEV_PACKAGE_NAME gpulens-devel)
set(CPACK_RPM_DEV_PACKAGE_SUMMARY ${sdk_summary})
set(CPACK_RPM_DEV_PACKAGE_GROUP Development/Libraries)
set(CPACK_RPM_DEV_PACKAGE_DESCRIPTION ${sdk_description})
set(CPACK_RPM_DEBUG_PACKAGE_NAME gpulens-debuginfo)
set(CPACK_RPM_DEBUG_PACKAGE_SUMMARY "Debug symbols of gpulens")
set(CPACK_RPM_DEBUG_PACKAGE_DESCRIPTION ${symbols_description})
set(CPACK_RPM_DEBUG_PACKAGE_GROUP Development/Debug)
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION /etc /lib /lib/systemd /lib/systemd/system /usr/lib/systemd /usr/lib/systemd/system /usr/lib/sysusers.d /usr/lib/tmpfiles.d
  /usr/share/man /usr/share/man/man1 /usr/lib/cmake /usr/share/pkgconfig /usr/lib/debug
  /usr/share/man/man5 /usr/share/bash-completion /usr/share/bash-completion/completions /usr/share/zsh /usr/share/zsh/site-functions
  /usr/share/fish /usr/share/fish/vendor_completions.d)
# Times and the host in an .rpm are the commit's and none.
set(CPACK_RPM_SPEC_MORE_DEFINE "%define use_source_date_epoch_as_buildtime 1
%define clamp_mtime_to_source_date_epoch 1
%define _buildhost localhost
%define packager gpulens developers <maintainers@gpulens.invalid>
%define _build_id_links none
%define __os_install_post %{nil}")

string(TOLOWER "${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}" system)
set(CPACK_PACKAGE_FILE_NAME gpulens-${PROJECT_VERSION}-${system})
set(CPACK_ARCHIVE_GPULENS_FILE_NAME gpulens-${PROJECT_VERSION}-${system})
set(CPACK_ARCHIVE_DEV_FILE_NAME gpulens-dev-${PROJECT_VERSION}-${system})
set(CPACK_ARCHIVE_DEBUG_FILE_NAME gpulens-debug-${PROJECT_VERSION}-${system})
# Components and prefix of a format are set when it is made.
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_SOURCE_DIR}/cmake/PackageFormat.cmake)
include(CPack)
cpack_add_component_group(gpulens)
cpack_add_component_group(dev)
cpack_add_component_group(debug)
