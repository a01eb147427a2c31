# The running agent.
include_guard()
add_gpulens_library(agent DEPS ${collectors_TARGETS} ${analyzers_TARGETS} ${discovery_TARGETS} ${enrichers_TARGETS}
  ${sinks_TARGETS} ${receivers_TARGETS})
add_gpulens_library(agent_targets DIR src/agent/targets DEPS gpulens_config gpulens_net_client gpulens_scrape
  TEST_DEPS gpulens_agent_run gpulens_net_testing)
add_gpulens_library(agent_control DIR src/agent/control DEPS gpulens_pipeline gpulens_config gpulens_net_server
  gpulens_sources_nvml_simulated TEST_DEPS gpulens_net_testing)
add_gpulens_library(agent_demo DIR src/agent/demo DEPS gpulens_agent_control gpulens_pipeline gpulens_net_http
  gpulens_sources_nvml_simulated PRIVATE_DEPS gpulens_base_yaml TEST_DEPS gpulens_scrape_engine)
add_gpulens_library(agent_status DIR src/agent/status DEPS gpulens_agent gpulens_agent_control gpulens_agent_targets
  gpulens_net_client)
add_gpulens_library(agent_run DIR src/agent/run DEPS gpulens_agent gpulens_config gpulens_catalog gpulens_net_client
  gpulens_agent_control gpulens_agent_demo gpulens_agent_targets gpulens_agent_status gpulens_scrape)
