# The running agent.
include_guard()
add_gpulens_library(agent DEPS ${collectors_TARGETS} ${analyzers_TARGETS} ${discovery_TARGETS} ${enrichers_TARGETS}
  ${sinks_TARGETS} ${receivers_TARGETS})
add_gpulens_library(agent_targets DIR src/agent/targets DEPS gpulens_config gpulens_net_client gpulens_scrape
  TEST_DEPS gpulens_agent_run gpulens_net_testing)
add_gpulens_library(agent_control DIR src/agent/control DEPS gpulens_pipeline gpulens_config gpulens_net_server
  gpulens_sources_nvml_simulated TEST_DEPS gpulens_net_testing)
add_gpulens_library(agent_demo DIR src/agent/demo DEPS gpulens_agent_control gpulens_pipeline gpulens_net_http
  gpulens_sources_nvml_simulated gpulens_sources_job_pages gpulens_collectives PRIVATE_DEPS gpulens_base_yaml TEST_DEPS gpulens_scrape_engine)
# The files of the page, and Debian's dygraphs, in rows of C++.
set(page_rows ${CMAKE_BINARY_DIR}/generated/agent/page_files.inc)
file(GLOB page_files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/page/*.js ${CMAKE_SOURCE_DIR}/src/page/*.css ${CMAKE_SOURCE_DIR}/src/page/*.svg)
add_custom_command(OUTPUT ${page_rows}
  COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_SOURCE_DIR}/tools/embed_page.py ${page_rows} ${page_files}
          dygraph.js=${dep_dygraphs}/dygraph.min.js dygraph.css=${dep_dygraphs}/dygraph.min.css
  DEPENDS ${CMAKE_SOURCE_DIR}/tools/embed_page.py ${page_files} ${dep_dygraphs}/dygraph.min.js ${dep_dygraphs}/dygraph.min.css
  COMMENT "Files of the page" VERBATIM)
add_gpulens_library(agent_page DIR src/agent/page DEPS gpulens_net_http PRIVATE_DEPS gpulens_wire)
target_sources(gpulens_agent_page PRIVATE ${page_rows})
target_include_directories(gpulens_agent_page PRIVATE ${CMAKE_BINARY_DIR}/generated)
add_custom_target(generated_page DEPENDS ${page_rows})
add_dependencies(generated generated_page)
add_gpulens_library(agent_fleet DIR src/agent/fleet DEPS gpulens_catalog gpulens_wire_otlp gpulens_plugins)
add_gpulens_library(agent_api DIR src/agent/api DEPS gpulens_history gpulens_why gpulens_wire_json gpulens_catalog_codes gpulens_store_experiments gpulens_store
  gpulens_agent_fleet gpulens_net_websocket TEST_DEPS gpulens_net_testing)
add_gpulens_library(agent_status DIR src/agent/status DEPS gpulens_agent gpulens_agent_control gpulens_agent_targets
  gpulens_net_client gpulens_wire_json)
add_gpulens_library(agent_mcp DIR src/agent/mcp DEPS gpulens_agent_api gpulens_catalog gpulens_wire_json gpulens_net_http)
add_gpulens_library(agent_run DIR src/agent/run DEPS gpulens_agent gpulens_sources_job_pages gpulens_config gpulens_catalog gpulens_net_client
  gpulens_agent_control gpulens_agent_demo gpulens_agent_targets gpulens_agent_page gpulens_agent_fleet gpulens_agent_status
  gpulens_agent_api gpulens_agent_mcp gpulens_scrape)
add_gpulens_library(agent_local DIR src/agent/local DEPS gpulens_agent_run)
