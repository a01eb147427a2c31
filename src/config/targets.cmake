# Reads and checks the configuration.
include_guard()
add_gpulens_library(config DEPS gpulens_pipeline PRIVATE_DEPS dep_yaml)
