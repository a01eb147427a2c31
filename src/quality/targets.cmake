# Cross-checks of GPU readings.
include_guard()
add_gpulens_library(quality DEPS gpulens_catalog gpulens_plugins)
