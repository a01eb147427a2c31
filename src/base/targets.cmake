# Foundations: files, clocks, logs, hashes, threads.
include_guard()
add_gpulens_library(base)
# Apart: the SDK and the Python package are built without yaml-cpp.
add_gpulens_library(base_yaml DIR src/base/yaml DEPS gpulens_base PRIVATE_DEPS dep_yaml)
add_gpulens_library(base_testing DIR src/base/testing DEPS gpulens_base)
