# What sinks share.
include_guard()
add_gpulens_library(export DEPS gpulens_names gpulens_pipeline gpulens_pipeline_delivery gpulens_wire_split
  TEST_DEPS gpulens_wire_otlp)
