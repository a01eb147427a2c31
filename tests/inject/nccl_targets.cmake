# The NCCL profiler plugin, loaded as NCCL loads it, and what all libraries that jobs load need and export.
include_guard()
# A profiler plugin that writes down its calls: the one behind ours.
gpulens_job_library(nccl_event_log tests/inject/nccl_event_log.cc)
add_dependencies(e2e_programs nccl_event_log)
if(TARGET inject_nccl_test)
  add_dependencies(inject_nccl_test gpulens-nccl-profiler nccl_event_log)
endif()
foreach(name job_libraries run_probes)
  add_test(NAME e2e_${name} COMMAND ${CMAKE_SOURCE_DIR}/tools/venv_python.sh -m unittest -v test_${name}
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/inject)
  set_tests_properties(e2e_${name} PROPERTIES LABELS e2e TIMEOUT 60 ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1;GPULENS_BUILD=${CMAKE_BINARY_DIR}")
endforeach()
# The table of layouts against the debug data of official libraries, which pip fetches.
add_test(NAME engines_nccl_layouts COMMAND ${CMAKE_SOURCE_DIR}/tools/venv_python.sh -m unittest -v test_nccl_layouts
         WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/tests/inject)
set_tests_properties(engines_nccl_layouts PROPERTIES LABELS engines TIMEOUT 1200 ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
