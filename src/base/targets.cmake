# Foundations: files, clocks, logs, hashes, threads.
include_guard()
# A source of the program and of the Python module, not of a library: see there.
set(gpulens_older_glibc ${GPULENS_ROOT}/src/base/older_glibc.cc)
set(gpulens_elsewhere ${gpulens_older_glibc})
add_gpulens_library(base)
set(gpulens_elsewhere)
if(TARGET base_test)
  # Opened and closed by older_glibc_test.cc.
  add_library(older_glibc_library MODULE src/base/testdata/older_glibc_library.cc)
  if(NOT GPULENS_SANITIZE)  # a closed library leaks what the coverage runtime allocated for it
    target_link_libraries(older_glibc_library PRIVATE gpulens_flags)
  endif()
  target_include_directories(older_glibc_library PRIVATE src)
  add_dependencies(base_test older_glibc_library)
endif()
# Apart: the SDK and the Python package are built without yaml-cpp.
add_gpulens_library(base_yaml DIR src/base/yaml DEPS gpulens_base PRIVATE_DEPS dep_yaml)
# Apart: neither the SDK nor the Python package confines the program that it is in.
add_gpulens_library(base_sandbox DIR src/base/sandbox DEPS gpulens_base)
add_gpulens_library(base_testing DIR src/base/testing DEPS gpulens_base)
