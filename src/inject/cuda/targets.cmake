# libgpulens-cuda.so, which the CUDA driver loads into jobs: the C library alone, with symbols of glibc 2.17.
include_guard()
add_library(gpulens_cuda SHARED src/inject/cuda/cuda_injection.cc src/inject/cuda/cupti_calls.cc)
set_target_properties(gpulens_cuda PROPERTIES OUTPUT_NAME gpulens-cuda CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
target_link_libraries(gpulens_cuda PRIVATE gpulens_flags)
target_include_directories(gpulens_cuda PRIVATE src include)
target_compile_definitions(gpulens_cuda PRIVATE GPULENS_VERSION="${PROJECT_VERSION}")
target_compile_options(gpulens_cuda PRIVATE -fno-exceptions -fno-rtti -fno-threadsafe-statics)
# The driver keeps pointers to it: it stays until the process ends.
target_link_options(gpulens_cuda PRIVATE -Wl,-z,nodelete)
# libdl.so.2 holds dlopen in old systems; in new ones it is there for those that name it.
target_link_options(gpulens_cuda PRIVATE -Wl,--no-as-needed -l:libdl.so.2 -Wl,--as-needed)
