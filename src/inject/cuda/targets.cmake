# libgpulens-cuda.so, which the CUDA driver loads into jobs.
include_guard()
add_gpulens_library(inject_cuda DIR src/inject/cuda DEPS gpulens_job_page)
gpulens_job_library(gpulens-cuda src/inject/cuda/cuda_injection.cc src/inject/cuda/cupti_calls.cc)
