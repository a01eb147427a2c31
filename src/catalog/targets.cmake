# The rows of all metrics and events.
include_guard()
add_gpulens_library(catalog DEPS gpulens_core)
include(${CMAKE_CURRENT_LIST_DIR}/codes/targets.cmake)
