# Names of other projects for native metrics.
include_guard()
add_gpulens_library(names DEPS gpulens_catalog)
