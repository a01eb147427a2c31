# Who used the energy, time and money of GPUs.
include_guard()
add_gpulens_library(ledger DEPS gpulens_base)
