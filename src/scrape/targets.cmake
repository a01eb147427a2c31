# Pages of other programs.
include_guard()
add_gpulens_library(scrape DEPS gpulens_pipeline gpulens_reader gpulens_wire_exposition gpulens_plugins gpulens_wire gpulens_catalog
  TEST_DEPS gpulens_names)
add_gpulens_library(scrape_gpu DIR src/scrape/gpu DEPS gpulens_scrape TEST_DEPS gpulens_names gpulens_net_testing)
include(src/scrape/engine/targets.cmake)
