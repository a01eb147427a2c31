# The library for programs.
include_guard()
add_gpulens_library(sdk_ring_record DIR src/sdk/ring/record DEPS gpulens_instruments)
add_gpulens_library(sdk_ring DIR src/sdk/ring DEPS gpulens_sdk_ring_record)
add_gpulens_library(sdk_export DIR src/sdk/export DEPS gpulens_catalog gpulens_instruments gpulens_wire gpulens_wire_otlp
  gpulens_net_blocking gpulens_net_grpc TEST_DEPS gpulens_net_testing)
add_gpulens_library(sdk_inference DIR src/sdk/inference DEPS gpulens_store_telemetry gpulens_store_telemetry_servers
  gpulens_sdk_energy PRIVATE_DEPS gpulens_net_client TEST_DEPS dep_sqlite)
add_gpulens_library(sdk_job DIR src/sdk/job DEPS gpulens_base TEST_DEPS gpulens_job_page gpulens_sdk_c)
add_gpulens_library(sdk_c DIR src/sdk/c DEPS gpulens_sdk_export gpulens_sdk_energy gpulens_sdk_inference gpulens_sdk_job)
add_gpulens_library(sdk_experiment DIR src/sdk/experiment DEPS gpulens_store_experiments gpulens_sdk_energy
  PRIVATE_DEPS dep_sqlite TEST_DEPS dep_sqlite)
add_gpulens_library(sdk_energy_processes DIR src/sdk/energy/processes DEPS gpulens_sources_host)
add_gpulens_library(sdk_energy_feed DIR src/sdk/energy/feed DEPS gpulens_sdk_energy_processes TEST_DEPS gpulens_sdk_energy)
add_gpulens_library(sdk_energy_sources DIR src/sdk/energy/sources DEPS gpulens_sdk_energy_feed gpulens_sdk_energy_processes
  gpulens_sources_nvml_reader gpulens_sources_amdsmi_reader gpulens_sources_host TEST_DEPS gpulens_sources_nvml_simulated
  gpulens_sources_amdsmi_simulated)
add_gpulens_library(sdk_energy DIR src/sdk/energy DEPS gpulens_energy gpulens_sdk_energy_sources
  TEST_DEPS gpulens_sources_nvml_simulated)
add_gpulens_library(sdk_ring_resident DIR src/sdk/ring/resident DEPS gpulens_sources_cuda)
# Its test runs against a simulated driver everywhere, and once more where there is a GPU.
if(TARGET sdk_ring_resident_test)
  add_test(NAME gpu_resident_kernel COMMAND sdk_ring_resident_test --gtest_filter=ResidentOnGpu.*
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(gpu_resident_kernel PROPERTIES LABELS gpu TIMEOUT 300 RUN_SERIAL TRUE
    SKIP_REGULAR_EXPRESSION "SKIPPED")
endif()
include(${CMAKE_CURRENT_LIST_DIR}/training/targets.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/job/targets.cmake)
