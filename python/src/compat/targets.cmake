# What only gpulens.compat uses, with its tests, and the numbers that the projects it replaces state in their own tests.
include_guard()
add_gpulens_library(python_compat DIR python/src/compat TESTS_APART DEPS gpulens_core gpulens_wire_exposition
  TEST_DEPS gpulens_sdk_training gpulens_sdk_energy gpulens_sdk_inference gpulens_sdk_ring)
target_include_directories(gpulens_python_compat PUBLIC python)
