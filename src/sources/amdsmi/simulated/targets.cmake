# The simulated AMD SMI library as a file, for whatever opens libamd_smi.so itself.
include_guard()
if(NOT TARGET dep_yaml)
  return()  # the Python package
endif()
file(GLOB fake_amdsmi_sources CONFIGURE_DEPENDS src/sources/amdsmi/simulated/*.cc)
list(FILTER fake_amdsmi_sources EXCLUDE REGEX "_(test|bench|fuzz|main)\\.cc$")
add_library(fake_amdsmi SHARED ${fake_amdsmi_sources} src/sources/amdsmi/amdsmi_names.cc src/base/clock.cc
            src/base/files.cc src/base/check.cc
            src/base/text.cc src/base/yaml/yaml.cc)
# Not gpulens_flags and not the static archives: those are not position-independent.
find_library(GPULENS_YAML_SHARED yaml-cpp REQUIRED)
target_compile_features(fake_amdsmi PRIVATE cxx_std_20)
target_compile_definitions(fake_amdsmi PRIVATE GPULENS_FAKE_EXPORT)
target_compile_options(fake_amdsmi PRIVATE -fvisibility=hidden)
target_include_directories(fake_amdsmi PRIVATE src include)
target_link_libraries(fake_amdsmi PRIVATE ${GPULENS_YAML_SHARED} Threads::Threads)
set_property(GLOBAL APPEND PROPERTY GPULENS_UNITY_TARGETS fake_amdsmi)
set_target_properties(fake_amdsmi PROPERTIES OUTPUT_NAME amd_smi
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fake_amdsmi)

if(GPULENS_TESTS)
  # The reader process alone, so that the supervisor is tested against real processes.
  add_executable(amdsmi_reader_main tests/fake_amdsmi/amdsmi_reader_main.cc)
  target_include_directories(amdsmi_reader_main PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(amdsmi_reader_main PRIVATE gpulens_flags gpulens_sources_amdsmi_reader
                        gpulens_sources_amdsmi_simulated)
  foreach(test reader_test sources_amdsmi_test sources_amdsmi_reader_test collectors_amd_test)
    if(TARGET ${test})
      target_compile_definitions(${test} PRIVATE GPULENS_AMDSMI_READER="$<TARGET_FILE:amdsmi_reader_main>"
        GPULENS_FAKE_AMDSMI_LIBRARY="$<TARGET_FILE:fake_amdsmi>")
      add_dependencies(${test} amdsmi_reader_main fake_amdsmi)
    endif()
  endforeach()
endif()
