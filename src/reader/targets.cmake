# The process that opens a vendor library, and its supervisor.
include_guard()
add_gpulens_library(reader DEPS gpulens_base)
add_gpulens_library(reader_process DIR src/reader/process DEPS gpulens_reader)
