# The shared memory between libraries inside jobs and the agent.
include_guard()
add_gpulens_library(job_page DEPS gpulens_base)
