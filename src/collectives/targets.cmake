# Which rank of a communicator is slow or hangs.
include_guard()
add_gpulens_library(collectives DEPS gpulens_base gpulens_job_page)
if(TARGET collectives_test)  # worlds of thousands of ranks: long on a busy machine
  set_tests_properties(collectives PROPERTIES TIMEOUT 600)
endif()
