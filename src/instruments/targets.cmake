# Counters, gauges and histograms of programs.
include_guard()
add_gpulens_library(instruments DEPS gpulens_base)
