# Who used the energy, time and money of GPUs.
include_guard()
add_gpulens_library(ledger DEPS gpulens_base)
if(TARGET ledger_bench)
  target_link_libraries(ledger_bench PRIVATE gpulens_base_testing)
endif()
