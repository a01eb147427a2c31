# The last hour of the kept series.
include_guard()
add_gpulens_library(history DEPS gpulens_catalog)
