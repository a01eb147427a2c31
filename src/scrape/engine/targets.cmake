# The tables of LLM engines, compiled in: tables/*.tsv → rows of C++.
include_guard()
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(engine_folder ${CMAKE_SOURCE_DIR}/src/scrape/engine)
set(engine_rows ${CMAKE_BINARY_DIR}/generated/scrape/engine/engine_tables.inc)
file(GLOB engine_tables CONFIGURE_DEPENDS ${engine_folder}/tables/*.tsv)
set(engine_names ${CMAKE_BINARY_DIR}/generated/scrape/engine/engine_names.inc)
add_custom_command(OUTPUT ${engine_rows} ${engine_names}
  COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_SOURCE_DIR}/tools/engine_tables.py ${engine_folder}/tables
          ${CMAKE_SOURCE_DIR}/src/catalog ${engine_rows}
  DEPENDS ${CMAKE_SOURCE_DIR}/tools/engine_tables.py ${engine_tables} ${CMAKE_SOURCE_DIR}/src/catalog/inference.def
  COMMENT "Tables of LLM engines" VERBATIM)
add_gpulens_library(scrape_engine DIR src/scrape/engine DEPS gpulens_scrape TEST_DEPS gpulens_names gpulens_net_testing)
target_sources(gpulens_scrape_engine PRIVATE ${engine_rows} ${engine_names})
target_include_directories(gpulens_scrape_engine PUBLIC ${CMAKE_BINARY_DIR}/generated)
add_custom_target(generated_engines DEPENDS ${engine_rows})
add_dependencies(generated generated_engines)
