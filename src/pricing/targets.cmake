# Prices of LLM APIs and what a request is charged.
include_guard()
add_gpulens_library(pricing DEPS gpulens_wire_llm)
