# Reads and checks the configuration.
include_guard()
add_gpulens_library(config DEPS gpulens_base_yaml gpulens_pipeline)
