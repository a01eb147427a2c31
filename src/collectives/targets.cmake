# Which rank of a communicator is slow or hangs.
include_guard()
add_gpulens_library(collectives DEPS gpulens_base gpulens_job_page)
