# Prices of LLM APIs and what a request is charged.
include_guard()
set(list_prices ${CMAKE_BINARY_DIR}/generated/pricing/list_prices.inc)
add_custom_command(OUTPUT ${list_prices}
  COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_SOURCE_DIR}/tools/embed_file.py ${list_prices} ${CMAKE_CURRENT_LIST_DIR}/list_prices.tsv
  DEPENDS ${CMAKE_SOURCE_DIR}/tools/embed_file.py ${CMAKE_SOURCE_DIR}/tools/embed_page.py ${CMAKE_CURRENT_LIST_DIR}/list_prices.tsv
  COMMENT "List prices of LLM APIs" VERBATIM)
add_gpulens_library(pricing DEPS gpulens_wire_llm gpulens_wire)
target_sources(gpulens_pricing PRIVATE ${list_prices})
target_include_directories(gpulens_pricing PRIVATE ${CMAKE_BINARY_DIR}/generated)
add_custom_target(generated_pricing DEPENDS ${list_prices})
add_dependencies(generated generated_pricing)
if(TARGET pricing_bench)
  target_link_libraries(pricing_bench PRIVATE gpulens_base_testing)
endif()
