gpulens_link(gpulens_sources_nvml gpulens_driver_metrics gpulens_sources_nvml_probe gpulens_sources_nvml_processes
           gpulens_sources_pci_aer)
gpulens_test_link(gpulens_sources_nvml_driver gpulens_sources_nvml_fake gpulens_base_testing
                gpulens_pipeline_events gpulens_dialects)
