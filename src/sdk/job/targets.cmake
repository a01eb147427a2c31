# libgpulens-job.so: the functions of gpulens/c.h for jobs, alone. Loaded by the hook of PyTorch (python/gpulens/torch_hook) and by
# programs in any language.
include_guard()
gpulens_job_library(gpulens-job src/sdk/job/job_core.cc src/sdk/c/c_job.cc src/base/version.cc)
target_include_directories(gpulens-job PRIVATE ${GPULENS_ROOT}/include)
# c.h does not mark what is exported: exports.map does.
target_compile_options(gpulens-job PRIVATE -fvisibility=default)
set(job_exports ${CMAKE_CURRENT_LIST_DIR}/exports.map)
target_link_options(gpulens-job PRIVATE -Wl,--version-script=${job_exports})
set_property(TARGET gpulens-job APPEND PROPERTY LINK_DEPENDS ${job_exports})
