# What holds GPUs, engines and jobs back.
include_guard()
add_gpulens_library(why DEPS gpulens_catalog TEST_DEPS gpulens_history gpulens_why_testing)
add_gpulens_library(why_testing DIR src/why/testing DEPS gpulens_why)
