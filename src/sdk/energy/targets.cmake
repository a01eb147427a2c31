# Energy of windows and requests: the sources, and the sampler over them. Included by the top.
include_guard()
add_gpulens_library(sdk_energy_processes DIR src/sdk/energy/processes DEPS gpulens_base gpulens_sources_host TEST_DEPS gpulens_base_testing)
add_gpulens_library(sdk_energy_feed DIR src/sdk/energy/feed DEPS gpulens_base gpulens_sdk_energy_processes TEST_DEPS gpulens_sdk_energy gpulens_base_testing)
add_gpulens_library(sdk_energy_sources DIR src/sdk/energy/sources
              DEPS gpulens_base gpulens_sdk_energy_feed gpulens_sdk_energy_processes gpulens_sources_nvml_driver gpulens_sources_amdsmi_driver gpulens_sources_host
              TEST_DEPS gpulens_sources_nvml_fake gpulens_sources_amdsmi_fake gpulens_base_testing)
add_gpulens_library(sdk_energy DIR src/sdk/energy DEPS gpulens_energy gpulens_sdk_energy_sources
              TEST_DEPS gpulens_sources_nvml_fake gpulens_base_testing rapidcheck)
# A part of the library above it, to keep that folder small.
file(GLOB sdk_energy_account_sources CONFIGURE_DEPENDS src/sdk/energy/*.cc)
target_sources(gpulens_sdk_energy PRIVATE ${sdk_energy_account_sources})
