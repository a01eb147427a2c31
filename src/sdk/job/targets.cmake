# libgpulens-job.so: the functions of gpulens/c.h for jobs, alone. Loaded by the hook of PyTorch (python/gpulens/torch_hook) and by
# programs in any language; the C library alone, with symbols of glibc 2.17.
include_guard()
add_library(gpulens_job_library SHARED ${GPULENS_ROOT}/src/sdk/job/job_core.cc ${GPULENS_ROOT}/src/sdk/c/c_job.cc
            ${GPULENS_ROOT}/src/base/version.cc)
set_target_properties(gpulens_job_library PROPERTIES OUTPUT_NAME gpulens-job)
target_link_libraries(gpulens_job_library PRIVATE gpulens_flags)
target_include_directories(gpulens_job_library PRIVATE ${GPULENS_ROOT}/src ${GPULENS_ROOT}/include)
target_compile_options(gpulens_job_library PRIVATE -fno-exceptions -fno-rtti -fno-threadsafe-statics)
set(job_exports ${GPULENS_ROOT}/src/sdk/job/exports.map)
target_link_options(gpulens_job_library PRIVATE -Wl,--version-script=${job_exports})
set_property(TARGET gpulens_job_library APPEND PROPERTY LINK_DEPENDS ${job_exports})
