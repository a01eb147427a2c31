# What reads one outside thing into plain structs.
include_guard()
add_gpulens_library(sources_host_parse DIR src/sources/host/parse DEPS gpulens_base)
add_gpulens_library(sources_host DIR src/sources/host DEPS gpulens_sources_host_parse)
add_gpulens_library(sources_nvml DIR src/sources/nvml DEPS gpulens_reader)
add_gpulens_library(sources_kernel_log_parse DIR src/sources/kernel_log/parse DEPS gpulens_base)
add_gpulens_library(sources_kernel_log DIR src/sources/kernel_log DEPS gpulens_sources_kernel_log_parse)
add_gpulens_library(sources_amdsmi DIR src/sources/amdsmi DEPS gpulens_reader)
add_gpulens_library(sources_pci_aer DIR src/sources/pci_aer DEPS gpulens_base)
add_gpulens_library(sources_listening DIR src/sources/listening DEPS gpulens_net)
add_gpulens_library(sources_cloud DIR src/sources/cloud DEPS gpulens_net_client TEST_DEPS gpulens_net_testing)
add_gpulens_library(sources_kubelet_parse DIR src/sources/kubelet/parse DEPS gpulens_base)
add_gpulens_library(sources_kubelet_api DIR src/sources/kubelet/api DEPS gpulens_sources_kubelet_parse gpulens_net_client
  PRIVATE_DEPS gpulens_base_yaml TEST_DEPS gpulens_net_testing)
add_gpulens_library(sources_hl_smi DIR src/sources/hl_smi DEPS gpulens_base)
add_gpulens_library(sources_slurm_parse DIR src/sources/slurm/parse DEPS gpulens_base)
add_gpulens_library(sources_slurm DIR src/sources/slurm DEPS gpulens_sources_slurm_parse)
add_gpulens_library(sources_torch_recorder DIR src/sources/torch_recorder DEPS gpulens_base)
add_gpulens_library(sources_nccl_ras DIR src/sources/nccl_ras DEPS gpulens_job_page gpulens_net TEST_DEPS gpulens_net_blocking)
add_gpulens_library(sources_nccl_files DIR src/sources/nccl_files DEPS gpulens_job_page)
add_gpulens_library(sources_job_pages DIR src/sources/job_pages DEPS gpulens_job_page gpulens_net_blocking)
add_gpulens_library(sources_cuda DIR src/sources/cuda DEPS gpulens_base)
add_gpulens_library(sources_amdsmi_probe DIR src/sources/amdsmi/probe DEPS gpulens_reader)
add_gpulens_library(sources_amdsmi_reader DIR src/sources/amdsmi/reader DEPS gpulens_sources_amdsmi gpulens_reader_process
  PRIVATE_DEPS ${CMAKE_DL_LIBS} TEST_DEPS gpulens_sources_amdsmi_simulated)
add_gpulens_library(sources_amdsmi_simulated DIR src/sources/amdsmi/simulated DEPS gpulens_sources_amdsmi PRIVATE_DEPS gpulens_base_yaml
  TEST_DEPS gpulens_sources_amdsmi_reader)
add_gpulens_library(sources_nvml_probe DIR src/sources/nvml/probe DEPS gpulens_reader)
add_gpulens_library(sources_nvml_reader DIR src/sources/nvml/reader DEPS gpulens_sources_nvml gpulens_reader_process
  PRIVATE_DEPS ${CMAKE_DL_LIBS} TEST_DEPS gpulens_sources_nvml_simulated)
add_gpulens_library(sources_nvml_recording DIR src/sources/nvml/recording DEPS gpulens_sources_nvml PRIVATE_DEPS gpulens_base_yaml)
add_gpulens_library(sources_nvml_capture DIR src/sources/nvml/capture DEPS gpulens_sources_nvml_reader
  gpulens_sources_nvml_recording TEST_DEPS gpulens_sources_nvml_simulated)
add_gpulens_library(sources_nvml_simulated DIR src/sources/nvml/simulated DEPS gpulens_sources_nvml
  gpulens_sources_nvml_recording PRIVATE_DEPS gpulens_base_yaml TEST_DEPS gpulens_sources_nvml_reader)
add_gpulens_library(sources_nvml_processes DIR src/sources/nvml/processes DEPS gpulens_base)
include(${CMAKE_CURRENT_LIST_DIR}/nvml/simulated/targets.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/amdsmi/simulated/targets.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/bpf/targets.cmake)
