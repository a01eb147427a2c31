# Prices of LLM APIs and what a request is charged.
include_guard()
add_gpulens_library(pricing DEPS gpulens_wire_llm)
if(TARGET pricing_bench)
  target_link_libraries(pricing_bench PRIVATE gpulens_base_testing)
endif()
