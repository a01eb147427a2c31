# Schedules plugins, takes snapshots, hands them to sinks.
include_guard()
add_gpulens_library(pipeline TESTS_APART DEPS gpulens_reader gpulens_catalog gpulens_net gpulens_net_http gpulens_plugins gpulens_quality
  gpulens_pipeline_delivery gpulens_pipeline_rollup)
add_gpulens_library(pipeline_delivery DIR src/pipeline/delivery DEPS gpulens_catalog gpulens_delivery gpulens_plugins
  TEST_DEPS gpulens_net_testing)
add_gpulens_library(pipeline_rollup DIR src/pipeline/rollup DEPS gpulens_catalog TEST_DEPS gpulens_pipeline gpulens_names
  gpulens_wire_otlp gpulens_wire_remote_write)
if(TARGET pipeline_rollup_bench)
  target_link_libraries(pipeline_rollup_bench PRIVATE gpulens_pipeline gpulens_names gpulens_wire_otlp gpulens_wire_remote_write
                        gpulens_base_testing)
endif()
