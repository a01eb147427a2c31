# Energy from power.
include_guard()
add_gpulens_library(energy DEPS gpulens_base)
if(TARGET energy_test)  # a corpus of simulated counters and loads: long with a sanitizer on a busy machine
  set_tests_properties(energy PROPERTIES TIMEOUT 600)
endif()
