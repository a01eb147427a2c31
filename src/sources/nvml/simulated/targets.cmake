# The parts of the NVML source that are not plain libraries of one folder. Included by the top.
include_guard()
add_gpulens_library(sources_nvml_probe DIR src/sources/nvml/probe DEPS gpulens_driver_probe)
add_gpulens_library(sources_nvml_driver DIR src/sources/nvml/reader DEPS gpulens_sources_nvml gpulens_driver_side
              PRIVATE_DEPS ${CMAKE_DL_LIBS} TEST_DEPS gpulens_sources_nvml_fake gpulens_base_testing)
add_gpulens_library(sources_nvml_recording DIR src/sources/nvml/recording DEPS gpulens_sources_nvml PRIVATE_DEPS dep_yaml)
add_gpulens_library(sources_nvml_capture DIR src/sources/nvml/capture
              DEPS gpulens_sources_nvml_driver gpulens_sources_nvml_recording
              TEST_DEPS gpulens_sources_nvml_fake gpulens_base_testing)
add_gpulens_library(sources_nvml_faults DIR src/sources/nvml/simulated DEPS gpulens_base)
add_gpulens_library(sources_nvml_fake DIR src/sources/nvml/simulated
              DEPS gpulens_sources_nvml gpulens_sources_nvml_recording gpulens_sources_nvml_faults
              PRIVATE_DEPS dep_yaml
              TEST_DEPS gpulens_sources_nvml_driver)
# Children of these two folders that are parts of them.
file(GLOB nvml_item_sources CONFIGURE_DEPENDS src/sources/nvml/reader/*.cc)
target_sources(gpulens_sources_nvml_driver PRIVATE ${nvml_item_sources})
file(GLOB fake_board_sources CONFIGURE_DEPENDS src/sources/nvml/simulated/*.cc)
target_sources(gpulens_sources_nvml_fake PRIVATE ${fake_board_sources})
file(GLOB fake_replay_sources CONFIGURE_DEPENDS src/sources/nvml/simulated/*.cc)
target_sources(gpulens_sources_nvml_fake PRIVATE ${fake_replay_sources})

# Folders that are parts of the library of the folder above them, to keep folders small.
foreach(library driver fake)
  file(GLOB sources CONFIGURE_DEPENDS src/sources/nvml/${library}/parts/*.cc)
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  target_sources(gpulens_sources_nvml_${library} PRIVATE ${sources})
  if(TARGET sources_nvml_${library}_test)
    target_sources(sources_nvml_${library}_test PRIVATE ${tests})
  endif()
endforeach()
add_gpulens_library(sources_nvml_processes DIR src/sources/nvml/processes DEPS gpulens_base
              TEST_DEPS gpulens_base_testing)

# The simulated library as a file, for whatever opens libnvidia-ml.so.1 itself.
file(GLOB fake_nvml_sources CONFIGURE_DEPENDS src/sources/nvml/simulated/*.cc src/sources/nvml/simulated/*.cc
     src/sources/nvml/simulated/*.cc)
list(FILTER fake_nvml_sources EXCLUDE REGEX "_(test|bench|fuzz|main)\\.cc$")
file(GLOB recording_sources CONFIGURE_DEPENDS src/sources/nvml/recording/*.cc)
list(FILTER recording_sources EXCLUDE REGEX "_(test|bench|fuzz|main)\\.cc$")
add_library(fake_nvml SHARED ${fake_nvml_sources} ${fake_board_sources} ${fake_replay_sources} ${recording_sources}
            src/sources/nvml/nvml_names.cc src/base/clock.cc
            src/base/files.cc src/base/fd.cc src/base/check.cc)
# Not gpulens_flags and not the static archives: those are not position-independent.
find_library(GPULENS_YAML_SHARED yaml-cpp REQUIRED)
target_compile_features(fake_nvml PRIVATE cxx_std_20)
target_compile_definitions(fake_nvml PRIVATE GPULENS_FAKE_NVML_EXPORT)
target_compile_options(fake_nvml PRIVATE -fvisibility=hidden)
target_include_directories(fake_nvml PRIVATE src include)
target_link_libraries(fake_nvml PRIVATE ${GPULENS_YAML_SHARED} Threads::Threads)
set_property(GLOBAL APPEND PROPERTY HOUSE_TOGETHER fake_nvml)
set_target_properties(fake_nvml PROPERTIES OUTPUT_NAME nvidia-ml SUFFIX .so.1
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fake_nvml)

if(GPULENS_TESTS)
  # The reader process alone, so that the supervisor is tested against real processes.
  add_executable(nvml_driver_main tests/fake_nvml/nvml_driver_main.cc)
  target_link_libraries(nvml_driver_main PRIVATE gpulens_flags gpulens_sources_nvml_driver gpulens_sources_nvml_fake)
  foreach(test sources_nvml_test sources_nvml_driver_test sources_nvml_fake_test)
    if(TARGET ${test})
      target_compile_definitions(${test} PRIVATE GPULENS_NVML_DRIVER="$<TARGET_FILE:nvml_driver_main>"
        GPULENS_FAKE_LIBRARY="$<TARGET_FILE:fake_nvml>")
      add_dependencies(${test} nvml_driver_main fake_nvml)
    endif()
  endforeach()
endif()
