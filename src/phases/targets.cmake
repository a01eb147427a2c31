# Which phase a process is in.
include_guard()
add_gpulens_library(phases DEPS gpulens_base gpulens_job_page)
