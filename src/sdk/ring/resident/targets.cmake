# A kernel on a GPU. Its test runs against a driver of its own everywhere, and once more by itself where there is a GPU.
include_guard()
add_gpulens_library(sources_cuda DIR src/sources/cuda DEPS gpulens_base)
add_gpulens_library(sdk_ring_resident DIR src/sdk/ring/resident DEPS gpulens_sources_cuda)
if(TARGET sdk_ring_resident_test)
  add_test(NAME gpu_resident_kernel COMMAND sdk_ring_resident_test --gtest_filter=ResidentOnGpu.*
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(gpu_resident_kernel PROPERTIES LABELS gpu TIMEOUT 300 RUN_SERIAL TRUE
    SKIP_REGULAR_EXPRESSION "SKIPPED")
endif()
