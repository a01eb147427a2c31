# The commands.
include_guard()
# Commands that nothing of their folder calls are compiled together: most of what each costs is CLI11.
foreach(command compare/compare engines/engines mcp/mcp slurm/slurm)
  list(APPEND gpulens_elsewhere ${CMAKE_SOURCE_DIR}/src/cli/${command}_command.cc)
endforeach()
list(APPEND gpulens_elsewhere ${CMAKE_SOURCE_DIR}/src/cli/collect/aliases.cc)
add_gpulens_library(cli_bench DIR src/cli/bench DEPS gpulens_cli_help gpulens_net_client gpulens_sdk_energy
  gpulens_sdk_inference gpulens_config PRIVATE_DEPS CLI11::CLI11 TEST_DEPS gpulens_net_testing)
add_gpulens_library(cli_check DIR src/cli/check DEPS gpulens_agent_run gpulens_wire_exposition gpulens_cli_common)
add_gpulens_library(cli_collect DIR src/cli/collect DEPS gpulens_agent_run gpulens_scrape_engine gpulens_cli_common)
add_gpulens_library(cli_events DIR src/cli/events DEPS gpulens_agent_run gpulens_store gpulens_catalog_codes gpulens_cli_common)
add_gpulens_library(cli_engines DIR src/cli/engines DEPS gpulens_cli_common gpulens_cli_url gpulens_config gpulens_scrape_engine
  gpulens_wire_json)
add_gpulens_library(cli_slurm DIR src/cli/slurm DEPS gpulens_cli_collect gpulens_sources_slurm gpulens_net_client)
add_gpulens_library(cli_url DIR src/cli/url DEPS gpulens_net_client)
add_gpulens_library(cli_node DIR src/cli/node DEPS gpulens_agent_local gpulens_cli_help gpulens_cli_url PRIVATE_DEPS CLI11::CLI11
  TEST_DEPS gpulens_net_testing)
add_gpulens_library(cli_trace DIR src/cli/trace DEPS gpulens_cli_node gpulens_cli_telemetry gpulens_wire_perfetto gpulens_store_experiments
  gpulens_history PRIVATE_DEPS CLI11::CLI11)
add_gpulens_library(cli_top DIR src/cli/top DEPS gpulens_cli_node gpulens_cli_help gpulens_wire_json
  PRIVATE_DEPS CLI11::CLI11 dep_ncurses dep_tinfo)
add_gpulens_library(cli_plot DIR src/cli/plot DEPS gpulens_cli_common)
add_gpulens_library(cli_help DIR src/cli/help DEPS gpulens_cli_common PRIVATE_DEPS CLI11::CLI11)
add_gpulens_library(cli_common DIR src/cli/common DEPS gpulens_wire_json)
add_gpulens_library(cli_compare_tools DIR src/cli/compare/tools DEPS gpulens_sources_hl_smi)
add_gpulens_library(cli_compare DIR src/cli/compare DEPS gpulens_cli_compare_tools gpulens_cli_common gpulens_core)
add_gpulens_library(cli_telemetry DIR src/cli/telemetry DEPS gpulens_store_telemetry_servers gpulens_store_telemetry
  gpulens_cli_help gpulens_config gpulens_sources_kubelet_parse gpulens_wire_json PRIVATE_DEPS CLI11::CLI11
  TEST_DEPS gpulens_sdk_inference)
add_gpulens_library(cli_exp DIR src/cli/exp DEPS gpulens_store_experiments gpulens_cli_plot gpulens_cli_help
  PRIVATE_DEPS CLI11::CLI11)
add_gpulens_library(cli_cost DIR src/cli/cost DEPS gpulens_agent_run gpulens_cli_proxy gpulens_store_ledger_servers gpulens_store_charges gpulens_pricing
  gpulens_cli_help PRIVATE_DEPS CLI11::CLI11)
add_gpulens_library(cli_migrate DIR src/cli/migrate DEPS gpulens_migrate gpulens_cli_common gpulens_config gpulens_pricing gpulens_proxy_admission
  TEST_DEPS gpulens_cli_proxy)
if(TARGET litellm_fuzz)
  target_link_libraries(litellm_fuzz PRIVATE gpulens_cli_proxy)
endif()
add_gpulens_library(cli_why DIR src/cli/why DEPS gpulens_why gpulens_cli_node gpulens_cli_help gpulens_wire_json
  PRIVATE_DEPS CLI11::CLI11)
add_gpulens_library(cli_recorder DIR src/cli/recorder DEPS gpulens_sources_torch_recorder gpulens_cli_help gpulens_wire_json PRIVATE_DEPS CLI11::CLI11)
add_gpulens_library(cli_queue DIR src/cli/queue DEPS gpulens_agent_run gpulens_delivery gpulens_wire_json gpulens_cli_help
  PRIVATE_DEPS CLI11::CLI11)
add_gpulens_library(cli_probe DIR src/cli/probe DEPS gpulens_agent_run gpulens_collectors_probes gpulens_cli_help gpulens_wire_json PRIVATE_DEPS CLI11::CLI11)
add_gpulens_library(cli_proxy DIR src/cli/proxy DEPS gpulens_proxy gpulens_sdk_inference gpulens_agent_run gpulens_config gpulens_cli_help PRIVATE_DEPS CLI11::CLI11)
# What is linked, with the packages that are here now: each run of CMake looks again.
set(library_rows ${CMAKE_BINARY_DIR}/generated/cli/version/library_rows.inc)
execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libstdc++.a OUTPUT_VARIABLE libstdcxx OUTPUT_STRIP_TRAILING_WHITESPACE)
get_filename_component(libstdcxx ${libstdcxx} REALPATH)
string(REGEX REPLACE ".*/([0-9]+)/[^/]*$" "\\1" gcc_release ${libstdcxx})
set(fields)
if(CMAKE_CROSSCOMPILING)
  set(fields --fields ${CMAKE_FIND_ROOT_PATH}/../packages.tsv)
endif()
execute_process(COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_SOURCE_DIR}/tools/sbom.py ${fields} --rows ${library_rows}
                        ${Boost_VERSION_MAJOR}.${Boost_VERSION_MINOR} ${gcc_release} COMMAND_ERROR_IS_FATAL ANY)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/docs/dependencies.md ${CMAKE_SOURCE_DIR}/tools/sbom.py)
add_gpulens_library(cli_version DIR src/cli/version DEPS gpulens_cli_common PRIVATE_DEPS Boost::headers OpenSSL::Crypto dep_deflate
  dep_zstd dep_nghttp2 dep_snappy dep_sqlite dep_ncurses dep_tinfo CLI11::CLI11)
target_include_directories(gpulens_cli_version PRIVATE ${CMAKE_BINARY_DIR}/generated)
add_gpulens_library(cli DEPS gpulens_cli_version gpulens_cli_collect gpulens_cli_top gpulens_cli_events gpulens_cli_bench
  gpulens_cli_check gpulens_cli_engines gpulens_cli_slurm gpulens_cli_exp gpulens_cli_telemetry gpulens_cli_cost gpulens_sdk_experiment gpulens_sources_nvml_capture
  gpulens_cli_common gpulens_cli_compare gpulens_cli_migrate gpulens_cli_probe gpulens_cli_proxy gpulens_cli_queue gpulens_cli_recorder gpulens_cli_trace gpulens_cli_why gpulens_agent_mcp gpulens_cli_help PRIVATE_DEPS gpulens_sdk_energy gpulens_wire_pprof gpulens_job_page
  gpulens_sources_nvml_reader gpulens_sources_nvml_simulated gpulens_sources_amdsmi_reader gpulens_sources_amdsmi_simulated
  CLI11::CLI11)
target_sources(gpulens_cli PRIVATE ${gpulens_elsewhere})
set(gpulens_elsewhere)
add_executable(gpulens src/cli/gpulens_main.cc ${gpulens_older_glibc})
target_link_libraries(gpulens PRIVATE gpulens_flags gpulens_cli)
