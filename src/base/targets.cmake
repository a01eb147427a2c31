# Foundations: files, clocks, logs, hashes, threads.
include_guard()
add_gpulens_library(base)
add_gpulens_library(base_testing DIR src/base/testing DEPS gpulens_base)
