# Metrics, series, frames and their validation.
include_guard()
add_gpulens_library(core DEPS gpulens_base)
