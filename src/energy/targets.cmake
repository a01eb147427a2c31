# Energy from power.
include_guard()
add_gpulens_library(energy DEPS gpulens_base)
