# Libraries that jobs load.
include_guard()

add_gpulens_library(inject_nccl DIR src/inject/nccl DEPS gpulens_job_page)
file(GLOB sources CONFIGURE_DEPENDS src/inject/nccl/*.cc)
list(FILTER sources EXCLUDE REGEX "_(test|bench|fuzz)\\.cc$")
gpulens_job_library(gpulens-nccl-profiler ${sources})
# NCCL_PROFILER_PLUGIN=gpulens finds it by these names.
foreach(link libnccl-profiler-gpulens.so librccl-profiler-gpulens.so)
  add_custom_command(TARGET gpulens-nccl-profiler POST_BUILD VERBATIM
                     COMMAND ${CMAKE_COMMAND} -E create_symlink libgpulens-nccl-profiler.so ${link}
                     WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
endforeach()

include(${CMAKE_CURRENT_LIST_DIR}/cuda/targets.cmake)
