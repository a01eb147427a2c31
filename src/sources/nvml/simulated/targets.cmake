# The simulated NVML as a file, for whatever opens libnvidia-ml.so.1 itself.
include_guard()
if(NOT TARGET dep_yaml)
  return()  # the Python package
endif()
file(GLOB fake_nvml_sources CONFIGURE_DEPENDS src/sources/nvml/simulated/*.cc src/sources/nvml/recording/*.cc)
list(FILTER fake_nvml_sources EXCLUDE REGEX "_(test|bench|fuzz|main)\\.cc$")
add_library(fake_nvml SHARED ${fake_nvml_sources} src/sources/nvml/nvml_names.cc src/base/clock.cc src/base/files.cc
            src/base/check.cc
            src/base/text.cc src/base/yaml/yaml.cc)
# Not gpulens_flags and not the static archives: those are not position-independent.
find_library(GPULENS_YAML_SHARED yaml-cpp REQUIRED)
target_compile_features(fake_nvml PRIVATE cxx_std_20)
target_compile_definitions(fake_nvml PRIVATE GPULENS_FAKE_EXPORT)
target_compile_options(fake_nvml PRIVATE -fvisibility=hidden)
target_include_directories(fake_nvml PRIVATE src include)
target_link_libraries(fake_nvml PRIVATE ${GPULENS_YAML_SHARED} Threads::Threads)
set_property(GLOBAL APPEND PROPERTY GPULENS_UNITY_TARGETS fake_nvml)
set_target_properties(fake_nvml PROPERTIES OUTPUT_NAME nvidia-ml SUFFIX .so.1
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fake_nvml)

if(GPULENS_TESTS)
  # The reader process alone, so that the supervisor is tested against real processes.
  add_executable(nvml_reader_main tests/fake_nvml/nvml_reader_main.cc)
  target_include_directories(nvml_reader_main PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(nvml_reader_main PRIVATE gpulens_flags gpulens_sources_nvml_reader gpulens_sources_nvml_simulated)
  foreach(test sources_nvml_test sources_nvml_reader_test sources_nvml_simulated_test)
    if(TARGET ${test})
      target_compile_definitions(${test} PRIVATE GPULENS_NVML_READER="$<TARGET_FILE:nvml_reader_main>"
        GPULENS_FAKE_LIBRARY="$<TARGET_FILE:fake_nvml>")
      add_dependencies(${test} nvml_reader_main fake_nvml)
    endif()
  endforeach()
endif()
