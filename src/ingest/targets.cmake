# What receivers share.
include_guard()
add_gpulens_library(ingest DEPS gpulens_pipeline gpulens_wire_otlp)
